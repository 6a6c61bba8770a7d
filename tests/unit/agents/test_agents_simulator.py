"""The simulator's world is believable, and the same for the same seed."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count, islice, pairwise, takewhile
from pathlib import Path

import pytest

from agents import Reporter
from agents.demo.incidents import LONGEST_MS, Timetable
from agents.demo.simulator import SCENARIOS, parse, send, simulate
from agents.demo.worlds import (
    ATTACK_KINDS,
    CONNECTIVITY_KINDS,
    HOSTED,
    NETWORKS,
    Orders,
    attack,
    connectivity,
)
from agents.process import OFF_MS
from bus.base import ConsumerRecord, TopicSpec
from bus.memory import MemoryBus
from domain.records import Report
from domain.scenario_parser import load_scenarios
from wire.source import decode_source, encode_report

START = 1_790_000_000_000
MINUTE = 60_000
ROOT = Path(__file__).resolve().parents[3]
Seen = list[tuple[int, str, Report]]


def minutes(count: int, seed: int = 1, start: int = START, **options: object) -> Seen:
    stream = simulate(seed, start, **options)  # type: ignore[arg-type]
    return list(takewhile(lambda it: it[0] <= start + count * MINUTE, stream))


@pytest.fixture(scope="module")
def ten_minutes() -> Seen:
    return minutes(10)


def test_same_seed_same_reports(ten_minutes: Seen) -> None:
    one = minutes(1)
    assert one == list(islice(ten_minutes, len(one)))
    assert minutes(1, seed=2) != one


def test_times_rise_and_reports_can_be_read(ten_minutes: Seen) -> None:
    times = [at for at, _, _ in ten_minutes]
    assert times == sorted(times)
    for at, _, report in ten_minutes:
        assert report.reported_at is not None
        assert report.reported_at <= at
        assert decode_source(report.asset.encode(), encode_report(report), at) == report


def test_states_are_those_of_the_scenarios(ten_minutes: Seen) -> None:
    scenarios = load_scenarios(ROOT / "scenarios.toml", demo=True)
    for _, name, report in ten_minutes:
        assert scenarios[name].knows(report.state)
    used = {(name, report.state) for _, name, report in ten_minutes}
    assert {name for name, _ in used} == set(SCENARIOS)
    for name in SCENARIOS:
        shown = {state for scenario, state in used if scenario == name}
        assert {spec.name for spec in scenarios[name].states} <= shown
    assert {"on-hold", "customs", "returned"} & {state for _, state in used}


@pytest.mark.parametrize("name", ["attack", "connectivity"])
def test_all_begins_calm_whenever_it_begins(name: str) -> None:
    """Also in the middle of what goes on by the timetable, as at most times something does."""
    for begun in range(START, START + 40 * MINUTE, 2 * MINUTE):
        stream = simulate(1, begun, (name,))
        seen = list(takewhile(lambda it, until=begun + 10_000: it[0] < until, stream))  # type: ignore[misc]
        assert {report.state for _, _, report in seen} <= {"clear", "up"}
        assert (
            len({report.asset for _, _, report in seen}) == {"attack": 40, "connectivity": 24}[name]
        )


def test_rate_and_number_of_assets_are_calm(ten_minutes: Seen) -> None:
    assert 8 <= len(ten_minutes) / 600 <= 20
    assets = defaultdict(set)
    for _, name, report in ten_minutes:
        assets[name].add(report.asset)
    assert len(assets["attack"]) == 40
    assert len(assets["connectivity"]) == len(set(NETWORKS)) == 24


def test_no_vote_expires_while_its_agent_is_not_silent(ten_minutes: Seen) -> None:
    """Of all pairs of asset and agent, few are ever quiet for as long as a vote lives (90 s)."""
    times = defaultdict(list)
    for at, name, report in ten_minutes:
        if name != "orders":
            times[report.asset, report.agent].append(at)
    quiet = [pair for pair, at in times.items() if any(b - a > 80_000 for a, b in pairwise(at))]
    assert 0 < len(quiet) < len(times) / 2


def test_most_assets_are_calm_at_any_time(ten_minutes: Seen) -> None:
    votes: dict[tuple[str, str, str], str] = {}
    calm = Counter[bool]()
    for _, name, report in ten_minutes:
        if name != "orders":
            votes[name, report.asset, report.agent] = report.state
            if len(votes) >= 200:
                stirred = {n_a[:2] for n_a, s in votes.items() if s not in ("clear", "up")}
                calm[len(stirred) < 20] += 1
    assert calm[True] > 0.95 * calm.total()


@pytest.mark.parametrize(
    ("timetable", "kinds"),
    [
        (attack(1).timetable, ATTACK_KINDS),
        (connectivity(1).timetable, CONNECTIVITY_KINDS),
    ],
)
def test_every_kind_of_incident_occurs(timetable: Timetable, kinds: tuple[str, ...]) -> None:
    seen = {
        incident.kind
        for minute in range(60)
        for incident in timetable.at(START + minute * MINUTE)
        if incident.end - incident.start <= LONGEST_MS
    }
    assert seen == set(kinds)


def test_retries_look_like_an_attack_on_what_stands_in_a_network_that_is_down(
    ten_minutes: Seen,
) -> None:
    outages = {
        outage
        for now in range(START + MINUTE, START + 8 * MINUTE, 10_000)
        for outage in connectivity(1).timetable.at(now)
        if outage.kind == "outage" and outage.assets & HOSTED.keys() and outage.start > START
    }
    assert outages
    for outage in outages:
        sites = {site for network in outage.assets for site in HOSTED.get(network, ())}
        seen = {
            (report.asset, report.agent)
            for time, name, report in ten_minutes
            if name == "attack" and outage.start < time < outage.end
            if report.asset in sites and report.state == "under-attack"
        }
        assert {asset for asset, _ in seen} == sites
        assert len(seen) >= 3 * len(sites), "most agents: one may be silent"


def test_wave_is_noticed_by_a_majority(ten_minutes: Seen) -> None:
    votes: dict[str, dict[str, str]] = defaultdict(dict)
    agreed = set()
    for _, name, report in ten_minutes:
        if name == "attack":
            votes[report.asset][report.agent] = report.state
            if list(votes[report.asset].values()).count("under-attack") == 4:
                agreed.add(report.asset)
    assert len(agreed) >= 5


def test_order_goes_its_way_once() -> None:
    orders = Orders(1, 4000)
    states = [report.state for _, report in orders.journey(77)]
    assert states[0] == "received"
    assert states[-1] == "delivered"
    assert orders.journey(77) == orders.journey(77)
    assert orders.journey(77) != orders.journey(78)


def test_restarted_simulator_goes_on_with_the_same_orders() -> None:
    """What one run has begun, the next one ends: no order is left behind."""
    names: tuple[str, ...] = ("orders",)
    before = minutes(3, scenarios=names)
    last = {report.asset: report.state for _, _, report in before}
    after = minutes(6, scenarios=names, start=START + 4 * MINUTE)
    last.update((report.asset, report.state) for _, _, report in after)
    undelivered = {r.asset for _, _, r in before} & {a for a, s in last.items() if s != "delivered"}
    assert len(undelivered) <= 3  # the slow ones


def test_reports_are_sent_at_their_time(tmp_path: Path) -> None:
    bus = MemoryBus(lambda: START)
    bus.ensure_topics([TopicSpec("attack.reports", 1, {})])
    stop = threading.Event()
    reports = [(START + n, "attack", Report("a", "waf-1", "clear", START + n)) for n in range(3)]

    def stream(_start: int):
        yield from reports
        stop.set()

    with Reporter(bus, "attack.reports", tmp_path, lambda: START) as reporter:
        send(stream, {"attack": reporter}, lambda: START, stop)
        assert reporter.flush(5) == 0
    assert [m.offset for m in bus.reader({("attack.reports", 0): 0}).poll(0)] == [0, 1, 2]


def test_simulator_that_slept_goes_on_from_now(tmp_path: Path) -> None:
    bus = MemoryBus(lambda: START)
    bus.ensure_topics([TopicSpec("attack.reports", 1, {})])
    stop, starts = threading.Event(), []

    def stream(start: int):
        starts.append(start)
        if len(starts) == 2:
            stop.set()
        yield from ((START - 3600_000 + n, "attack", Report("a", "w", "clear")) for n in range(9))

    with Reporter(bus, "attack.reports", tmp_path, lambda: START) as reporter:
        send(stream, {"attack": reporter}, lambda: START, stop)
    assert starts == [START, START]
    assert reporter.accepted <= 2


class SetClock(threading.Event):
    """A clock (Unix ms) that a test sets, and that passes while somebody waits for the event."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.longest_s = float(START), 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once, later by so many seconds."""
        self.longest_s = max(self.longest_s, timeout or 0)
        self.now += 1000 * (timeout or 0)
        return self.is_set()

    def read(self) -> int:
        """Return the time, Unix ms."""
        return round(self.now)


DAY = 24 * 60 * MINUTE


@pytest.mark.parametrize("step", [20_000, 10 * MINUTE, DAY, -20_000, -10 * MINUTE, -DAY])
def test_simulator_whose_clock_is_set_waits_no_longer_and_goes_on_from_now(
    tmp_path: Path, step: int
) -> None:
    clock, beats = SetClock(), count(1)
    bus = MemoryBus(lambda: START)
    bus.ensure_topics([TopicSpec("attack.reports", 1, {})])

    def beat() -> None:
        number = next(beats)
        if number == 300:
            clock.now += step
        elif number == 900:
            clock.set()

    def stream(start: int) -> Iterator[tuple[int, str, Report]]:
        return simulate(1, start, ("attack",))

    with Reporter(bus, "attack.reports", tmp_path, clock.read) as reporter:
        send(stream, {"attack": reporter}, clock.read, clock, beat)
        assert reporter.flush(5) == 0
        assert (reporter.accepted, reporter.confirmed) == (900, 900)
    times = [json.loads(m.value or b"")["reported_at"] for m in log_of(bus)]
    assert abs(times[-1] - clock.now) <= OFF_MS
    assert clock.longest_s < 10


def log_of(bus: MemoryBus) -> list[ConsumerRecord]:
    return bus.reader({("attack.reports", 0): 0}).poll(0, 10_000)


def test_command_line() -> None:
    assert parse([]).scenario is None
    assert parse(["--scenario", "orders", "--seed", "3", "--rate", "50"]).scenario == ["orders"]
    assert SCENARIOS == ("attack", "connectivity", "orders")
    for wrong in (["--rate", "0"], ["--scenario", "weather"]):
        with pytest.raises(SystemExit):
            parse(wrong)
