"""`manage.py import-history`: bring in changes of states from before the product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.text import Bar
from dashboard.core.common.times import now_ms, utc
from dashboard.notify.summaries.history_import import HistoryImport, ImportProblem


class Command(BaseCommand):
    """Check a file of changes, and with --apply write their history."""

    help = (
        "Checks a file of changes of states from before the product (NDJSON, see docs/summary.md) "
        "and says what it comes to; with --apply, brings it in."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the file and --apply."""
        parser.add_argument("file", type=Path, help="one JSON object a line")
        parser.add_argument("--apply", action="store_true", help="write it (check it alone)")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Check, or bring in. Raises CommandError for a file that cannot be brought in."""
        path: Path = options["file"]
        whole = HistoryImport(now_ms(), apply=options["apply"])
        try:
            size = path.stat().st_size
            with path.open("rb") as lines, Bar("bytes") as bar:
                whole.read(lines, lambda done: bar(done, size))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None
        except ImportProblem as problem:
            raise CommandError(f"{path}:{problem}") from None
        finally:  # what was written before stays
            self._conclude(whole, path)
        if not options["apply"]:
            self.stdout.write("Nothing has been written. Add --apply to bring it in.")

    def _conclude(self, whole: HistoryImport, path: Path) -> None:
        """Say what the file comes to; record what was written."""
        for scenario, tally in whole.tallies.items():
            known = f", of which {tally.known:,} were there already" if tally.known else ""
            since = f" since {utc(tally.begin)}" if tally.begin is not None else ""
            self.stdout.write(
                f"{scenario}: {tally.changes:,} changes of {tally.assets:,} assets{since}{known}."
            )
        if whole.apply:
            whole.finish(path.name)
            tallies = whole.tallies.items()
            changes = {n: t.changes - t.known for n, t in tallies if t.changes > t.known}
            if changes:
                record(Actor.shell(), "summary.imported", target=path.name, changes=changes)
