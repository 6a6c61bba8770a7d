"""A small web server to probe, there to be stopped and started: `python -m agents.demo.target`."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import structlog

from agents.process import stop_on_signals
from config.entry import enter
from config.logs import configure_logs

log = structlog.get_logger("agents.demo.target")


class ProbeHandler(BaseHTTPRequestHandler):
    """Answers every GET with 200."""

    timeout = 5

    def do_GET(self) -> None:
        """Answer that all is well."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: probes come every few seconds, and a line for each would be noise."""


class ProbeServer(ThreadingHTTPServer):
    """Listens for probes. A hanging request does not keep the process alive."""

    daemon_threads = True


def serve(host: str, port: int, stop: threading.Event) -> None:
    """Serve until `stop`. Raises OSError if the port is in use."""
    with ProbeServer((host, port), ProbeHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        log.info("listening", host=host, port=server.server_port)
        stop.wait()
        server.shutdown()
        thread.join()


def main() -> None:
    """Serve until SIGTERM. Exits with a message if the port is in use."""
    settings = enter()
    configure_logs(settings.log_level, "target")
    try:
        serve(settings.http_host, settings.target, stop_on_signals())
    except OSError as error:
        sys.exit(f"target: port {settings.target} (TALLYBOARD_TARGET_PORT): {error.strerror}")


if __name__ == "__main__":
    main()
