"""`manage.py view login-windows`: which windows are given when, held against a plain count."""

from __future__ import annotations

from collections import Counter
from threading import Event as Flag
from typing import Any

import pytest

from bus.base import ConsumerRecord, TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from dashboard.operate.console import login_windows
from dashboard.operate.console.login_windows import (
    MOST_LINES,
    ClientWindow,
    ClientWindows,
    NoWindows,
    WindowPrintout,
)
from domain.login_windows import HOP_MS, LATE_MS, WINDOW_MS
from support.histories.login_logs import DAY_MS, Event, LoginLog, client

BEGIN = 1_790_000_000_000


def message(event: Event, arrived: int | None = None) -> ConsumerRecord:
    at = event.time if arrived is None else arrived
    return ConsumerRecord("app-logs", 0, 0, at, event.client.encode(), event.value, ())


def actions(*seconds: float, name: str = client(1)) -> list[Event]:
    return [Event(BEGIN + round(second * 1_000), name) for second in seconds]


def given(counted: ClientWindows, events: list[Event]) -> list[ClientWindow]:
    return [one for event in events for one in counted.take(message(event))]


def plain(events: list[Event]) -> Counter[tuple[str, int]]:
    """How many actions fall into each window, looked at one window after the other."""
    counts: Counter[tuple[str, int]] = Counter()
    for event in events:
        for begin in range((event.time - WINDOW_MS) // HOP_MS * HOP_MS, event.time + 1, HOP_MS):
            if begin <= event.time < begin + WINDOW_MS:
                counts[event.client, begin] += 1
    return counts


def test_each_window_of_each_client_of_a_day_is_given_once() -> None:
    log = LoginLog(BEGIN, 3, DAY_MS, jitter=2_000)
    unverified = [event for event in log.events if event.action != "verified"]
    counted = ClientWindows(by_arrival=False)
    seen = [*given(counted, unverified), *counted.rest()]
    assert len({(one.client, one.begin) for one in seen}) == len(seen)
    assert {(one.client, one.begin): one.actions for one in seen} == plain(unverified)
    assert len({one.client for one in seen if one.actions < 5}) > 30  # who never was challenged
    assert all(one.end == one.begin + WINDOW_MS for one in seen)


def test_a_window_is_given_by_time_alone_and_again_where_a_late_record_changes_it() -> None:
    counted = ClientWindows(by_arrival=False)
    assert given(counted, actions(0.5, 1)) == []
    assert list(counted.advance(BEGIN + WINDOW_MS + LATE_MS - 1)) == [
        # The windows that began 4 and 2 s before are over for longer.
        ClientWindow(client(1), BEGIN - 4_000, BEGIN + 1_000, 1),
        ClientWindow(client(1), BEGIN - 2_000, BEGIN + 3_000, 2),
    ]
    whole = ClientWindow(client(1), BEGIN, BEGIN + 5_000, 2)
    assert list(counted.advance(BEGIN + WINDOW_MS + LATE_MS)) == [whole]
    assert list(counted.advance(BEGIN + WINDOW_MS + LATE_MS + 500)) == []
    late = message(actions(1.5)[0], arrived=BEGIN + 16_000)
    assert list(counted.take(late)) == []
    again = [one.actions for one in counted.advance(BEGIN + 31_500)]
    assert again == [3, 3]


def test_a_client_that_is_verified_has_its_windows_given_and_counts_no_more() -> None:
    counted = ClientWindows(by_arrival=False)
    burst = actions(0.1, 0.2, 0.3, 0.4, 0.5)
    verified = Event(BEGIN + 700, client(1), "verified")
    assert [one.actions for one in given(counted, [*burst, verified])] == [5, 5, 5]
    assert given(counted, actions(1, 1.1, 30)) == []
    assert list(counted.rest()) == []


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{", b"\xff", b"[]", b'{"time": "x"}',
        Event(BEGIN, "client-1").value, Event(BEGIN, client(1), "page-opened").value,
        Event(-1, client(1)).value, Event(BEGIN + 301_000, client(1)).value,
        Event(BEGIN, client(1)).value.replace(b"security", b"requests"),
    ],
)  # fmt: skip
def test_what_the_guard_passes_over_is_in_no_window(value: bytes) -> None:
    counted = ClientWindows(by_arrival=False)
    assert list(counted.take(ConsumerRecord("app-logs", 0, 0, BEGIN, None, value, ()))) == []
    assert list(counted.rest()) == []


def test_by_the_wall_clock_an_action_has_the_time_of_its_arrival() -> None:
    counted = ClientWindows(by_arrival=True)
    list(counted.take(message(Event(BEGIN, client(1)), arrived=BEGIN + 20_000)))
    assert {one.begin for one in counted.rest()} == {BEGIN + 16_000, BEGIN + 18_000, BEGIN + 20_000}


def test_of_more_clients_than_are_remembered_the_oldest_are_given_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(login_windows, "MOST_CLIENTS", 2)
    counted = ClientWindows(by_arrival=False)
    events = [Event(BEGIN, client(n)) for n in (1, 2, 1, 3)]
    assert {one.client for one in given(counted, events)} == {client(2)}
    assert {one.client for one in counted.rest()} == {client(1), client(3)}


# ---- the lines ----------------------------------------------------------------------------------


def printed(bus: MemoryBus, **options: Any) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    remarks: list[str] = []
    settings = Settings(pipelines="report-rates,login-guard", **options)
    printout = WindowPrintout(lambda _: True, lines.append, remarks.append, lambda: BEGIN + 60_000)
    printout.run(settings, bus, Flag(), follow=False, within_s=20)
    return lines, remarks


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    """A bus whose log is read from its beginning, as it is short."""
    made = MemoryBus(clock=lambda: BEGIN + 50_000)

    class FromTheBeginning:
        def __init__(self, _options: object) -> None:
            """Connects to nothing."""

        def at_time(self, places: Any, _time: object) -> dict[Any, int]:
            return dict.fromkeys(places, 0)

    monkeypatch.setattr(login_windows, "KafkaAdmin", FromTheBeginning)
    return made


def log_of(bus: MemoryBus, events: list[Event]) -> None:
    topic = Settings().topic_prefix + "app-logs"
    bus.ensure_topics([TopicSpec(topic, 2, {})])
    producer = bus.producer()
    for event in events:
        producer.send(topic, event.client.encode(), event.value)
    assert producer.flush(5) == 0


def test_a_flood_is_a_bounded_number_of_lines_the_fullest_windows_first(bus: MemoryBus) -> None:
    few = [Event(BEGIN + 50_000, client(n)) for n in range(MOST_LINES)]
    many = [Event(BEGIN + 50_100, client(9_999)) for _ in range(4)]
    log_of(bus, [*few, *many])
    lines, remarks = printed(bus)
    assert len(lines) == MOST_LINES
    full = [line for line in lines if line.startswith(client(9_999))]
    assert full[-1] == f"{client(9_999)}\t2026-09-21 14:14:10 UTC\t5 s\t4"
    assert len(full) == 3
    others = 3 * (MOST_LINES + 1) - MOST_LINES
    assert remarks == [f"… and {others} windows with as many actions or fewer"]


def test_windows_that_were_over_long_ago_are_not_shown(bus: MemoryBus) -> None:
    log_of(bus, [Event(BEGIN - 260_000, client(1)), Event(BEGIN, client(2))])
    assert {line.partition("\t")[0] for line in printed(bus)[0]} == {client(2)}


def test_that_nobody_acted_is_said(bus: MemoryBus) -> None:
    log_of(bus, [Event(BEGIN - 260_000, client(1))])
    assert printed(bus) == ([], ["No windows in the last 5 minutes."])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"pipelines": "report-rates"},
            "guard is off: TALLYBOARD_PIPELINES is 'report-rates', exp",
        ),
        ({"pipelines": "all", "app_logs": False}, "TALLYBOARD_APP_LOGS is off"),
        ({"pipelines": "all"}, "There is no topic app-logs yet"),
    ],
)
def test_without_the_guard_or_its_log_there_are_words(changes: dict[str, Any], words: str) -> None:
    empty = MemoryBus(clock=lambda: BEGIN)
    printout = WindowPrintout(lambda _: True, print, print, lambda: BEGIN)
    with pytest.raises(NoWindows, match=words):
        printout.run(Settings(**changes), empty, Flag(), follow=True, within_s=5)
