"""`manage.py view NAME`: the table of a view, and its changes as they come."""

from __future__ import annotations

import signal
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from bus.base import BusError
from dashboard.core.common.times import now_ms
from dashboard.operate.console.topic_copies import ViewTailer, why_not
from dashboard.operate.console.topic_table import (
    MAX_PATTERN,
    RowChange,
    TopicRow,
    TopicRowFilter,
    ViewTable,
)
from dashboard.operate.console.topics import (
    BadExpression,
    TopicView,
    ViewError,
    declared_views,
    expression,
    printed,
)

LOGIN_WINDOWS = "login-windows"
"""The name of what is no topic's table: the windows of the login guard."""
PAUSE_S = 0.5
PAGE = 1_000


class Command(BaseCommand):
    """The command that prints a view, from a copy of its own that it reads from the topic."""

    help = (
        "Prints a view's rows: key, tab, value. With --follow, then its changes: + a new row, "
        "~ a row with another value, - a key whose row is gone. login-windows is the login "
        "guard's view: client, begin, length and actions of each window that is over."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the name, --follow, --key, --matches, --not-empty and --timeout."""
        parser.add_argument("name", help="as views.toml names it, or login-windows")
        parser.add_argument("--follow", action="store_true", help="print changes until Ctrl-C")
        parser.add_argument("--key", default="", help="a pattern of keys: 'order-1*'")
        parser.add_argument("--matches", default="", help="a regular expression of keys, by RE2")
        parser.add_argument("--not-empty", action="store_true", help="leave empty values out")
        parser.add_argument("--timeout", type=float, default=60, help="seconds to catch up in (60)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print until all is printed, or until stopped. Raises CommandError."""
        from bus.kafka import KafkaBus  # only a process that reads loads Kafka's library

        if len(options["key"]) > MAX_PATTERN:
            raise CommandError(f"--key: expected at most {MAX_PATTERN} characters")
        criteria = TopicRowFilter(
            options["key"], options["not_empty"], _expression(options["matches"])
        )
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        if options["name"] == LOGIN_WINDOWS:
            self._print_windows(criteria, stop, options)
            return
        table = ViewTable(_declared(options["name"]))
        printout = Printout(table, criteria, self.stdout.write, self.stderr.write)
        bus = KafkaBus(settings.TALLYBOARD.kafka_options())
        tailer = ViewTailer(bus, [table], now_ms, printout.print_changes)
        end = time.monotonic() + options["timeout"]
        while not stop.is_set():
            try:
                stop.wait(tailer.pause_s(tailer.step()))
            except BusError as error:
                self.stderr.write(f"Kafka: {error}")
                stop.wait(PAUSE_S)
            printout.print_table()
            if printout.whole and not options["follow"]:
                return
            if not printout.whole and (time.monotonic() > end or printout.hopeless):
                raise CommandError(why_not(table, table.state()))

    def _print_windows(
        self, criteria: TopicRowFilter, stop: Event, options: dict[str, Any]
    ) -> None:
        from bus.kafka import KafkaBus
        from dashboard.operate.console.login_windows import NoWindows, WindowPrintout

        config, passes = settings.TALLYBOARD, criteria.test()
        printout = WindowPrintout(
            lambda client: passes(TopicRow(client.encode(), b"", 0, 0, 0)),
            self._write_at_once,
            self.stderr.write,
            now_ms,
        )
        follow, within_s = options["follow"], options["timeout"]
        try:
            bus = KafkaBus(config.kafka_options())
            printout.run(config, bus, stop, follow=follow, within_s=within_s)
        except (NoWindows, BusError) as error:
            raise CommandError(str(error)) from None

    def _write_at_once(self, line: str) -> None:
        """Print at once, also into a pipe."""
        self.stdout.write(line)
        self.stdout.flush()


class Printout:
    """What of a view has been printed. whole: the table, as it was when it had caught up."""

    def __init__(
        self,
        table: ViewTable,
        criteria: TopicRowFilter,
        write: Callable[[str], Any],
        remark: Callable[[str], Any],
    ) -> None:
        """write: of lines of the table; remark: of what is said beside it."""
        self._table, self._passes = table, criteria.test()
        self._write, self._remark = write, remark
        self._restarts = 0
        self.whole = False

    @property
    def hopeless(self) -> bool:
        """Return whether waiting for the table is of no use."""
        return self._table.state().status in ("topic-absent", "too-large")

    def print_table(self) -> None:
        """Print the table once it has caught up, and again where its topic is another."""
        state = self._table.state()
        if state.restarts > self._restarts:
            self._restarts, self.whole = state.restarts, False
            self._remark(f"{self._table.view.topic} is another topic now. Its table:")
        if self.whole or state.status != "ready":
            return
        self.whole, after = True, None
        while True:
            page = self._table.page(self._passes, PAGE, after)
            for row in page.rows:
                self._write(_line(row))
            if page.following is None:
                return
            after = page.following

    def print_changes(self, _table: ViewTable, changes: Sequence[RowChange]) -> None:
        """Print changes to the table that is printed, none to one that is begun anew."""
        if not self.whole or self._table.state().restarts > self._restarts:
            return
        for change in changes:
            before, after = self._passing(change.before), self._passing(change.after)
            if after is not None:
                self._write(f"{'~' if before else '+'} {_line(after)}")
            elif before is not None:
                self._write(f"- {printed(change.key)}")

    def _passing(self, row: TopicRow | None) -> TopicRow | None:
        return row if row is not None and self._passes(row) else None


def _line(row: TopicRow) -> str:
    return f"{printed(row.key)}\t{printed(row.value)}"


def _expression(text: str) -> str:
    """Return a regular expression that is one. Raises CommandError."""
    try:
        expression(text)
    except BadExpression as error:
        raise CommandError(f"--matches: expected {error}") from None
    return text


def _declared(name: str) -> TopicView:
    """Return a view. Raises CommandError."""
    try:
        views = declared_views()
    except ViewError as error:
        raise CommandError(str(error)) from None
    if name not in views:
        raise CommandError(f"{name!r} is none of: {', '.join(views) or 'no view is declared'}")
    return views[name]
