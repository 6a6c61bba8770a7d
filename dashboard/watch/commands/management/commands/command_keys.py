"""`manage.py command_keys`: the keys that sign commands, from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.kafka import key_file
from dashboard.core.common.times import iso_second, now_ms, unix_ms
from wire.keys import Key, KeyFile, KeysProblem, Ring


class Command(BaseCommand):
    """A command that lists, rotates and retires keys; it never shows a secret."""

    help = "List the keys that sign commands, replace the current one, or retire one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the actions."""
        what = parser.add_subparsers(dest="what", required=True)
        what.add_parser("list", help="every key, from when to when it counts, and which one signs")
        what.add_parser(
            "rotate",
            help="make a key that signs after two minutes; others end five minutes later",
        )
        retire = what.add_parser("retire", help="retire a key, for example a stolen one")
        retire.add_argument("key", help="its id")
        retire.add_argument(
            "--since",
            help="from when on its signatures do not count: 2026-11-22T17:00:00Z (default: now)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Carry out the action.

        Raises CommandError for a wrong id or time, or a file that cannot be read.
        """
        try:
            keys, now = key_file(), now_ms()
            if options["what"] == "rotate":
                self._rotate(keys, now)
            elif options["what"] == "retire":
                self._retire(keys, options["key"], _since(options["since"], now), now)
            self._list(keys.ring(), now)
        except KeysProblem as problem:
            raise CommandError(str(problem)) from None

    def _rotate(self, keys: KeyFile, now: int) -> None:
        ring = keys.ring().rotated(now)
        keys.write(ring)
        record(Actor.shell(), "keys.rotated", target=ring.keys[-1].id)

    def _retire(self, keys: KeyFile, name: str, until: int, now: int) -> None:
        keys.write(keys.ring().retired(name, until, now))
        record(Actor.shell(), "keys.retired", target=name, until=until)

    def _list(self, ring: Ring, now: int) -> None:
        signing = ring.signing(now)
        for key in ring.keys:
            self.stdout.write(_line(key, signs=key == signing))


def _line(key: Key, *, signs: bool) -> str:
    begin = iso_second(key.since) if key.since else "always"
    end = "" if key.until is None else f" until {iso_second(key.until)}"
    return f"{key.id} counts from {begin}{end}{', signs now' if signs else ''}"


def _since(text: str | None, now: int) -> int:
    """Return the time, Unix ms. Raises CommandError."""
    if text is None:
        return now
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        since = None
    if since is None or since.tzinfo is None or unix_ms(since) > now:
        raise CommandError(f"--since is {text!r}: expected a past time as in --help")
    return unix_ms(since)
