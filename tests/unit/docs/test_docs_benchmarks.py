"""bench/results/tables.md shows what the kept results say, and the report renders them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import msgspec

from bench import growth
from bench.cells import number
from bench.report import DOCUMENT, TARGETS, filled, rendered, table_of
from bench.results import FOLDER, Machine, Result, Row, processor, write
from bench.stack import ROOT
from bench.targets import anchor

DOC = DOCUMENT.read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text()
BENCHES = re.findall(r"^BENCHES := (.*)$", MAKEFILE, re.MULTILINE)[0].split()

RESULT = Result(
    bench="drain",
    command="make bench-drain",
    begun="2026-01-02 03:04 UTC",
    seconds=600,
    commit="abc",
    machine=Machine("A processor", 2, 23.5, "Linux 6", 0.1, 2.5, others=3.5, others_most=21.0),
    versions={"Java": "17"},
    rows=[
        Row("a drain", "/s", {"kernel": 120_000.0, "python": 4_000.0}, 110_000, True, "python x")
    ],
)


def test_the_tables_are_the_kept_results():
    assert filled(DOC) == DOC, "run python -m bench.report"


def test_every_bench_has_a_table_and_every_result_a_bench():
    parts = {f"growth_{part}" for part in growth.PARTS}
    tables = re.findall(r"^<!-- bench:(\w+) -->$", DOC, re.MULTILINE)
    assert sorted(tables) == sorted({*BENCHES, *parts, TARGETS} - {"growth"})
    assert {path.stem for path in FOLDER.glob("*.json")} <= set(tables)
    assert all(find_spec(f"bench.{name}") for name in BENCHES)


def test_what_is_outside_the_marks_stays(tmp_path: Path):
    document = "before\n<!-- bench:drain -->\nold\n<!-- /bench:drain -->\nafter\n"
    assert "Not taken yet: `make bench-drain`." in filled(document, tmp_path)
    write(RESULT, tmp_path)
    once = filled(document, tmp_path)
    assert once.startswith("before\n<!-- bench:drain -->\n`make bench-drain`, 2026-01-02 03:04 UTC")
    assert once.endswith("<!-- /bench:drain -->\nafter\n")
    assert filled(once, tmp_path) == once


TWO_PARTS = """\
<!-- bench:targets -->
<!-- /bench:targets -->
## Draining, in bulk
<!-- bench:drain -->
<!-- /bench:drain -->
## Not taken yet
<!-- bench:scale -->
<!-- /bench:scale -->
"""


def test_the_overview_has_every_target_and_counts_those_that_are_met(tmp_path: Path):
    rows = [
        *RESULT.rows,
        Row("a delay", "ms", {"kernel": 250.0, "python": 20.0}, 200),
        Row("a figure without a target", "s", {"kernel": 1.0}),
        Row("a target without a figure", "s", {}, 1),
    ]
    write(msgspec.structs.replace(RESULT, rows=rows), tmp_path)
    overview = filled(TWO_PARTS, tmp_path).partition("<!-- /bench:targets -->")[0]
    assert overview.splitlines()[1:] == [
        "1 of 2 targets are met.",
        "",
        "| part | what | target | measured | target met |",
        "| --- | --- | --- | --- | --- |",
        "| [Draining, in bulk](#draining-in-bulk) | a drain | ≥ 110,000 /s | 120,000 /s | met |",
        "|  | a delay | ≤ 200 ms | 250 ms | **missed** |",
    ]


def test_the_overview_leads_to_headings():
    headings = {anchor(name) for name in re.findall(r"^## (.+)$", DOC, re.MULTILINE)}
    links = re.findall(r"^\| \[[^]]+\]\(#([^)]+)\) \|", DOC, re.MULTILINE)
    assert len(links) > 5
    assert set(links) <= headings


def figures_of(text: str) -> list[tuple[str, str]]:
    """What is measured and its target, of each row of a text that names a bench."""
    row = r"^\| [^|]+ \| (.+?) \| ([≥≤] .+?) \| `make bench-"
    return re.findall(row, text, re.MULTILINE)


def test_the_page_names_every_bench_and_gives_figures_of_the_tables():
    assert [name for name in BENCHES if f"`make bench-{name}`" not in PAGE] == []
    figures = figures_of(PAGE)
    assert len(figures) > 10
    wrong = [each for each in figures if f"| {each[1]} | {each[0]} |" not in DOC]
    assert wrong == [], "the results have changed: bring the page up to date"


def test_the_page_names_every_target_that_is_missed():
    overview = DOC.partition("<!-- bench:targets -->")[2].partition("<!-- /bench:targets -->")[0]
    missed = [
        line.split(" | ")[2:4] for line in overview.splitlines() if line.endswith("**missed** |")
    ]
    figures = figures_of(PAGE.partition("targets are missed:")[2])
    assert sorted(figures) == sorted((measured, target) for target, measured in missed)


def test_a_result_says_where_and_when():
    caption = rendered(RESULT).splitlines()[0]
    for part in ("10 min", "`abc`", "2 cores (A processor)", "0.1 before", "2.5 after", "Java 17"):
        assert part in caption
    busy = "other processes took 3.5 % of the processors' time, 21 % in the busiest five seconds"
    assert busy in caption


def test_a_result_from_before_the_machine_was_watched_says_nothing_of_it():
    plain = msgspec.structs.replace(RESULT.machine, others=None, others_most=None)
    assert "other processes" not in rendered(msgspec.structs.replace(RESULT, machine=plain))


def cells(row: Row) -> list[str]:
    """A row's cells, in a table of its own."""
    return table_of([row]).splitlines()[2].strip("| ").split(" | ")


def test_more_is_better_where_the_row_says_so():
    assert cells(RESULT.rows[0]) == [
        "a drain", "≥ 110,000 /s", "120,000 /s", "4,000 /s", "30.0 ×", "met", "`python x`",
    ]  # fmt: skip


def test_less_is_better_elsewhere():
    row = Row("delay", "ms", {"python": 2000.0, "kernel": 250.0}, 200)
    assert cells(row) == [
        "delay", "≤ 200 ms", "250 ms", "2,000 ms", "8.00 ×", "**missed**", "–",
    ]  # fmt: skip


def test_a_figure_that_was_not_taken_is_a_dash():
    rows = [Row("a", "s", {"kernel": 1.0}, 12), Row("b", "s", {"kernel": 1.0, "python": 2.0})]
    assert table_of(rows).splitlines()[2:] == [
        "| a | ≤ 12 s | 1.00 s | – | – | met | – |",
        "| b | – | 1.00 s | 2.00 s | 2.00 × | – | – |",
    ]


def test_one_result_has_neither_engine_nor_ratio():
    table = table_of([Row("a", "/s", {"": 16_000.0}, 15_000, True)])
    assert table.splitlines()[0] == "| what | target | result | target met | command |"
    assert "| 16,000 /s | met |" in table


def test_three_digits_count():
    shown = [number(figure) for figure in (0, 0.0123, 1.236, 12.34, 99.96, 123.4, 123_456)]
    assert shown == ["0", "0.0123", "1.24", "12.3", "100", "123", "123,456"]


def test_the_processor_is_named():
    assert processor("processor : 0\nmodel name\t: A chip\n") == "A chip"
    assert processor("")


def test_each_part_of_growth_is_kept_by_itself():
    rows = [Row(part, "s", {}, command=f"python -m bench.growth --parts={part}") for part in "ab"]
    runs = [{"part": part} for part in "aab"]
    whole = msgspec.structs.replace(RESULT, bench="growth", rows=rows, runs=runs)
    parts = list(growth.tables_of(whole))
    assert [part.bench for part in parts] == ["growth_a", "growth_b"]
    assert [len(part.runs) for part in parts] == [2, 1]
    assert [part.rows for part in parts] == [rows[:1], rows[1:]]
