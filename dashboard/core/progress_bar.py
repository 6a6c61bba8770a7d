"""A progress bar for management commands, on standard error; lines where that is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

LINE_EVERY_S = 2.0


class _RateColumn(ProgressColumn):
    """How much is done in a second."""

    def render(self, task: Task) -> Text:
        """Return the rate (steps per s), or nothing until it is known."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "")


class Bar:
    """`bar(done, total)` shows how far the work has come."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self._printed = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task(title, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` is done."""
        self._progress.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if self._progress.disable and now - self._printed > LINE_EVERY_S:
            self._printed = now
            rate = done / max(now - self._begun, 0.001)
            left = f", {(total - done) / rate:.0f} s left" if rate else ""
            line = f"{self._title}: {done:,} of {total:,}, {rate:,.0f}/s{left}"
            print(line, file=sys.stderr, flush=True)
