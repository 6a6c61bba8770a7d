"""`manage.py invoice-trends`: revenue by day, store and product, from the archive of invoices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.retail.views import money

LONGEST_S = 600
"""How long Spark may take, s."""
MOST_DAYS = 3_650


class Command(BaseCommand):
    """Have Spark add up the archive."""

    help = "Adds up the archive of invoices by day, store and product, with Spark SQL."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --days and --json."""
        parser.add_argument("--days", type=int, default=7, help="UTC days, with today (7)")
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def handle(self, *_args: Any, days: int, **options: Any) -> None:
        """Print the sums. Raises CommandError if `--days` is out of range or Spark fails."""
        if not 1 <= days <= MOST_DAYS:
            raise CommandError(f"--days: expected 1 to {MOST_DAYS:,}, got {days}")
        text = _sums(days)
        if options["json"]:
            self.stdout.write(text)
            return
        for line in printed(json.loads(text)):
            self.stdout.write(line)


def _sums(days: int) -> str:
    """Return the sums that Spark computes, as JSON. Raises CommandError."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "streaming.invoice_trends", str(days)],
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"Spark did not answer within {LONGEST_S} s") from None
    if done.returncode:
        raise CommandError(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip().splitlines()[-1]


def printed(sums: dict[str, Any]) -> Iterator[str]:
    """Yield the sums as tables for a terminal."""
    heads = ("invoices", "lines", "revenue", "PRIME", "delivered")
    days = [(row["day"], *_figures(row)) for row in sums["days"]]
    yield from _table(("day", *heads), [*days, ("all", *_figures(sums["total"]))])
    yield ""
    yield from _table(("store", *heads), [(r["store"], *_figures(r)) for r in sums["stores"]])
    yield ""
    products = [
        (row["product"], f"{row['pieces']:,}", money(row["revenue"] or 0), row["title"])
        for row in sums["products"]
    ]
    yield from _table(("product", "pieces", "revenue", "title"), products)


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    shares = (f"{row[name] or 0:.1%}" for name in ("prime_share", "delivered_share"))
    return (f"{row['invoices']:,}", f"{row['lines']:,}", money(row["revenue"] or 0), *shares)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Iterator[str]:
    cells = [[_printable(cell or "") for cell in row] for row in [heads, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heads))]
    for first, *others in cells:
        padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *padded])


def _printable(text: str) -> str:
    """Return a text without control characters for the terminal: product titles are not trusted."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
