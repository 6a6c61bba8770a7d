"""How a process of Spark ends when it is asked to."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

# From the signal to the end, at most.
PATIENCE_S = 7.0


def stop_on_signals(stop: threading.Event) -> None:
    """Let SIGTERM and SIGINT set `stop`, and end the process when that takes too long."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            last = threading.Timer(PATIENCE_S, os._exit, args=(1,))
            last.daemon = True
            last.start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
