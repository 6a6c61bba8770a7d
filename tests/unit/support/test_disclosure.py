"""The search for secrets finds one in an argument, in a file, and behind a page's link."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.run.stack import wait_until
from support.spark.disclosure import in_arguments, in_files, pages

WORD = "of-nobody-4be1a7"


def test_an_argument_is_found_while_its_process_lives() -> None:
    command = [sys.executable, "-c", "input()", WORD]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        wait_until(lambda: len(in_arguments([WORD])) == 1, 10, "its arguments are not to be seen")
        process.kill()
    assert in_arguments([WORD]) == []


def test_a_file_is_found_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log").write_text(f"password={WORD}\n")
    (tmp_path / "other").write_text("nothing")
    assert in_files([tmp_path], [WORD]) == [tmp_path / "deep" / "log"]


class Pages(BaseHTTPRequestHandler):
    """A page that links to another, on which the word stands."""

    def do_GET(self) -> None:
        first = '<a href="/second?a=1&amp;b=2">on</a><a href="http://192.0.2.1/">elsewhere</a>'
        body = (first if self.path == "/" else WORD).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_pages_are_followed_on_their_own_machine_alone() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    start = f"http://127.0.0.1:{server.server_port}/"
    try:
        shown = dict(pages(start))
    finally:
        server.shutdown()
        server.server_close()
    assert shown[f"{start}second?a=1&b=2"] == WORD
    assert len(shown) == 2
