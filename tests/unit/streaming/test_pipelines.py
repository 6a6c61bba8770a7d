"""Pipelines: declarations that cannot be, which of them run, the command, a sink that gathers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pydantic import ValidationError

from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings, explain
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import ingest_pipeline_progress
from dashboard.core.job.pipelines import NoSkeleton, write_skeleton
from ops.processes import processes
from streaming.pipelines import emitter
from streaming.pipelines.declaration import (
    DeclarationError,
    Emission,
    GlobalTable,
    OutputTable,
    Parallelism,
    Pipeline,
    Print,
    Sink,
    Source,
    Trigger,
)
from streaming.pipelines.emitter import Counts, Emitter, line
from streaming.pipelines.query import (
    NotCoPartitioned,
    SinkTopicMissing,
    SourceTopicMissing,
    locate,
    outputs,
    sink_specs,
)
from streaming.pipelines.registry import chosen, declared
from streaming.pipelines.report import PipelineFigures
from wire.pipeline import Assignment, Gathering, Invalid, Node, PipelineProgress

SOURCES = {"reports": Source("a.reports")}
SINKS = (Sink("out"),)
TICKS = Trigger(tick_ms=1_000)
TABLE = OutputTable("invoices_table", ("invoice", "line"))


def passed_on(reports: Any) -> Any:
    """Return what came."""
    return reports


def pipeline(**changes: Any) -> Pipeline:
    whole = {"name": "p", "title": "P", "sources": SOURCES, "sinks": SINKS, "transform": passed_on}
    return Pipeline(**{**whole, **changes})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pipeline(name="Big"), "name: expected lower-case letters"),
        (lambda: pipeline(sources={}), "p: sources: expected at least one"),
        (lambda: pipeline(sinks=()), "p: sinks: expected at least one"),
        (lambda: pipeline(sinks=SINKS * 2), "p: sinks: expected different topics"),
        (lambda: pipeline(state="redis"), "p: state: expected rocksdb or memory, got 'redis'"),
        (lambda: pipeline(mode="all"), "p: mode: expected append or update"),
        (lambda: pipeline(transform=lambda x: x), "p: transform: expected the parameters reports"),
        (lambda: pipeline(late="x"), "p: late: expected the name of a source, got 'x'"),
        (lambda: pipeline(co_partitioned=("x",)), r"co_partitioned: expected names of sources"),
        (
            lambda: pipeline(parameters=("x",)),
            "p: parameters: expected names of settings",
        ),
        (
            lambda: pipeline(parameters=("loyalty_rate",)),
            "p: transform: expected the parameters reports, loyalty_rate, as",
        ),
        (
            lambda: pipeline(sinks=(Sink("a", partitioner=passed_on), Sink("b", compacted=True))),
            r"p: sinks: expected Emission\(every_ms=0\) for each, .* partitioner, got \['b'\]",
        ),
        (
            lambda: pipeline(sinks=(Sink("a"), Sink("b", emit=Emission(every_ms=100)))),
            r"p: sink b: emit: expected none, or compacted=True .* got Emission\(every_ms=100,",
        ),
        (lambda: pipeline(checkpoint="../x"), "p: checkpoint: expected the name of a folder"),
        (
            lambda: pipeline(
                state="memory", sources={"reports": Source("a", invalid_time="previous")}
            ),
            "p: state: expected rocksdb, as reports keeps the previous time",
        ),
        (lambda: pipeline(table=TABLE), "p: sinks: expected none beside a table"),
        (
            lambda: pipeline(table=TABLE, sinks=()),
            "p: sources: expected dead_letters=False, as a table takes none, got .*reports",
        ),
        (
            lambda: pipeline(
                table=TABLE,
                sinks=(),
                sources={"reports": Source("a", dead_letters=False)},
                prints=Print("x"),
            ),
            "p: prints: expected None beside a table",
        ),
        (lambda: OutputTable("invoices table", ("a",)), "Table.setting: expected a setting"),
        (lambda: OutputTable("url", ("a-b",)), "Table.keys, day, time: expected a-z, 0-9 and '_'"),
        (lambda: OutputTable("url", ()), "Table.keys: expected at least one column"),
        (lambda: OutputTable("url", ("a",), keep_days=0), "Table.keep_days: expected 1 to 36,500"),
        (lambda: Source("a b"), "Source.topic: expected a topic or a pattern"),
        (lambda: Source("a", schema=" "), "Source.schema: expected the columns of the value"),
        (lambda: Source("a", invalid_time="later"), "Source.invalid_time: .*log-and-skip, fail"),  # type: ignore[arg-type]
        (lambda: GlobalTable("a*"), "GlobalTable.topic: expected the name of one topic"),
        (lambda: GlobalTable("a", schema=" "), "GlobalTable.schema: expected the columns of the"),
        (
            lambda: pipeline(global_tables={"prices": GlobalTable("a")}),
            "p: trigger: expected tick_ms, as only batches read a global table, got 0",
        ),
        (
            lambda: pipeline(global_tables={"reports": GlobalTable("a")}, trigger=TICKS),
            "p: global_tables: expected other names than those of sources, got .*reports",
        ),
        (
            lambda: pipeline(global_tables={"prices": GlobalTable("a")}, trigger=TICKS),
            "p: transform: expected the parameters reports, prices, as",
        ),
        (lambda: Sink("a*"), "Sink.topic: expected the name of one topic"),
        (lambda: Sink("a", partitions=0), "Sink.partitions: expected 1 to 256, got 0"),
        (lambda: Sink("a", keep_ms=1), "Sink.keep_ms: expected a minute or more"),
        (lambda: Sink("a", partitioner="x"), "Sink.partitioner: expected a function or None"),  # type: ignore[arg-type]
        (lambda: Emission(every_ms=-1), "Emission.every_ms: expected 0 to 60,000"),
        (lambda: Emission(max_bytes=-1), "Emission.max_bytes: expected 0 to 1 GiB"),
        (lambda: Print(""), "Print.label: expected 1 to 60 characters that can be seen"),
        (lambda: Print("a\nb"), "Print.label: expected 1 to 60 characters that can be seen"),
        (lambda: Trigger(every_ms=-1), "Trigger.every_ms"),
        (lambda: Trigger(max_records=0), "Trigger.max_records: expected 1 or more"),
        (lambda: Trigger(tick_ms=999), "Trigger.tick_ms: expected 0, or a second to an hour"),
        (lambda: Parallelism(slots=0), "Parallelism.slots: expected 1 to 64"),
        (lambda: Parallelism(state_partitions=999), "Parallelism.state_partitions"),
    ],
)
def test_a_wrong_declaration_names_the_field_and_what_was_expected(make: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        make()


def test_a_table_is_where_its_setting_says(tmp_path: Path) -> None:
    sources = {"reports": Source("a.reports", dead_letters=False)}
    writes = pipeline(table=TABLE, sinks=(), sources=sources)
    assert outputs(Settings(invoices_url="hdfs://lake/sold"), writes) == ["hdfs://lake/sold"]
    assert outputs(Settings(data_dir=tmp_path), writes) == [str(tmp_path / "invoices")]
    assert outputs(Settings(), pipeline()) == ["out"]
    unknown = pipeline(table=OutputTable("nobodys", ("a",)), sinks=(), sources=sources)
    with pytest.raises(DeclarationError, match="p: table: expected a setting with a URL"):
        outputs(Settings(), unknown)


@pytest.mark.parametrize("url", ["lake/sold", "s3:/lake", "s3://", "s3://lake/a b", "https://x?y"])
def test_a_url_that_names_no_place_for_an_archive_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="expected a path that begins with /"):
        Settings(invoices_url=url)


@pytest.mark.parametrize(
    ("key", "value", "printed"),
    [
        ("product-7", '{"n":1}', '[views] product-7: {"n":1}'),
        (None, None, "[views] null: null"),
        ("a\x1b[2J", "b\nc", "[views] a\ufffd[2J: b\ufffdc"),
        ("k", "v" * 501, f"[views] k: {'v' * 500}…"),
    ],
)
def test_what_is_printed_is_one_line_that_does_nothing_to_a_terminal(
    key: str | None, value: str | None, printed: str
) -> None:
    assert line("views", key, value) == printed


def test_the_shipped_pipelines_are_declared_and_chosen_by_name() -> None:
    shipped = declared()
    on = {"report-rates", "station-lookup", "station-visits", "invoices", "loyalty"}
    assert on <= set(chosen("all", shipped))
    assert "station-lookup-direct" not in chosen("all", shipped)
    assert chosen("none", shipped) == {}
    assert list(chosen("station-lookup-direct, report-rates", shipped)) == [
        "station-lookup-direct", "report-rates",
    ]  # fmt: skip
    with pytest.raises(DeclarationError, match=r"expected all, none or some of .*, got 'nobody'"):
        chosen("nobody", shipped)


MODULE = """
from streaming.pipelines.declaration import *
PIPELINE = Pipeline("{name}", "T", {{"x": Source("a")}}, (Sink("b"),), lambda x: x{more})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package for pipelines of its own."""
    folder = tmp_path / f"pack{tmp_path.name.replace('-', '_')[:40]}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"one": "X = 1"}, r"one: expected PIPELINE = Pipeline\(...\), got None"),
        ({"one": MODULE.format(name="two", more="")}, "expected the pipeline one, got two"),
        (
            {
                "one": MODULE.format(name="one", more=', checkpoint="same"'),
                "two": MODULE.format(name="two", more=', checkpoint="same"'),
            },
            "two: checkpoint: expected a folder of its own, got that of one",
        ),
        ({"one": MODULE.format(name="One", more="")}, "one: name: expected lower-case"),
    ],
)
def test_a_wrong_module_is_named(package: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    with pytest.raises(DeclarationError, match=words):
        declared(package.name)


def test_sources_are_located_and_co_partitioning_is_checked() -> None:
    bus = MemoryBus(now_ms)
    bus.ensure_topics([TopicSpec("t.a.reports", 2, {}), TopicSpec("t.b.reports", 3, {})])
    every = pipeline(sources={"reports": Source("*.reports")})
    known = ["a.reports", "b.reports", "c.reports", "a.states"]
    assert locate(every, bus, "t.", known).sources == {
        "reports": {"t.a.reports": 2, "t.b.reports": 3}
    }
    with pytest.raises(SourceTopicMissing, match=r"reports: there is no topic t.z"):
        locate(pipeline(sources={"reports": Source("z")}), bus, "t.", known)
    both = pipeline(
        sources={"a": Source("a.reports"), "b": Source("b.reports")},
        transform=lambda a, b: a,
        co_partitioned=("a", "b"),
    )
    with pytest.raises(NotCoPartitioned, match=r"t.a.reports has 2 and t.b.reports has 3"):
        locate(both, bus, "t.", known)


def test_the_topic_of_a_global_table_is_located_and_must_be_there() -> None:
    bus = MemoryBus(now_ms)
    bus.ensure_topics([TopicSpec("t.a.reports", 2, {})])
    joined = pipeline(
        global_tables={"prices": GlobalTable("prices")},
        trigger=TICKS,
        transform=lambda reports, prices: reports,
    )
    with pytest.raises(SourceTopicMissing, match=r"prices: there is no topic t.prices"):
        locate(joined, bus, "t.", [])
    bus.ensure_topics([TopicSpec("t.prices", 3, {})])
    places = locate(joined, bus, "t.", [])
    assert places.tables == {"prices": {"t.prices": 3}}
    assert places.topics == ["t.a.reports", "t.prices"]


def test_topics_of_reports_are_the_jobs_and_must_be_there() -> None:
    from bus.base import TopicSpec

    bus = MemoryBus(now_ms)
    bus.ensure_topics([TopicSpec("t.a.reports", 2, {})])
    reporting = pipeline(sinks=(Sink("out"), Sink("customers.reports")))
    assert [spec.name for spec in sink_specs(reporting, "t.")] == ["t.out"]
    with pytest.raises(SinkTopicMissing, match=r"no topic t.customers.reports, which the job"):
        locate(reporting, bus, "t.", [])
    bus.ensure_topics([TopicSpec("t.customers.reports", 2, {})])
    assert locate(reporting, bus, "t.", []).topics == ["t.a.reports"]


def test_a_pipeline_that_ticks_has_a_topic_for_it() -> None:
    ticking = pipeline(trigger=Trigger(tick_ms=30_000))
    out, ticks = sink_specs(ticking, "t.")
    assert (out.name, ticks.name, ticks.partitions) == ("t.out", "t.pipelines.p.ticks", 1)


def test_late_records_are_counted_and_ticks_are_not_shown(tmp_path: Path) -> None:
    offsets = json.dumps({"t": {"0": 7}, "ticks": {"0": 3}})
    progress = {
        "batchId": 0,
        "sources": [{"endOffset": offsets}],
        "observedMetrics": {"source:x": {"records": 7}, "source:x:late": {"late@t": 2}},
    }
    figures = PipelineFigures(tmp_path / "totals.json", ticks="ticks")
    figures.begin(1)
    figures.add(progress)
    figures.add({**progress, "batchId": 1, "observedMetrics": {"source:x:late": {"late@t": None}}})
    assert figures.invalid() == (Invalid("t", "late", 2),)
    assert figures.assignments({}) == (Assignment("t", 0, -1, 0),)


def test_a_batch_that_is_done_again_is_counted_once(tmp_path: Path) -> None:
    progress = {
        "batchId": 4,
        "sources": [{"endOffset": json.dumps({"t": {"0": 7}})}],
        "observedMetrics": {
            "source:x": {"records": 7, "unreadable": 2, "newest": 5, "tasks": ["t@0@3"],
                         "ahead@t": 1, "missing@t": 0},
        },
    }  # fmt: skip
    figures = PipelineFigures(tmp_path / "totals.json")
    figures.begin(1)
    figures.add(progress)
    again = PipelineFigures(tmp_path / "totals.json")
    again.begin(1)
    again.add(progress)
    assert (again.totals.records, again.totals.dead_letters) == (7, 2)
    assert [(one.topic, one.reason, one.records) for one in again.invalid()] == [("t", "ahead", 1)]
    assert again.assignments({("t", 0): 10}) == (Assignment("t", 0, 3, 3),)
    again.begin(2)
    assert again.totals.records == 0


def test_a_global_table_is_behind_by_what_no_batch_has_read(tmp_path: Path) -> None:
    figures = PipelineFigures(tmp_path / "totals.json")
    figures.begin(1)
    read = {"tasks": ["p@0@2"], "p@0": 40, "p@1": None}
    observed = {"table:prices": read, "misfits:prices": {"rows": 3}}
    figures.add({"batchId": 1, "sources": [], "observedMetrics": observed})
    figures.skip_to({("p", 0): 5, ("p", 1): 9})  # retention has deleted all of the second
    ends = {("p", 0): 42, ("p", 1): 9}
    assert figures.assignments(ends) == (Assignment("p", 0, 2, 2), Assignment("p", 1, -1, 0))
    assert (figures.followed, figures.misfits) == ({"p"}, {"prices": 3})
    assert figures.totals.records == 0


# ---- the sink -----------------------------------------------------------------------------------


def test_a_table_gathers_unless_told_otherwise_and_a_stream_never_does() -> None:
    assert Sink("a", compacted=True).emission == Emission(every_ms=100, max_bytes=10 << 20)
    assert Sink("a").emission.every_ms == 0
    shipped = [sink for one in declared().values() for sink in one.gathering]
    assert "customer-points" in {sink.topic for sink in shipped}
    assert all(sink.compacted for sink in shipped)
    assert not declared()["station-lookup"].gathering


def test_the_budget_is_the_pipelines_and_its_tasks_have_equal_shares() -> None:
    sinks = (Sink("a", compacted=True), Sink("b"))
    assert pipeline(sinks=sinks).share == 10 << 20
    eight = pipeline(sinks=sinks, parallelism=Parallelism(slots=2, state_partitions=8))
    assert (eight.budget, eight.tasks, eight.share) == (10 << 20, 8, (10 << 20) // 8)
    assert pipeline().budget == 0


def test_what_tables_were_given_and_sent_goes_on_through_a_restart(tmp_path: Path) -> None:
    figures = PipelineFigures(tmp_path / "totals.json")
    figures.begin(1)
    figures.add_gathered(7, 1)
    figures.add_gathered(9, 2)
    again = PipelineFigures(tmp_path / "totals.json")
    again.begin(1)  # the query's own counts begin anew
    again.add_gathered(5, 4)
    assert (again.totals.given, again.totals.sent) == (14, 6)
    again.begin(2)
    assert (again.totals.given, again.totals.sent) == (0, 0)


class Added(list[int]):
    """What an accumulator of Spark was given."""

    def add(self, number: int) -> None:
        """Add a number."""
        self.append(number)


def emitted(monkeypatch: pytest.MonkeyPatch, waits: dict[str, int]) -> list[bytes | None]:
    bus, given, sent = MemoryBus(now_ms), Added(), Added()
    bus.ensure_topics([TopicSpec("out", 1, {})])
    monkeypatch.setattr(emitter, "KafkaBus", lambda _options: bus)
    counts: Any = Counts(given, sent)  # type: ignore[arg-type]
    sink = Emitter({}, waits, 10 << 20, counts)
    assert sink.open(0, 0)
    for number in range(7):
        value = str(number).encode()
        sink.process({"key": b"k", "value": value, "headers": [], "topic": "out"})
    sink.process({"key": None, "value": b"alone", "headers": [], "topic": "out"})
    sink.close(None)
    read = [one.value for one in bus.reader({("out", 0): 0}).poll(1, 100)]
    assert (sum(given), sum(sent)) == ((8, len(read)) if waits else (0, 0))
    return read


def test_seven_updates_of_a_key_are_one_record_or_with_0_seven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert emitted(monkeypatch, {"out": 60_000}) == [b"alone", b"6"]
    each = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"alone"]
    assert emitted(monkeypatch, {"out": 0}) == each
    assert emitted(monkeypatch, {}) == each  # a stream beside a table


# ---- settings, process, command -----------------------------------------------------------------


def test_the_process_is_there_only_where_a_pipeline_is_wanted() -> None:
    def names(wanted: str) -> set[str]:
        return {one.name for one in processes(Settings(pipelines=wanted, _env_file=None))}  # type: ignore[call-arg]

    assert "pipelines" not in names("none")
    assert "pipelines" in names("all")
    assert "pipelines" in names("report-rates, station-visits")


def test_a_wrong_setting_is_named() -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError) as raised:
        Settings(pipelines="A;b", _env_file=None)  # type: ignore[call-arg]
    assert "expected all, none, or names with commas between" in explain(raised.value)


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("pipeline", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_command_lists_and_describes() -> None:
    nodes = (
        Node("source-reports", "source", "orders.reports", "reports"),
        Node("operator-1", "operator", "filter\x1b[2J", "stateless", ("source-reports",)),
    )
    assigned = (Assignment("orders.reports", 2, 1, 12), Assignment("orders.reports", 3))
    ingest_pipeline_progress(
        [
            PipelineProgress(
                "report-rates",
                now_ms(),
                "running",
                "T",
                graph=nodes,
                assignments=assigned,
                gathering=Gathering(7_000, 1_200, budget=10 << 20, share=5 << 20),
            )
        ]
    )
    lines = command("list").splitlines()
    assert any(line.startswith("report-rates ") and "*.reports ->" in line for line in lines)
    text = command("describe", "report-rates")
    assert "operator  filter\ufffd[2J (stateless)  <- orders.reports (source)" in text
    assert "orders.reports/2 -> task 1, 12 behind" in text
    assert "orders.reports/3 -> not read yet" in text
    assert "7,000 updates gathered into 1,200 records; 10,485,760 bytes may wait, 5,242,880" in text
    with pytest.raises(CommandError, match="station-visits has not run yet"):
        command("describe", "station-visits")
    with pytest.raises(CommandError, match=r"expected one of .*report-rates.*, got 'nobody'"):
        command("describe", "nobody")


def test_a_new_pipeline_passes_each_report_on_and_says_what_would_gather(tmp_path: Path) -> None:
    module, _ = write_skeleton(tmp_path, "try-out")
    assert not run_path(str(module))["PIPELINE"].gathering
    assert "A stream: each report goes out. A table, Sink(..., compacted=True)" in (
        module.read_text()
    )


def test_a_new_pipeline_replaces_nothing_and_has_a_proper_name(tmp_path: Path) -> None:
    assert "test_try_out.py" in command("new", "try-out", "--root", str(tmp_path))
    with pytest.raises(CommandError, match="is there already"):
        command("new", "try-out", "--root", str(tmp_path))
    for name in ("Try", "all", "../x", ""):
        with pytest.raises(NoSkeleton, match="name: expected"):
            write_skeleton(tmp_path, name)
