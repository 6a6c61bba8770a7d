"""Sink topics into the database: upwards only, once, with history, answers and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from dashboard.core.job.models import BucketStatus
from dashboard.core.states.caveats import rank_of
from dashboard.core.states.models import (
    CONFIRMED,
    UNCONFIRMED,
    Answer,
    AssetState,
    Divergence,
    SinkOffset,
    Transition,
)
from dashboard.core.states.queries import counts, find, sink_offsets
from dashboard.serve.materialiser.worker import Materialiser
from dashboard.watch.commands.models import Command as Row
from domain.records import Command, Report
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob
from wire.sink import StateValue

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml")
MARKS = (UNCONFIRMED, CONFIRMED)
ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55"


def rows(scenario: str, **wanted: Any) -> list[StateValue]:
    """The records that a board shows."""
    return find(scenario, **wanted).records


def materialiser(job: PlayedJob) -> Materialiser:
    return Materialiser(job.bus, job.topics, SCENARIOS, lambda: 1_790_000_000_000)


def catch_up(job: PlayedJob) -> None:
    """Fold, then materialise until nothing more arrives."""
    job.run()
    worker = materialiser(job)
    while worker.step():
        pass
    worker.close()


def content() -> list[tuple]:
    """All of the database that must not depend on how it came about."""
    return [
        *AssetState.objects.order_by("scenario", "asset").values_list(
            "scenario", "asset", "version", "state", "record", "purged"
        ),
        *Transition.objects.order_by("scenario", "asset", "version").values_list(
            "scenario", "asset", "kind", "version", "previous", "state"
        ),
    ]


def report(job: PlayedJob, asset: str, state: str, agent: str = "scrubber-1") -> None:
    job.put("orders", Report(asset, agent, state))


def test_a_report_reaches_the_database(job):
    report(job, "order-1", "received")
    catch_up(job)
    assert [row.asset for row in rows("orders")] == ["order-1"]
    assert counts("orders") == {"received": 1}
    assert BucketStatus.objects.count() == len(job.buckets)


def test_rows_come_by_severity_then_newest_first(job):
    for asset, state in (("a", "shipped"), ("b", "received"), ("c", "received")):
        report(job, asset, state)
        job.run()
    catch_up(job)
    assert [row.asset for row in rows("orders")] == ["c", "b", "a"]


def test_rows_by_state_and_by_text(job):
    for asset, state in (("alpha", "shipped"), ("beta", "received")):
        report(job, asset, state)
    catch_up(job)
    assert [row.asset for row in rows("orders", states=["shipped"])] == ["alpha"]
    assert [row.asset for row in rows("orders", q="ET")] == ["beta"]


def test_each_change_is_in_the_history(job):
    for state in ("received", "picking", "picking", "shipped"):
        report(job, "order-1", state)
    catch_up(job)
    changes = Transition.objects.order_by("version").values_list("previous", "state")
    assert list(changes) == [("", "received"), ("received", "picking"), ("picking", "shipped")]


def minutes_pass(job: PlayedJob, minutes: int) -> None:
    """A tick in every bucket, ever and again: each record is a second after the one before."""
    for _ in range(minutes * 60 // len(job.buckets)):
        job.tick()


def history(asset: str) -> list[tuple]:
    """What happened to an asset but its mark `unconfirmed`."""
    changes = Transition.objects.filter(asset=asset).exclude(kind__in=MARKS).order_by("version")
    return list(changes.values_list("kind", "previous", "state", "at", "cause_type"))


def test_the_mark_unconfirmed_is_in_the_history(job):
    """It goes on and off while the state stays; each change of the state says which it is."""
    job.put("connectivity", Report("net-1", "probe-a", "up"))
    minutes_pass(job, 16)
    job.put("connectivity", Report("net-1", "probe-a", "up"))
    catch_up(job)
    rows = Transition.objects.filter(asset="net-1").order_by("version")
    assert list(rows.values_list("kind", "state", "cause_type", "unconfirmed")) == [
        ("change", "up", "report", False),
        (UNCONFIRMED, "up", "vote-expiry", True),
        (CONFIRMED, "up", "report", False),
    ]


def test_reminders_are_in_the_history_as_what_they_are(job):
    job.put("connectivity", Report("net-1", "probe-a", "down"))
    minutes_pass(job, 22)
    catch_up(job)
    (_, _, _, since, _), *kept = history("net-1")
    reminders = [row for row in kept if row[0] != "schedule"]
    assert reminders == [
        ("reminder", "down", "down", since + minutes * 60_000, "reminder") for minutes in (10, 20)
    ]
    before = content()
    SinkOffset.objects.all().delete()
    catch_up(job)
    assert content() == before


def test_the_end_of_an_override_is_in_the_history_where_it_changed_nothing_too(job):
    report(job, "order-1", "shipped")
    catch_up(job)
    until = AssetState.objects.get().since + 60_000
    job.put("orders", Command("set", "order-1", ID, "olga", "why", "shipped", until))
    minutes_pass(job, 2)
    catch_up(job)
    assert history("order-1")[1:] == [("override-end", "shipped", "shipped", until, "override-end")]


def test_a_reminder_that_is_the_first_to_tell_of_a_state_is_its_change(job):
    job.put("connectivity", Report("net-1", "probe-a", "down"))
    minutes_pass(job, 11)
    job.run()
    topic = job.topics.states("connectivity")
    for (_, partition), (_, end) in job.bus.offsets([topic]).items():
        job.bus.truncate(topic, partition, end - 1)
    catch_up(job)
    since = AssetState.objects.get(asset="net-1").since
    assert history("net-1") == [("change", "", "down", since, "reminder")]


def test_a_purge_hides_the_row_and_keeps_it(job):
    report(job, "order-1", "received")
    job.put("orders", Command("purge", "order-1", ID, "olga"))
    catch_up(job)
    assert rows("orders") == []
    assert counts("orders") == {}
    assert AssetState.objects.get(asset="order-1").purged


def test_a_purged_asset_comes_back_only_by_a_later_report(job):
    report(job, "order-1", "received")
    job.put("orders", Command("purge", "order-1", ID, "olga"))
    catch_up(job)
    SinkOffset.objects.all().delete()
    catch_up(job)
    assert rows("orders") == []
    report(job, "order-1", "packing")
    catch_up(job)
    assert [row.state for row in rows("orders")] == ["packing"]


@pytest.mark.parametrize("back", range(1, 12))
def test_reading_again_from_anywhere_changes_nothing(job, back):
    for n in range(4):
        report(job, f"order-{n % 2}", ("received", "picking", "shipped", "packing")[n])
    job.put("orders", Command("set", "order-1", ID, "olga", "why", "shipped"))
    job.put("orders", Command("purge", "order-0", ID, "olga"))
    catch_up(job)
    before = content()
    for offset in SinkOffset.objects.all():
        offset.next_offset = max(0, offset.next_offset - back)
        offset.save()
    catch_up(job)
    assert content() == before
    assert Divergence.objects.count() == 0


def test_a_command_learns_its_outcome(job):
    Row.objects.create(
        id=UUID(ID), scenario="orders", asset="order-1", kind="set", username="o", created_at=1
    )
    job.put("orders", Command("set", "order-1", ID, "olga", "why", "shipped"))
    catch_up(job)
    row = Row.objects.get()
    assert (row.status, row.outcome) == ("answered", "applied")
    assert row.version == AssetState.objects.get().version
    assert Answer.objects.get().command == ID


def test_an_answer_to_somebody_elses_command_is_kept(job):
    job.put("orders", Command("release", "nobody", ID, "olga"))
    catch_up(job)
    assert Answer.objects.get().outcome == "no-change"
    assert rows("orders") == []


def test_one_version_with_two_contents_is_a_divergence(job):
    report(job, "order-1", "received")
    catch_up(job)
    AssetState.objects.update(record="{}")
    SinkOffset.objects.all().delete()
    catch_up(job)
    divergence = Divergence.objects.get()
    assert divergence.kept == "{}"
    assert msgspec.json.decode(divergence.other)["state"] == "received"


def test_what_cannot_be_read_is_passed_over(job):
    job.producer.send_and_wait(job.topics.states("orders"), b"x", b"not json")
    job.producer.send_and_wait(job.topics.buckets, b"x", None)
    report(job, "order-1", "received")
    catch_up(job)
    assert [row.asset for row in rows("orders")] == ["order-1"]


def test_offsets_are_written_with_what_they_stand_for(job, monkeypatch):
    report(job, "order-1", "received")
    job.run()
    monkeypatch.setattr(
        "dashboard.serve.materialiser.writer.advance_offsets",
        lambda _: (_ for _ in ()).throw(ZeroDivisionError),
    )
    worker = materialiser(job)
    with pytest.raises(ZeroDivisionError):
        worker.step()
    assert AssetState.objects.count() == 0
    assert set(sink_offsets().values()) == {0}


def test_severity_follows_the_configured_scenario(job):
    report(job, "order-1", "shipped")
    catch_up(job)
    AssetState.objects.update(severity=99, rank=199)
    worker = materialiser(job)
    worker.step()
    row = AssetState.objects.get()
    severity = SCENARIOS["orders"].severity("shipped")
    assert (row.severity, row.rank) == (severity, rank_of(severity, None))
