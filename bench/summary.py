"""How long a summary takes over ten million changes: `python -m bench.summary`.

The database is made of rows, as the materialiser and the worker would have written them; its sums
are then made by the worker's own code. An SQLite file in a temporary directory, or in one that is
kept: there it is filled and summed up once, and each further run only asks. Nobody has it gather
statistics, as nobody does for the product.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench import history
from bench.command import Measured, module_command, parser_of, run
from bench.history import DAY_MS, DAYS, HOUR_MS, NOW, SCENARIO
from bench.results import Row
from bench.stack import say

TARGET_MS = 500.0


def main() -> None:
    """Measure what the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--changes", type=int, default=10_000_000)
    parser.add_argument("--assets", type=int, default=20_000)
    parser.add_argument(
        "--database",
        type=Path,
        metavar="FOLDER",
        help="keep the database there",
    )
    run("summary", parser, measure)


def measure(options: argparse.Namespace) -> Measured:
    """Fill a database, sum it up, and ask for summaries of every unit."""
    with tempfile.TemporaryDirectory(prefix="tallyboard-bench-") as folder:
        history.prepare(options.database or Path(folder))
        say(f"summary: {options.changes:,} changes of {options.assets:,} assets")
        seconds: dict[str, float] = {}
        if not _is_filled():
            seconds["written"] = _timed(partial(_fill, options.changes, options.assets)) / 1000
            say(f"  written in {seconds['written']:.0f} s; summing up")
        if not _is_summed():
            seconds["summed up"] = _timed(_sum_up) / 1000
            say(f"  summed up in {seconds['summed up']:.0f} s; asking")
        figures = dict(_answers())
    sizes = {name: getattr(options, name) for name in ("changes", "assets")}
    command = module_command("summary", *(f"--{k}={v}" for k, v in sizes.items()))
    what = "{changes:,} changes, {assets:,} assets".format(**sizes)
    rows = [
        Row(f"summary of a {name} ({what})", "ms", {"": ms}, target, command=command)
        for name, (ms, target) in figures.items()
    ]
    rows += [
        Row(f"{DAYS} days {done} ({what})", "s", {"": taken}, command=command)
        for done, taken in seconds.items()
    ]
    return rows, [{**sizes, **seconds, **{name: ms for name, (ms, _) in figures.items()}}]


# ---- a database ---------------------------------------------------------------------------------


def _is_filled() -> bool:
    from dashboard.notify.summaries.models import Progress

    return Progress.objects.filter(scenario=SCENARIO).exists()


def _is_summed() -> bool:
    from dashboard.notify.summaries.models import Progress

    return Progress.objects.filter(scenario=SCENARIO, summed_to__gt=NOW - HOUR_MS).exists()


def _fill(changes: int, assets: int) -> None:
    from dashboard.notify.summaries.models import Progress

    each = changes // assets // 2
    history.write(
        {
            "summaries_presence": (history.PRESENCE, history.presences(assets)),
            "annotations_label": (history.LABEL, history.labels(assets)),
            "states_transition": (history.TRANSITION, history.transitions(assets, each)),
            "summaries_impairedspan": (history.IMPAIRED, history.impaired(assets, each)),
            "incidents_incident": (history.INCIDENT, history.incidents(assets, each)),
        }
    )
    Progress.objects.mark({SCENARIO: NOW - DAYS * DAY_MS})


# ---- figures ------------------------------------------------------------------------------------


def _sum_up() -> None:
    from dashboard.notify.summaries.rollups import sum_up_day

    while sum_up_day(SCENARIO, NOW):
        pass


def _answers() -> Iterator[tuple[str, tuple[float, float | None]]]:
    """Yield how long each unit's summary takes, ms, the worker having asked for it after the hour;
    and of a database that was not asked before how long that took the worker."""
    from zoneinfo import ZoneInfo

    from dashboard.core.common.scenarios import scenarios
    from dashboard.notify.summaries.calculation import summary
    from dashboard.notify.summaries.figures import Question
    from dashboard.notify.summaries.models import KeptSum
    from domain.history.periods import UNITS, containing, day_of

    today = day_of(NOW, ZoneInfo("UTC"))
    is_new = not KeptSum.objects.exists()
    for label in ("", "customer"):
        for unit in UNITS:
            period = containing(unit, today - timedelta(days=1) if unit == "day" else today)
            question = Question(tuple(scenarios()), period, label)
            name = f"{unit}, by a label" if label else unit
            first = _timed(partial(summary, question, NOW))
            best = min(_timed(partial(summary, question, NOW)) for _ in range(3))
            yield name, (best, TARGET_MS)
            if is_new:
                yield f"{name}, by the worker at the end of an hour", (first, None)


def _timed(work: Callable[[], Any]) -> float:
    """Return how long work takes, ms."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


if __name__ == "__main__":
    main()
