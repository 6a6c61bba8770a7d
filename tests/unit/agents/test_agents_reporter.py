"""The reporter confirms what it accepted, in order, whatever the bus does."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agents import Reporter, ReportRefused, SpoolFull, process
from agents.process import report_calmly
from agents.reporter import MAX_BACK_MS, MAX_LOGGED
from bus.base import ConsumerRecord, Delivered, TopicSpec, Unavailable
from bus.memory import MemoryBus
from domain.records import Report
from support.run.stack import wait_until
from wire.source import MAX_DETAIL, decode_source

TOPIC = "attack.reports"
NOW = 1_790_000_000_000
MINUTE, DAY = 60_000, 86_400_000
ENDLESS: dict[str, object] = {}
ENDLESS["x"] = ENDLESS


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec(TOPIC, 4, {})])
    return bus


@pytest.fixture
def reporter(bus: MemoryBus, tmp_path: Path) -> Iterator[Reporter]:
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW) as reporter:
        yield reporter


def log_of(bus: MemoryBus) -> list[ConsumerRecord]:
    return bus.reader({(TOPIC, at): 0 for at in range(4)}).poll(0, 100_000)


def reports_of(bus: MemoryBus) -> list[Report]:
    read = [decode_source(m.key, m.value, m.timestamp) for m in log_of(bus)]
    assert all(isinstance(report, Report) for report in read)
    return read  # type: ignore[return-value]


def times_of(bus: MemoryBus) -> list[int]:
    """The times of the reports, as they differ from NOW, ms."""
    return [json.loads(m.value or b"")["reported_at"] - NOW for m in log_of(bus)]


def states_of(bus: MemoryBus) -> list[str]:
    return [report.state for report in reports_of(bus)]


def report_often(reporter: Reporter) -> None:
    for n in range(100):
        reporter.report("a", "waf-1", f"s{n}")


def test_report_is_confirmed_with_its_place(bus: MemoryBus, tmp_path: Path) -> None:
    places: list[tuple[str, Delivered]] = []
    with Reporter(
        bus, TOPIC, tmp_path, lambda: NOW, on_confirmed=lambda *it: places.append(it)
    ) as reporter:
        reporter.report("shop.example", "waf-1", "clear", detail={"rps": 3})
        assert reporter.flush(5) == 0
    [message], [(asset, place)] = log_of(bus), places
    assert asset == "shop.example"
    assert place == (TOPIC, message.partition, message.offset, NOW)
    assert reports_of(bus) == [Report("shop.example", "waf-1", "clear", NOW, '{"rps":3}')]
    assert (reporter.accepted, reporter.confirmed, reporter.unconfirmed) == (1, 1, 0)
    assert reporter.offsets == {message.partition: 0}


def test_own_time_is_kept_and_the_clock_never_repeats(bus: MemoryBus, reporter: Reporter) -> None:
    reporter.report("a", "waf-1", "clear", reported_at=5)
    for state in ("one", "two", "three"):
        reporter.report("a", "waf-1", state)
    reporter.flush(5)
    assert [r.reported_at for r in reports_of(bus)] == [5, NOW, NOW + 1, NOW + 2]


@pytest.mark.parametrize(
    ("step", "after", "back"),
    [
        (3 * MINUTE, [3 * MINUTE, 3 * MINUTE + 1], [3 * MINUTE + 2, 3 * MINUTE + 3]),
        (10 * MINUTE, [10 * MINUTE, 10 * MINUTE + 1], [0, 1]),
        (DAY, [DAY, DAY + 1], [0, 1]),
        (-3 * MINUTE, [1, 2], [3, 4]),
        (-10 * MINUTE, [-10 * MINUTE, -10 * MINUTE + 1], [0, 1]),
        (-DAY, [-DAY, -DAY + 1], [0, 1]),
    ],
)
def test_clock_that_is_set_and_set_right_costs_no_report(
    bus: MemoryBus, tmp_path: Path, step: int, after: list[int], back: list[int]
) -> None:
    now = [NOW]
    with Reporter(bus, TOPIC, tmp_path, lambda: now[0]) as reporter:
        for now[0] in (NOW, NOW + step, NOW + step, NOW, NOW):
            reporter.report("a", "waf-1", "clear")
        assert reporter.flush(5) == 0
    assert (reporter.accepted, reporter.confirmed) == (5, 5)
    assert times_of(bus) == [0, *after, *back]


@pytest.mark.parametrize(("behind", "next_"), [(MAX_BACK_MS, 1), (MAX_BACK_MS + 1, -240_001)])
def test_clock_is_followed_once_it_is_far_behind_the_last_report(
    bus: MemoryBus, tmp_path: Path, behind: int, next_: int
) -> None:
    now = [NOW]
    with Reporter(bus, TOPIC, tmp_path, lambda: now[0]) as reporter:
        reporter.report("a", "waf-1", "one")
        now[0] = NOW - behind
        reporter.report("a", "waf-1", "two")
        assert reporter.flush(5) == 0
    assert times_of(bus) == [0, next_]


def test_clock_that_goes_back_concerns_no_other_pair(bus: MemoryBus, tmp_path: Path) -> None:
    now = [NOW]
    with Reporter(bus, TOPIC, tmp_path, lambda: now[0]) as reporter:
        reporter.report("a", "waf-1", "clear")
        now[0] = NOW - MINUTE
        for agent in ("waf-2", "waf-1"):
            reporter.report("a", agent, "clear")
        assert reporter.flush(5) == 0
    assert times_of(bus) == [0, -MINUTE, 1]


def test_reports_of_a_spool_are_sent_whatever_the_clock_says_since(
    bus: MemoryBus, tmp_path: Path
) -> None:
    bus.stop()
    first = Reporter(bus, TOPIC, tmp_path, lambda: NOW + DAY)
    first.report("a", "waf-1", "one")
    first.close(0.1)
    bus.start()
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW) as second:
        second.report("a", "waf-1", "two")
        assert second.flush(5) == 0
    assert times_of(bus) == [DAY, 0]


@pytest.mark.parametrize("ahead", [10 * MINUTE, DAY, 365 * DAY])
def test_own_time_far_ahead_is_taken_and_the_clock_does_not_follow_it(
    bus: MemoryBus, reporter: Reporter, ahead: int
) -> None:
    reporter.report("a", "waf-1", "one", reported_at=NOW + ahead)
    reporter.report("a", "waf-1", "two")
    assert reporter.flush(5) == 0
    assert times_of(bus) == [ahead, 0]


@pytest.mark.parametrize("time", [-1, True, 1.5, "now", 10**15, 10**30])
def test_own_time_that_is_none_is_refused(reporter: Reporter, time: Any) -> None:
    with pytest.raises(ReportRefused, match="bad-time"):
        reporter.report("a", "waf-1", "clear", reported_at=time)
    assert reporter.accepted == 0


@pytest.mark.parametrize(
    ("asset", "agent", "state", "detail", "reason"),
    [
        ("", "waf", "clear", None, "bad-asset"),
        ("a" * 256, "waf", "clear", None, "bad-asset"),
        ("a", "user:eve", "clear", None, "bad-agent"),
        ("a", "waf", "", None, "unknown-state"),
        ("a", "waf", "clear", {"x": object()}, "object"),
        ("a", "waf", "clear", ENDLESS, "less deep"),
        ("a", "waf", "clear", {"x": 10**5000}, "4300 digits"),
        ("\ud800", "waf", "clear", None, "surrogates"),
    ],
)
def test_what_the_tally_could_not_read_is_refused(
    reporter: Reporter, asset: str, agent: str, state: str, detail: dict | None, reason: str
) -> None:
    with pytest.raises(ReportRefused, match=reason):
        reporter.report(asset, agent, state, detail=detail)
    assert (reporter.accepted, reporter.unconfirmed) == (0, 0)


def test_a_report_with_its_detail_as_text_is_taken_as_it_is(
    bus: MemoryBus, reporter: Reporter
) -> None:
    reporter.accept(Report("a", "waf", "clear", None, '{ "x": 1.50}'))
    assert reporter.flush(5) == 0
    assert reports_of(bus) == [Report("a", "waf", "clear", NOW, '{ "x": 1.50}')]


@pytest.mark.parametrize(
    "detail", ["", "{", "x", "[]", " {}", '{"x":\n1}', '{},"agent":"other"', '{},"later":1']
)
def test_a_detail_that_is_no_text_of_an_object_is_refused(reporter: Reporter, detail: str) -> None:
    with pytest.raises(ReportRefused):
        reporter.accept(Report("a", "waf", "clear", None, detail))
    assert (reporter.accepted, reporter.unconfirmed) == (0, 0)


@pytest.mark.parametrize(
    "detail", [{"x": "y" * 2_048}, {"x": "ä" * 1_100}, {"x": "y" * 70_000}, {"x": [[]] * 400}]
)
def test_a_detail_that_is_too_large_does_not_cost_the_claim(
    bus: MemoryBus, reporter: Reporter, caplog: pytest.LogCaptureFixture, detail: dict[str, Any]
) -> None:
    for asset in ("a", "b"):
        reporter.report(asset, "waf-1", "under-attack", detail=detail)
    reporter.report("c", "waf-2", "clear", detail=detail)
    assert reporter.flush(5) == 0
    claims = {(r.asset, r.agent, r.state, r.detail) for r in reports_of(bus)}
    assert claims == {
        ("a", "waf-1", "under-attack", None),
        ("b", "waf-1", "under-attack", None),
        ("c", "waf-2", "clear", None),
    }
    assert (reporter.accepted, reporter.stripped) == (3, 3)
    assert [record.getMessage() for record in caplog.records] == [
        f"{TOPIC}: too large a detail by {agent!r} is left out (logged once)"
        for agent in ("waf-1", "waf-2")
    ]


def test_details_of_many_agents_do_not_fill_the_log(
    reporter: Reporter, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(MAX_LOGGED + 50):
        reporter.report("a", f"waf-{n}", "clear", detail={"x": "y" * 2_048})
    assert len(caplog.records) == MAX_LOGGED
    assert reporter.stripped == MAX_LOGGED + 50


def test_a_detail_of_the_largest_size_is_kept(bus: MemoryBus, reporter: Reporter) -> None:
    detail = json.dumps({"x": "y" * 2_039})
    assert len(detail) == MAX_DETAIL
    reporter.accept(Report("a", "waf-1", "clear", None, detail))
    assert reporter.flush(5) == 0
    assert [report.detail for report in reports_of(bus)] == [detail]
    assert reporter.stripped == 0


def test_a_name_that_is_too_long_is_refused_with_a_large_detail_too(reporter: Reporter) -> None:
    with pytest.raises(ReportRefused, match="too-large"):
        reporter.report("a", "w" * 70_000, "clear", detail={"x": "y" * 3_000})
    assert (reporter.accepted, reporter.stripped) == (0, 0)


def test_a_refused_report_is_logged_once_for_each_cause_and_the_next_is_taken(
    bus: MemoryBus, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_logged", set())
    with capture_logs() as logs:
        for asset in ("a", "b", "c"):
            report_calmly(reporter, Report(asset, "user:eve", "clear"))
            report_calmly(reporter, Report(asset, "waf-1", "clear", None, "no JSON"))
            report_calmly(reporter, Report("\ud800", "waf-1", "clear"))
            report_calmly(reporter, Report(asset, "waf-1", "clear"))
    assert reporter.flush(5) == 0
    assert states_of(bus) == ["clear"] * 3
    assert {log["event"] for log in logs} == {"report refused (logged once)"}
    whys = [log["why"].partition(":")[2] for log in logs]
    assert len(whys) == 3
    assert [why for why in whys if "bad-agent" in why]
    assert [why for why in whys if "surrogates" in why]


def test_refused_reports_of_many_causes_do_not_fill_the_log(
    reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_logged", {("other", str(n)) for n in range(process.MAX_LOGGED)})
    with capture_logs() as logs:
        report_calmly(reporter, Report("a", "user:eve", "clear"))
    assert logs == []


def test_outage_spools_and_drains_in_order(bus: MemoryBus, tmp_path: Path) -> None:
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW, message_timeout_s=0.2) as reporter:
        reporter.report("a", "waf-1", "s0")
        reporter.flush(5)
        bus.stop()
        for n in range(1, 50):
            reporter.report("a", "waf-1", f"s{n}")
        wait_until(lambda: reporter.away, 5, "the outage is noticed")
        reporter.report("a", "waf-1", "s50")
        assert reporter.flush(0.1) == 50
        bus.start()
        assert reporter.flush(10) == 0
        assert not reporter.away
    assert list(dict.fromkeys(states_of(bus))) == [f"s{n}" for n in range(51)]
    assert states_of(bus)[-1] == "s50"
    assert reporter.confirmed == 51


def test_next_process_sends_what_is_left_before_its_own(bus: MemoryBus, tmp_path: Path) -> None:
    bus.stop()
    first = Reporter(bus, TOPIC, tmp_path, lambda: NOW)
    first.report("a", "waf-1", "one")
    first.report("a", "waf-1", "two")
    first.close(0.1)
    with pytest.raises(ReportRefused, match="closed"):
        first.report("a", "waf-1", "late")
    bus.start()
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW + 10) as second:
        second.report("a", "waf-1", "three")
        assert second.flush(5) == 0
    assert states_of(bus) == ["one", "two", "three"]


def test_full_spool_is_a_named_counted_refusal(bus: MemoryBus, tmp_path: Path) -> None:
    bus.stop()
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW, max_spool_bytes=1000) as reporter:
        with pytest.raises(SpoolFull, match="1000 bytes"):
            report_often(reporter)
        assert reporter.refused == 1
        bus.start()
        assert reporter.flush(10) == 0
        reporter.report("a", "waf-1", "again")
    assert len(states_of(bus)) == reporter.accepted == reporter.confirmed


def test_failure_in_the_middle_goes_back_to_it(
    bus: MemoryBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole is filled by sending again from there, so that the last word is the agent's last."""
    append, calls = MemoryBus.append, itertools.count()
    monkeypatch.setattr(
        MemoryBus,
        "append",
        lambda self, sent: Unavailable("lost") if next(calls) == 1 else append(self, sent),
    )
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW) as reporter:
        with reporter._lock:
            for n in range(4):
                value = reporter._value(Report("a", "waf-1", f"s{n}", NOW + n))
                reporter._spool.append("a", value)
        reporter._courier.wake()
        assert reporter.flush(10) == 0
    assert states_of(bus)[-3:] == ["s1", "s2", "s3"]
    assert set(states_of(bus)) == {"s0", "s1", "s2", "s3"}
    assert reporter.confirmed == 4


def test_callback_that_raises_loses_nothing(bus: MemoryBus, tmp_path: Path) -> None:
    calls = itertools.count()

    def fragile(_asset: str, _place: Delivered) -> None:
        if next(calls) == 0:
            raise RuntimeError("once")

    with Reporter(bus, TOPIC, tmp_path, lambda: NOW, on_confirmed=fragile) as reporter:
        reporter.report("a", "waf-1", "one")
        assert reporter.flush(10) == 0
    assert set(states_of(bus)) == {"one"}


def test_reports_do_not_wait_for_kafka(bus: MemoryBus, reporter: Reporter) -> None:
    bus.stop()
    started = time.monotonic()
    for _ in range(200):
        reporter.report("a", "waf-1", "clear")
    assert time.monotonic() - started < 5
    bus.start()
