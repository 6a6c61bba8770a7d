"""`python -m bench.report`: the kept results as the tables of bench/results/tables.md.

A table is between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`; what is outside stays.
`targets` is the overview of all. The peers are drawn too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bench import cells
from bench.busyness import Busy
from bench.peers.plot import plot
from bench.peers.tables import peers_tables
from bench.results import FOLDER, Machine, Result, Row, read
from bench.stack import ROOT
from bench.targets import targets_table

DOCUMENT = FOLDER / "tables.md"
TITLES = {"": "result", "kernel": "kernel", "python": "Python engine"}
# The overview of what all benches aim at, which is no bench of its own.
TARGETS = "targets"
PLOT = ROOT / "docs" / "pictures" / "peers.svg"
_TABLE = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench:\2 -->)", re.DOTALL)


def main() -> None:
    """Bring bench/results/tables.md up to date."""
    before = DOCUMENT.read_text(encoding="utf-8")
    after = filled(before)
    if after != before:
        DOCUMENT.write_text(after, encoding="utf-8")
    draw()
    state = "up to date" if after == before else "written"
    print(f"{DOCUMENT.relative_to(ROOT)}: {state}", file=sys.stderr)


def draw(folder: Path = FOLDER, target: Path = PLOT) -> None:
    """Draw what is kept of the peers, if anything is."""
    if result := read("peers", folder):
        target.write_text(plot(result), encoding="utf-8")


def filled(document: str, folder: Path = FOLDER) -> str:
    """Return the document with its tables filled again from the results in `folder`."""

    def table(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        if name == TARGETS:
            return f"{begin}{targets_table(document, folder)}{end}"
        result = read(name, folder)
        missing = f"Not taken yet: `make bench-{name.partition('_')[0]}`.\n"
        text = rendered(result) if result else missing
        return f"{begin}{text}{end}"

    return _TABLE.sub(table, document)


def rendered(result: Result) -> str:
    """Return one result as text: where and when, then a row for each figure."""
    return f"{_caption(result)}\n\n{body(result)}"


def body(result: Result) -> str:
    """Return a result's tables: of its rows, or for the peers one for each size."""
    return peers_tables(result) if result.bench == "peers" else table_of(result.rows)


def _caption(result: Result) -> str:
    machine: Machine = result.machine
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    busy = "" if machine.others is None else f"; {busy_words(machine)}"
    return (
        f"`{result.command}`, {result.begun}, {result.seconds / 60:.0f} min, commit "
        f"`{result.commit}`. {machine.cores} cores ({machine.processor}), "
        f"{machine.memory_gb:g} GB, {machine.system}; load average {machine.load_before:g} before "
        f"and {machine.load_after:g} after{busy}. {versions}."
    )


def busy_words(machine: Machine) -> str:
    """Return in words which part of the processors' time other processes took."""
    return str(Busy(machine.others or 0, machine.others_most or 0))


def table_of(rows: list[Row]) -> str:
    """Return rows as a table: engines side by side, the ratio of the first two, the verdict."""
    engines = _engines(rows)
    compared = len(engines) > 1
    head = ["what", "target", *(TITLES.get(name, name) for name in engines)]
    head += ["ratio"] * compared + ["target met", "command"]
    return cells.table(head, [_cells(row, engines, compared) for row in rows])


def _engines(rows: list[Row]) -> list[str]:
    """Return every engine with a figure: kernels first, the Python engine last."""
    names = {name for row in rows for name in row.figures}
    return sorted(names, key=lambda name: (name == "python", name))


def _cells(row: Row, engines: list[str], compared: bool) -> list[str]:
    figures = [cells.figure(row.figures.get(name), row.unit) for name in engines]
    ratios = [ratio(row, engines)] * compared
    command = f"`{row.command}`" if row.command else cells.NOTHING
    verdict = cells.verdict(row, row.figures.get(engines[0]))
    return [row.what, cells.target(row), *figures, *ratios, verdict, command]


def ratio(row: Row, engines: list[str]) -> str:
    """Return how many times better the first engine is than the last."""
    first, last = row.figures.get(engines[0]), row.figures.get(engines[-1])
    if not first or not last:
        return cells.NOTHING
    return f"{cells.number(first / last if row.more else last / first)} ×"


if __name__ == "__main__":
    main()
