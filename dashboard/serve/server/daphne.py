"""daphne with a tailer, whose websockets hand their messages to the system at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import reactor

from dashboard.serve.server.request_limits import IDLE_S, Bounds, Connection, Crowd

# ---- direct socket -------------------------------------------------------------------------------
# A websocket that hands its messages to the system at once.
#
# Twisted has the event loop say first that a connection can be written to, though it nearly always
# can: two changes of what the loop waits for, and a turn of it, for each message.


class DirectSocket(WebSocketProtocol):
    """daphne's websocket; what the system does not take at once waits as it would have."""

    transport: Any

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:  # noqa: N802
        """Send bytes of frames, after those that wait."""
        begun = 0 if sync or chopsize or self._waits() else self._sent(data)
        if begun < len(data):
            super().sendData(data[begun:], sync, chopsize)

    def _waits(self) -> bool:
        """Return whether something waits to be sent, or nothing more is to be."""
        line = self.transport
        waiting = self.send_queue or line.dataBuffer or line._tempDataBuffer  # noqa: SLF001
        return bool(waiting or line.disconnecting or not line.connected)

    def _sent(self, data: bytes) -> int:
        """Return how many bytes the system took; of a lost connection the loop will hear."""
        taken = self.transport.writeSomeData(data)
        return taken if isinstance(taken, int) else 0


# ---- daphne --------------------------------------------------------------------------------------
# daphne with a tailer: started once the address is taken, stopped with the server.

# Largest websocket frame that is read at all, bytes.
MAX_FRAME = 65_536
# Largest websocket message either way, bytes: a snapshot of long names is some megabytes.
MAX_MESSAGE = 16 << 20
# How long a request may go on after its browser has gone, or the server was told to stop, s.
PATIENCE_S = 2


class WebServer(Server):
    """daphne's server, which keeps why it could not listen."""

    failure: str | None = None
    connections: dict[Any, dict[str, Any]]

    def listen_error(self, failure: Any) -> None:
        """Store the reason, and do not start."""
        self.failure = failure.getErrorMessage()
        self.stop()

    def kill_all_applications(self) -> Any:
        """End what answers; of a connection that has sent no request yet there is nothing."""
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
    """Serve until SIGTERM or SIGINT; returns why it could not listen, or None.

    starts: called once the address is taken.
    """

    def ready() -> None:
        server.http_factory.protocol, server.http_factory.timeOut = Connection, IDLE_S
        server.http_factory.crowd = Crowd(bounds)
        server.ws_factory.protocol = DirectSocket
        server.ws_factory.setProtocolOptions(failByDrop=False)  # an oversized message is told so
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
    """Return the host as a part of an endpoint's description, where a colon separates."""
    return host.strip("[]").replace(":", "\\:")


def _close_sockets(server: WebServer) -> None:
    """Close the sockets for browsers as the server goes away, so that they come back at once."""
    for protocol in list(server.connections):
        if hasattr(protocol, "serverClose"):
            protocol.serverClose(1001)
