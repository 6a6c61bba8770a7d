"""daphne with a tailer, and websockets that pass their messages to the system at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import reactor

from dashboard.serve.server.request_limits import IDLE_S, Bounds, Connection, Crowd

# ---- direct socket -------------------------------------------------------------------------------
# A websocket that passes its messages to the system at once.
#
# Twisted first waits for the event loop to report that a connection is writable, although it nearly
# always is: for each message, two changes to what the loop waits for and one turn of the loop.


class DirectSocket(WebSocketProtocol):
    """daphne's websocket; whatever the system does not accept at once is queued as usual."""

    transport: Any

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:  # noqa: N802
        """Send frame bytes, after those already queued."""
        begun = 0 if sync or chopsize or self._waits() else self._sent(data)
        if begun < len(data):
            super().sendData(data[begun:], sync, chopsize)

    def _waits(self) -> bool:
        """Return whether something is queued, or nothing more may be sent."""
        line = self.transport
        waiting = self.send_queue or line.dataBuffer or line._tempDataBuffer  # noqa: SLF001
        return bool(waiting or line.disconnecting or not line.connected)

    def _sent(self, data: bytes) -> int:
        """Return how many bytes the system accepted; the loop will notice a lost connection."""
        taken = self.transport.writeSomeData(data)
        return taken if isinstance(taken, int) else 0


# ---- daphne --------------------------------------------------------------------------------------
# daphne with a tailer, which starts once the address is bound and stops with the server.

# Largest websocket frame that is read at all, bytes.
MAX_FRAME = 65_536
# Largest websocket message in either direction, bytes; a snapshot of long names is some megabytes.
MAX_MESSAGE = 16 << 20
# How long a request may go on after its browser has gone or the server was told to stop, s.
PATIENCE_S = 2


class WebServer(Server):
    """daphne's server; it stores why it could not listen."""

    failure: str | None = None
    connections: dict[Any, dict[str, Any]]

    def listen_error(self, failure: Any) -> None:
        """Store the reason, and stop."""
        self.failure = failure.getErrorMessage()
        self.stop()

    def kill_all_applications(self) -> Any:
        """End the running applications; connections that have sent no request yet have none."""
        everything = self.connections
        self.connections = {
            protocol: details
            for protocol, details in everything.items()
            if "application_instance" in details
        }
        ended = super().kill_all_applications()
        self.connections = everything
        return ended


def serve(
    application: Any, host: str, port: int, bounds: Bounds, starts: Iterable[Callable[[], None]]
) -> str | None:
    """Serve until SIGTERM or SIGINT. Returns why it could not listen, or None.

    starts: called once the address is bound.
    """

    def ready() -> None:
        server.http_factory.protocol, server.http_factory.timeOut = Connection, IDLE_S
        server.http_factory.crowd = Crowd(bounds)
        server.ws_factory.protocol = DirectSocket
        server.ws_factory.setProtocolOptions(failByDrop=False)  # report an oversized message
        for start in starts:
            start()

    server = WebServer(
        application=application,
        endpoints=[f"tcp:port={port}:interface={_escaped(host)}"],
        websocket_max_message_size=MAX_MESSAGE,
        websocket_max_frame_size=MAX_FRAME,
        application_close_timeout=PATIENCE_S,
        ready_callable=ready,
        server_name="tallyboard",
        verbosity=0,
    )
    loop: Any = reactor
    loop.addSystemEventTrigger("before", "shutdown", _close_sockets, server)
    server.run()
    return server.failure


def _escaped(host: str) -> str:
    """Return the host escaped for an endpoint description, in which colons separate."""
    return host.strip("[]").replace(":", "\\:")


def _close_sockets(server: WebServer) -> None:
    """Close browsers' sockets as the server goes away, so that they reconnect at once."""
    for protocol in list(server.connections):
        if hasattr(protocol, "serverClose"):
            protocol.serverClose(1001)
