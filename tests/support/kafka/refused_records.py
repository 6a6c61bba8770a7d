"""What becomes of a record that nobody can read, by the topic in which it lies.

Topics are without a prefix; `*` stands for a scenario or a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dashboard.operate.console.topics import load_views
from domain.records import SCHEMA_MISMATCH
from domain.scenario_parser import load_scenarios
from streaming.pipelines.declaration import Pipeline
from streaming.pipelines.query import tick_topic
from streaming.pipelines.registry import declared
from support.run.stack import ROOT
from wire.topics import Topics

GROUPS = ("job-leader",)
"""What `Topics` names beside topics."""

PASSED_OVER = "tallyboard_materialiser_unreadable_records_total"
OF_PIPELINE = "tallyboard_pipeline_dead_letters"
OF_WEB = "tallyboard_unreadable_sink_records_total"


@dataclass(frozen=True)
class Letter:
    """It is on the dead letters' page, for this reason."""

    reason: str


@dataclass(frozen=True)
class Counted:
    """Its reader passes over it, and counts it. label: the metric's; empty: the topic."""

    metric: str
    label: str = ""


@dataclass(frozen=True)
class Logged:
    """Its reader passes over it, and its log has a line of it. process: whose; words: of the
    line."""

    process: str
    words: str


@dataclass(frozen=True)
class Taken:
    """By contract any bytes are a record there. why: in words."""

    why: str


Became = Letter | Counted | Logged | Taken

OUTCOMES: dict[str, tuple[Became, ...]] = {
    "*.reports": (
        Letter("not-json"),  # and more, see `of_reports`
        Counted(OF_PIPELINE, "report-rates"),
        Counted(OF_PIPELINE, "recent-reports"),
    ),
    "orders.reports": (
        Counted(OF_PIPELINE, "station-visits"),
        Counted(OF_PIPELINE, "station-lookup-direct"),
    ),
    # Nobody knows of a request without an id whom to answer; a signature that is wrong is told.
    "job.control": (Letter("bad-signature"), Logged("job", "is passed over")),
    "*.states": (Counted(PASSED_OVER), Counted(OF_WEB)),
    "orders.states": (Logged("store-1", "a store passes over a record"),),
    "attack.states": (Logged("store-1", "a store passes over a record"),),
    "connectivity.states": (Logged("store-1", "a store passes over a record"),),
    "job.buckets": (Counted(PASSED_OVER),),
    "job.progress": (Counted(PASSED_OVER),),
    "job.results": (Counted(PASSED_OVER),),
    "job.pipelines": (Counted(PASSED_OVER),),
    "dead-letters": (Counted(PASSED_OVER),),
    "pos": (Letter(SCHEMA_MISMATCH), Counted(OF_PIPELINE, "invoice-lines")),
    "loyalty-by-customer": (Letter(SCHEMA_MISMATCH),),
    "product-views": (Letter(SCHEMA_MISMATCH),),
    "pipelines.station-visits": (Letter(SCHEMA_MISMATCH),),
    # Clients of any kind write logs: what is none of a login is none of the guard's.
    "app-logs": (Counted(OF_PIPELINE, "login-guard"),),
    "invoice-lines": (
        Counted(OF_PIPELINE, "invoice-archive"),
        Counted(OF_PIPELINE, "price-differences"),
        Counted(PASSED_OVER),
    ),
    "customer-points": (Taken("a view shows the bytes that a key has"),),
    "price-differences": (Taken("nobody of the product reads it"),),
    "loyalty": (Counted(PASSED_OVER),),
    "product-milestones": (Counted(PASSED_OVER),),
    "product-counts": (Taken("a view shows the bytes that a key has"),),
    "prices": (Taken("a view shows the bytes that a key has"),),
    "shipments": (Taken("nobody of the product reads it"),),
    "pipelines.report-rates": (Taken("nobody of the product reads it"),),
    "pipelines.recent-reports": (Taken("nobody of the product reads it"),),
    "pipelines.station-places": (Taken("nobody of the product reads it"),),
    "pipelines.station-places-direct": (Taken("nobody of the product reads it"),),
    "pipelines.*.ticks": (Taken("it begins a batch, whatever it is"),),
    "job.rehearsal": (Taken("nobody reads it"),),
}


def all_topics() -> set[str]:
    """Every topic that any process of the product reads or writes."""
    names = Topics()
    own = {name for name in vars(names).values() if name} - set(GROUPS)
    scenarios = load_scenarios(ROOT / "scenarios.toml").values()
    own |= {spec.name for spec in names.specs(scenarios)} | {names.rehearsal().name}
    for pipeline in declared().values():
        own |= of_pipeline(pipeline)
    own |= {view.topic for view in load_views(ROOT / "views.toml").values()}
    return own


def of_pipeline(pipeline: Pipeline) -> set[str]:
    """The topics of a pipeline, patterns left out."""
    sources = {source.topic for source in pipeline.sources.values() if "*" not in source.topic}
    ticks = {tick_topic(pipeline, "")} if pipeline.trigger.tick_ms else set()
    return sources | {sink.topic for sink in pipeline.sinks} | ticks


def outcomes(topic: str) -> tuple[Became, ...]:
    """What becomes of an unreadable record of a topic, by every reader that it has."""
    matching_outcomes = [became for name, became in OUTCOMES.items() if fnmatchcase(topic, name)]
    return tuple(each for became in matching_outcomes for each in became)


def readers(topic: str) -> Iterable[tuple[Pipeline, bool]]:
    """The pipelines that read a topic and know a schema, and whether they write dead letters."""
    for pipeline in declared().values():
        for source in pipeline.sources.values():
            if fnmatchcase(topic, source.topic) and source.schema is not None:
                yield pipeline, source.dead_letters


def schemas(topic: str) -> list[str]:
    """The schemas for which a value of a topic may be a dead letter."""
    return [
        source.schema
        for pipeline in declared().values()
        for source in pipeline.sources.values()
        if source.dead_letters and source.schema and fnmatchcase(topic, source.topic)
    ]
