"""How long the first start of a materialiser takes over a database of an older version, which knows
changes alone: `python -m bench.seed`.

The spans and incidents of all assets are made of their changes, a portion at a time. An SQLite file
in a temporary directory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench import history
from bench.command import Measured, module_command, parser_of, run
from bench.results import Row
from bench.stack import ROOT, say
from domain.scenario_parser import load_scenarios

SIZES = ((20_000, 120_000), (100_000, 1_000_000))
"""Assets, and their changes."""


def main() -> None:
    """Measure what the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--assets", type=int, help="with --changes, in place of both sizes")
    parser.add_argument("--changes", type=int)
    run("seed", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Seed a database of each size."""
    given = (options.assets, options.changes)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tallyboard-bench-") as folder:
        history.prepare(Path(folder))
        for assets, changes in [given] if all(given) else SIZES:
            say(f"seed: {assets:,} assets, {changes:,} changes")
            _fill(assets, changes)
            rows += _rows(assets, changes, _portions())
    return rows, []


def _fill(assets: int, changes: int) -> None:
    """Write states and changes in place of what is there."""
    from django.db import connection

    each = changes // assets // 2
    made = ("summaries_progress", "summaries_presence", "summaries_troublespan")
    tables = {
        "board_assetstate": (history.STATE, history.states(assets, each)),
        "board_transition": (history.TRANSITION, history.transitions(assets, each)),
    }
    with connection.cursor() as cursor:
        for table in (*made, "incidents_incident", *tables):
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
    history.write(tables)


def _portions() -> list[float]:
    """Seed as a materialiser does. Returns how long each portion took, s."""
    from dashboard.summaries.older_assets import seed

    scenarios = load_scenarios(ROOT / "scenarios.toml")
    times = [time.perf_counter()]
    for _ in seed({history.SCENARIO: scenarios[history.SCENARIO]}, history.NOW):
        times.append(time.perf_counter())  # noqa: PERF401 - the clock is read after each
    return [end - begin for begin, end in pairwise(times)]


def _rows(assets: int, changes: int, portions: list[float]) -> list[Row]:
    what = f"{assets:,} assets, {changes:,} changes"
    command = module_command("seed", f"--assets={assets}", f"--changes={changes}")
    figures = {
        "spans and incidents made": sum(portions),
        "longest transaction": max(portions),
    }
    return [
        Row(f"{what}: {name}", "s", {"": seconds}, command=command)
        for name, seconds in figures.items()
    ]


if __name__ == "__main__":
    main()
