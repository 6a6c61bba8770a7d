"""What was measured of the peers as a picture: bars, of which the kernel's are darker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.peers.tables import KERNEL, Run, cost, label, rate, slowest
from bench.results import Result

WIDTH, LABEL, FIGURE = 860, 270, 110
ROW, BAR, TITLE, MARGIN = 24, 16, 34, 16
OURS, THEIRS, INK = "#1f4e79", "#9db7cf", "#222222"


@dataclass(frozen=True)
class Bar:
    """A bar: what it is of, how long it is, and the figure beside it."""

    label: str
    length: float
    figure: str
    ours: bool


@dataclass(frozen=True)
class Group:
    """Bars of one unit below a title."""

    title: str
    bars: list[Bar]


def plot(result: Result) -> str:
    """Return an SVG: what each drain took, then delays under the steady load, then recoveries."""
    groups = list(_groups(result.runs))
    height = MARGIN + sum(TITLE + ROW * len(group.bars) for group in groups)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13" fill="{INK}">'
    )
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, ground, *_drawn(groups), "</svg>", ""])


def _groups(runs: Sequence[Run]) -> Iterator[Group]:
    drains = [run for run in runs if run["kind"] == "drain"]
    for size in dict.fromkeys(run["size"] for run in drains):
        yield from _of_drains(size.capitalize(), [run for run in drains if run["size"] == size])
    yield from _of_load([run for run in runs if run["kind"] == "live"])
    if killed := slowest(run for run in runs if run["kind"] == "recovery"):
        bars = [_bar(run, run["all_s"], "{:,.1f} s") for run in killed]
        yield Group("After kill -9: until all partitions have a new state (less is better)", bars)


def _of_drains(size: str, drains: Sequence[Run]) -> Iterator[Group]:
    rates = [_bar(run, rate(run), "{:,.0f} /s") for run in drains]
    yield Group(f"{size} log: reports a second (more is better)", rates)
    costs = [_bar(run, cost(run), "{:,.1f} s") for run in drains]
    yield Group(f"{size} log: processor time for a million reports (less is better)", costs)
    if held := [run for run in drains if "memory_mb" in run]:
        sizes = [_bar(run, run["memory_mb"], "{:,.0f} MB") for run in held]
        yield Group(f"{size} log: memory at its end (less is better)", sizes)


def _of_load(lives: Sequence[Run]) -> Iterator[Group]:
    for name, words in (("p50", "p50"), ("p99", "p99"), ("most", "longest")):
        bars = [_bar(run, run["delays"][name], "{:,.0f} ms") for run in lives]
        if bars:
            rate_ = f"{lives[0]['rate']:,} reports a second"
            yield Group(f"{rate_}: report → state record, {words} (less is better)", bars)
    if rested := [run for run in lives if run.get("idle")]:
        bars = [_bar(run, run["idle"], "{:,.2f} %") for run in rested]
        yield Group("At rest: processor time, of one core (less is better)", bars)


def _bar(run: Run, length: float, shown: str) -> Bar:
    return Bar(label(run), length, shown.format(length), run["engine"] == KERNEL)


def _drawn(groups: Iterable[Group]) -> Iterator[str]:
    y = 0
    for group in groups:
        yield f'<text x="{MARGIN}" y="{y + 26}" font-weight="bold">{escape(group.title)}</text>'
        y += TITLE
        longest = max(bar.length for bar in group.bars) or 1
        for bar in group.bars:
            yield from _row(bar, y, (WIDTH - LABEL - FIGURE - MARGIN) * bar.length / longest)
            y += ROW


def _row(bar: Bar, y: int, width: float) -> Iterator[str]:
    middle = y + BAR - 3
    yield f'<text x="{LABEL}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>'
    yield (
        f'<rect x="{LABEL + 8}" y="{y}" width="{width:.1f}" height="{BAR}" '
        f'fill="{OURS if bar.ours else THEIRS}"/>'
    )
    yield f'<text x="{LABEL + 14 + width:.1f}" y="{middle}">{escape(bar.figure)}</text>'
