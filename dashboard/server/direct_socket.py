"""A websocket that hands its messages to the system at once.

Twisted has the event loop say first that a connection can be written to, though it nearly always
can: two changes of what the loop waits for, and a turn of it, for each message.
"""

from __future__ import annotations

from typing import Any

from daphne.ws_protocol import WebSocketProtocol


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
