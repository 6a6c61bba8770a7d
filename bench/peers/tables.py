"""What was measured of the peers, as tables: ratios first. No engine is imported for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.cells import figure, table
from bench.results import Result, Row

KERNEL = "kernel"
# The peer that a drain is to beat, and by how many times.
RIVAL, DRAIN_TARGET = "streams-alo", 1.2

# Per cent of the processors' time: what others may have had of it for a rate to count.
QUIET = 10.0

# One thing that was measured, as it is kept.
Run = dict[str, Any]


def peers_tables(result: Result) -> str:
    """Return a table for each size of log that was drained."""
    logs = _drains_by_size(result.runs)
    tables = [made for drains in logs for made in (drain_table(drains), footprint_table(drains))]
    lives = [run for run in result.runs if run["kind"] == "live"]
    live = [live_table(lives)] if lives else []
    killed = [run for run in result.runs if run["kind"] == "recovery"]
    recovery = [recovery_table(killed)] if killed else []
    tables = [settings_table(result.runs), *filter(None, tables), *live, *recovery]
    return "\n".join(tables)


def peers_rows(result: Result) -> list[Row]:
    """Return the ratios that have a target: of draining, to Kafka Streams at least once."""
    return list(filter(None, map(_drain_ratio, _drains_by_size(result.runs))))


def _drains_by_size(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the drains of each log."""
    by_size: dict[str, list[Run]] = {}
    for run in runs:
        if run["kind"] == "drain":
            by_size.setdefault(run["size"], []).append(run)
    return list(by_size.values())


def _drain_ratio(drains: Sequence[Run]) -> Row | None:
    """Return one log's ratio of the rates with start: the kernel's mean to that of its rival."""
    ours = [rate_with_start(run) for run in drains if run["engine"] == KERNEL]
    rivals = [rate_with_start(run) for run in drains if run["engine"] == RIVAL]
    if not ours or not rivals:
        return None
    what = f"{drains[0]['reports']:,} reports, {drains[0]['assets']:,} assets"
    what = f"{what}: rate with start, Kafka Streams (at least once) = 1"
    return Row(what, "×", {KERNEL: mean(ours) / mean(rivals)}, DRAIN_TARGET, more=True)


def settings_table(runs: Sequence[Run]) -> str:
    """Return how each engine is set."""
    rows = dict.fromkeys((run["title"], run["settings"]) for run in runs)
    return table(("engine", "settings"), rows)


def drain_table(drains: Sequence[Run]) -> str:
    """Return the table of one log: each engine, the kernel's turns first."""
    ours = [run for run in drains if run["engine"] == KERNEL]
    one = drains[0]
    head = (
        "engine", "rate, kernel = 1", "with start, kernel = 1", "processor time, kernel = 1",
        "reports/s", "with start", "processor s per million reports", "of the broker", "MB written",
        "others' part",
    )  # fmt: skip
    others = [run for run in drains if run["engine"] != KERNEL]
    rows = [_cells(run, ours) for run in (*ours, *sorted(others, key=rate, reverse=True))]
    counts = f"{one['reports']:,} reports, {one['assets']:,} assets, {one['records']:,} records"
    title = f"**{one['size'].capitalize()}**: {counts} from each{taken(one)}{warning(drains)}"
    return f"{title}\n\n{table(head, rows)}"


def footprint_table(drains: Sequence[Run]) -> str:
    """Return what each engine held once it had one log, least disk first. Empty: not measured."""
    measured = [run for run in drains if "memory_mb" in run]
    if not measured:
        return ""
    ours = [run for run in measured if run["engine"] == KERNEL]
    head = (
        "engine", "durable copy, kernel = 1", "memory, kernel = 1", "durable copy, bytes per asset",
        "other files, bytes per asset", "memory, bytes per asset", "memory",
    )  # fmt: skip
    rows = [_held(run, ours) for run in sorted(measured, key=durable)]
    title = f"**{measured[0]['size'].capitalize()}**: what each held once it had the whole log"
    return f"{title}{taken(measured[0])}\n\n{table(head, rows)}"


def durable(run: Run) -> float:
    """Return what the durable copy of an engine's state took for an asset, bytes."""
    return float(run["durable"] / run["assets"])


def memory(run: Run) -> float:
    """Return the memory of an engine for an asset, bytes."""
    return float(1e6 * run["memory_mb"] / run["assets"])


def _held(run: Run, ours: Sequence[Run]) -> list[str]:
    return [
        label(run),
        f"{durable(run) / mean(map(durable, ours)):.2f}",
        f"{memory(run) / mean(map(memory, ours)):.2f}",
        f"{durable(run):,.0f}",
        f"{run['working'] / run['assets']:,.0f}",
        f"{memory(run):,.0f}",
        f"{run['memory_mb']:,.0f} MB",
    ]


def label(run: Run) -> str:
    """Return what a run is called beside others: its engine, and the turn of it."""
    return ", ".join(filter(None, (run["title"], run.get("turn"))))


def warning(runs: Sequence[Run]) -> str:
    """Return what a reader of rates and delays must know of a machine that others used too."""
    most = max(float(run["others"]) for run in runs)
    if most <= QUIET:
        return ""
    return (
        f" **Others had up to {most:g} % of the processors meanwhile: rates and delays are not the "
        "engines' own here, and their ratios say little; processor time says more.**"
    )


def rate(run: Run) -> float:
    """Return reports a second since the engine ran."""
    return float(run["reports"] / run["s"])


def rate_with_start(run: Run) -> float:
    """Return reports a second since the start of its process."""
    return float(run["reports"] / (run["s"] + run["start_s"]))


def cost(run: Run) -> float:
    """Return processor seconds of an engine for a million reports."""
    return float(1e6 * run["cpu_s"] / run["reports"])


def _cells(run: Run, ours: Sequence[Run]) -> list[str]:
    return [
        label(run),
        f"{rate(run) / mean(map(rate, ours)):.2f}",
        f"{rate_with_start(run) / mean(map(rate_with_start, ours)):.2f}",
        f"{cost(run) / mean(map(cost, ours)):.2f}",
        f"{rate(run):,.0f}",
        f"{rate_with_start(run):,.0f}",
        f"{cost(run):.1f}",
        f"{1e6 * run['broker_cpu_s'] / run['reports']:.1f}",
        f"{run['bytes'] / 1e6:,.0f}",
        f"{run['others']:g} %",
    ]


def live_table(lives: Sequence[Run]) -> str:
    """Return the table of a steady load: what is the longest of it counts as much as the middle."""
    ours = next((run for run in lives if run["engine"] == KERNEL), lives[0])
    head = (
        "engine", "p50, kernel = 1", "p99, kernel = 1", "longest, kernel = 1",
        "processor time, kernel = 1", "p50", "p99", "p99.9", "longest", "of one core",
        "of the broker", "at rest, of one core", "memory", "others' part",
    )  # fmt: skip
    title = f"**Steady load**: {ours['rate']:,} reports a second for {ours['seconds']} s"
    title += f", report → committed state record{taken(ours)}{warning(lives)}"
    return f"{title}\n\n{table(head, map(_live(ours), lives))}"


def _live(ours: Run) -> Callable[[Run], list[str]]:
    def cells(run: Run) -> list[str]:
        delays, own = run["delays"], ours["delays"]
        return [
            run["title"],
            *(f"{delays[name] / own[name]:.2f}" for name in ("p50", "p99", "most")),
            f"{run['cpu'] / ours['cpu']:.2f}",
            *(f"{delays[name]:,.0f} ms" for name in ("p50", "p99", "p999", "most")),
            f"{run['cpu']:.0f} %",
            f"{run['broker_cpu']:.0f} %",
            figure(run.get("idle"), "%"),
            figure(run.get("memory_mb"), "MB"),
            f"{run['others']:g} %",
        ]

    return cells


def recovery_table(killed: Sequence[Run]) -> str:
    """Return the table of the recoveries: of each engine the slowest."""
    runs = slowest(killed)
    ours = next((run for run in runs if run["engine"] == KERNEL), runs[0])
    head = ("engine", "all partitions, kernel = 1", "first new state", "all partitions", "kills")
    rows = [
        (
            run["title"],
            f"{run['all_s'] / ours['all_s']:.2f}",
            f"{run['first_s']:.1f} s",
            f"{run['all_s']:.1f} s",
            str(sum(each["engine"] == run["engine"] for each in killed)),
        )
        for run in runs
    ]
    title = f"**After `kill -9`**: {killed[0]['assets']:,} assets, the slowest of the kills"
    return f"{title}{taken(ours)}\n\n{table(head, rows)}"


def slowest(killed: Iterable[Run]) -> list[Run]:
    """Return of each engine its slowest recovery, in the order in which they were killed."""
    by_engine: dict[str, list[Run]] = {}
    for run in killed:
        by_engine.setdefault(run["engine"], []).append(run)
    return [max(runs, key=lambda run: float(run["all_s"])) for runs in by_engine.values()]


def taken(run: Run) -> str:
    """Return when a table was taken, and of which commit."""
    return f" ({run['begun']}, commit `{run['commit']}`)."


def mean(figures: Iterable[float]) -> float:
    """Return the mean; of nothing it is 1, so that a ratio is the figure itself."""
    known = list(figures)
    return sum(known) / len(known) if known else 1.0
