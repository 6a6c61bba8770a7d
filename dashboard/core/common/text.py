"""Text for people: names within sentences, Markdown, and the progress of a command."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
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

# ---- bidi ----------------------------------------------------------------------------------------
# External names within sentences: whatever their writing direction, the sentence keeps its own.

# Characters that control the direction of text, or end its paragraph.
_CONTROLS = r"\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
# The ranges of the scripts that are written from right to left.
_LEFTWARDS = r"\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"

_STEERS = re.compile(f"[{_CONTROLS}]")
_TURNS = re.compile(f"[{_CONTROLS}{_LEFTWARDS}]")


def isolated(name: str) -> str:
    """Return the name for a sentence without markup.

    A name that may turn the text is put between Unicode's FSI and PDI, like HTML's `<bdi>`.
    Characters that would break out of it are shown as replaced, as in `js/board/badges.js`.
    """
    return f"\u2068{_STEERS.sub(chr(0xFFFD), name)}\u2069" if _TURNS.search(name) else name


# ---- amounts -------------------------------------------------------------------------------------


def whole_percent(share: float) -> str:
    """Return a share as a whole percentage, `49 %`; it may be negative."""
    return f"{share * 100:.0f} %".replace("-", "−")


# ---- markdown ------------------------------------------------------------------------------------
# Markdown that is also readable as plain text.

_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")
_BREAKS = re.compile(r"\s*[\r\n\u2028\u2029]+\s*")


def plain(text: str) -> str:
    """Return a user's text on one line, with all markup escaped."""
    return escaped(isolated(_BREAKS.sub(" / ", text.strip())))


def escaped(text: str) -> str:
    """Return a sentence with all markup escaped; the names in it are already isolated."""
    return _MARKS.sub(r"\\\1", text)


# ---- progress bar --------------------------------------------------------------------------------
# A progress bar for management commands on standard error, or lines if that is not a terminal.

LINE_EVERY_S = 2.0


class _RateColumn(ProgressColumn):
    """How much is done per second."""

    def render(self, task: Task) -> Text:
        """Return the rate (steps per s), or nothing while it is unknown."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "")


class Bar:
    """A progress bar: `bar(done, total)` shows how far the work has come."""

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

    def next(self, title: str) -> Callable[[int, int], None]:
        """Return what shows how far the work after this has come, in its own line."""

        def show(done: int, total: int) -> None:
            if self._title != title:
                self._title, self._begun = title, time.monotonic()
                self._task = self._progress.add_task(title, total=None)
            self(done, total)

        return show

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
