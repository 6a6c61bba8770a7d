"""What was: how long a scenario's assets were in good and bad states, from the log alone.

The log is replayed by the product's own engine under the rules that are in it, from a snapshot or
from its beginning. What a state is, good or not, is as the rule in force has it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from bus.base import Bus
from domain.history.periods import hours
from domain.scenario_parser import scenario_from_plain
from streaming.batch_queries.errors import QueryRefused
from streaming.batch_queries.hour_sums import HourSums, Status, add_all
from streaming.batch_queries.protocol import RecountRequest
from streaming.batch_queries.publisher import OnStep, Publisher
from streaming.batch_queries.replay import Run
from streaming.batch_queries.replay_window import Window, begin_with, choose, window_of
from streaming.batch_queries.session import scratch_of
from wire.batch_query import Recounted, RecountTotals, portions
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings


def recount(
    spark: SparkSession,
    settings: Settings,
    bus: Bus,
    request: RecountRequest,
    publisher: Publisher,
    on_step: OnStep,
) -> str:
    """Replay the log, add up its hours, and publish them. Returns the outcome in words.

    Raises QueryRefused or BusError.
    """
    started = time.monotonic()
    scenario = scenario_from_plain(request.rule)
    run = Run(spark, settings, scenario, scratch_of(settings) / "recount", logged_rules=True)
    window = _begun(bus, settings, request, run, on_step)
    run.replay(window, lambda done: on_step(done, window.records, "records"))
    on_step(window.records, window.records, "adding up")
    edges = edges_of(window, request.wanted.zone)
    sums = HourSums(edges, scenario.is_good, request.wanted.excluded)
    add_all(sums, _histories(run))
    for part, portion in enumerate(portions(sums.hours())):
        publisher.send(Recounted(publisher.ask, part, portion))
    totals = RecountTotals(
        since=edges[0],
        until=edges[-1],
        offsets=window.offsets,
        began={place[1]: began for place, began in window.began.items()},
        records=window.records,
        assets=sums.assets,
        incidents=sums.incidents,
        affected=sums.affected,
        engine=run.engine,
        took_ms=int((time.monotonic() - started) * 1000),
    )
    publisher.send(Recounted(publisher.ask, publisher.parts, last=True, totals=totals))
    publisher.confirm()
    return in_words(totals)


def _begun(
    bus: Bus, settings: Settings, request: RecountRequest, run: Run, on_step: OnStep
) -> Window:
    """Return what is replayed; the run has the states that it begins with."""
    wanted = request.wanted
    topic = Topics(settings.topic_prefix).reports(wanted.scenario)
    window = window_of(bus, topic, wanted.since, [run.scenario])
    window = replace(window, until=min(window.until, wanted.until))
    if window.since >= window.until:
        raise QueryRefused("until: expected a time after `since`")
    window, chosen = choose(window, wanted.scenario, wanted.buckets)
    window = begin_with(window, chosen, settings.data_dir / "snapshots", [run], on_step)
    window.check()
    return window


def edges_of(window: Window, zone: str) -> list[int]:
    """Return where the window's hours begin, and its end. Unix ms."""
    begins = [hour.begin for hour in hours(window.since, window.until, ZoneInfo(zone))]
    return [window.since, *begins[1:], window.until]


def _histories(run: Run) -> Iterator[tuple[str, list[Status]]]:
    """Yield every asset that was seen, and what it showed; read bit by bit."""
    for row in run.statuses().toLocalIterator():
        yield row["asset"], [Status(*moment) for moment in row["moments"]]


def in_words(totals: RecountTotals) -> str:
    """Return the outcome in one line."""
    return (
        f"{totals.records:,} records, {totals.assets:,} assets: {totals.incidents:,} incidents on "
        f"{totals.affected:,} assets"
    )
