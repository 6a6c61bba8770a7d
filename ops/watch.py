"""Tell the person at the console when a supervised process ends unexpectedly."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ops.supervise import NotRunning, ProcessStatus, Supervisor, log_path

QUIET_S = 30.0
ALIVE = ("STARTING", "RUNNING")


class Watch:
    """Compares the supervisor's status with the previous one."""

    def __init__(
        self,
        data_dir: Path,
        say: Callable[[str], None],
        statuses: Callable[[], dict[str, ProcessStatus]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data_dir, self._say, self._clock = data_dir, say, clock
        self._statuses = statuses or Supervisor(data_dir).statuses
        self._last: dict[str, ProcessStatus] = {}
        self._spoken: dict[str, float] = {}

    def look(self) -> None:
        """Report each process that ended by itself since the last call, at most twice a minute."""
        try:
            now = self._statuses()
        except NotRunning:
            return
        for name, status in now.items():
            if self._failed(self._last.get(name), status):
                self._report(status)
        self._last = now

    @staticmethod
    def _failed(before: ProcessStatus | None, now: ProcessStatus) -> bool:
        if now.state in ("BACKOFF", "FATAL", "EXITED"):
            return before is None or before.state != now.state
        if before is None or before.state not in ALIVE or now.state not in ALIVE:
            return False
        return before.pid != now.pid

    def _report(self, status: ProcessStatus) -> None:
        moment = self._clock()
        if moment - self._spoken.get(status.name, -QUIET_S) < QUIET_S:
            return
        self._spoken[status.name] = moment
        log = log_path(self._data_dir, status.name)
        self._say(f"{status.name} ended unexpectedly and is restarted; its log: {log}")
