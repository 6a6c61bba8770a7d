"""Agents that end for good withdraw their votes, and their successors take over from them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from agents import Reporter, ReportRefused
from agents import probe as probing
from agents.checks import CheckResult, CheckTarget
from agents.demo import simulator
from agents.process import report_calmly
from agents.reporter import wall_clock
from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from domain.fold import Bucket
from domain.records import Emission, Leave, Record, Report, StateRecord, Tick
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from wire.source import MAX_TIME, decode_source

TOPIC = "sites.reports"
NOW = 1_790_000_000_000
SECOND, MINUTE = 1_000, 60_000
RULE = """\
[sites]
partitions = 1
vote_lifetime = "2m"
min_voters = { lower = 3, raise = 1 }
states = [{ name = "attack" }, { name = "clear" }]
holds = { clear = "1m" }
[sites.rule]
kind = "quorum"
ladder = [{ state = "attack", more_than = "1/2" }, { state = "clear", at_least = "1/2" }]
"""
SAID = {
    "under-attack": ("attack", "attack", "attack"),
    "calm": ("clear", "clear", "clear"),
    "two-of-three": ("attack", "attack", "clear"),
    "one-of-three": ("clear", "clear", "attack"),
}
"""By asset: what the first, second and third agent say, and their successors after them."""


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec(TOPIC, 1, {})])
    return bus


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    file = tmp_path / "scenarios.toml"
    file.write_text(RULE)
    return load_scenarios(file)["sites"]


def log_of(bus: MemoryBus) -> list[Record]:
    """The records as they were sent: when they were appended says nothing about a reporter."""
    messages = bus.reader({(TOPIC, 0): 0}).poll(0, 100_000)
    return [decode_source(m.key, m.value, MAX_TIME) for m in messages]


# ---- the reporter -------------------------------------------------------------------------------


def test_every_vote_is_withdrawn_after_its_last_report(bus: MemoryBus, tmp_path: Path) -> None:
    reporter = Reporter(bus, TOPIC, tmp_path, lambda: NOW)
    reporter.report("a", "waf-1", "attack")
    reporter.report("b", "waf-1", "clear", reported_at=NOW + 5)
    reporter.report("a", "waf-2", "clear", reported_at=NOW - 5)
    reporter.close(leave=True)
    assert log_of(bus)[3:] == [
        Leave("a", "waf-1", NOW + 1),
        Leave("b", "waf-1", NOW + 6),
        Leave("a", "waf-2", NOW),
    ]
    assert (reporter.accepted, reporter.confirmed, reporter.unconfirmed) == (6, 6, 0)


def test_a_plain_end_withdraws_nothing(bus: MemoryBus, tmp_path: Path) -> None:
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW) as reporter:
        reporter.report("a", "waf-1", "attack")
    assert log_of(bus) == [Report("a", "waf-1", "attack", NOW)]


def test_one_vote_is_withdrawn_once_and_can_come_back(bus: MemoryBus, tmp_path: Path) -> None:
    reporter = Reporter(bus, TOPIC, tmp_path, lambda: NOW)
    reporter.report("a", "waf-1", "attack")
    reporter.leave("a", "waf-1")
    assert reporter.leave_all() == 0
    reporter.report("a", "waf-1", "clear")
    assert reporter.leave_all() == 1
    reporter.close()
    assert [type(record) for record in log_of(bus)] == [Report, Leave, Report, Leave]
    with pytest.raises(ReportRefused, match="closed"):
        reporter.leave("a", "waf-1")
    report_calmly(reporter, Report("a", "waf-1", "attack"))
    assert len(log_of(bus)) == 4


@pytest.mark.parametrize(
    ("asset", "agent", "reason"),
    [("", "waf", "bad-asset"), ("a", "user:eve", "bad-agent"), ("\ud800", "waf", "surrogates")],
)
def test_a_leave_that_the_tally_could_not_read_is_refused(
    bus: MemoryBus, tmp_path: Path, asset: str, agent: str, reason: str
) -> None:
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW) as reporter:
        with pytest.raises(ReportRefused, match=reason):
            reporter.leave(asset, agent)
        assert reporter.accepted == 0


@pytest.mark.parametrize(
    ("step", "at"),
    [
        (10 * MINUTE, 10 * MINUTE),
        (24 * 60 * MINUTE, 24 * 60 * MINUTE),
        (-3 * MINUTE, 1),
        (-10 * MINUTE, -10 * MINUTE),
        (-24 * 60 * MINUTE, -24 * 60 * MINUTE),
    ],
)
def test_votes_are_withdrawn_also_where_the_clock_was_set(
    bus: MemoryBus, tmp_path: Path, step: int, at: int
) -> None:
    now = [NOW]
    reporter = Reporter(bus, TOPIC, tmp_path, lambda: now[0])
    for asset in ("a", "b"):
        reporter.report(asset, "waf-1", "attack")
    now[0] = NOW + step
    reporter.close(leave=True)
    sent = [json.loads(m.value or b"") for m in bus.reader({(TOPIC, 0): 0}).poll(0)]
    assert [record["type"] for record in sent] == ["report", "report", "leave", "leave"]
    assert [record["reported_at"] - NOW for record in sent] == [0, 0, at, at]


def test_leaves_wait_in_the_spool_while_kafka_is_away(bus: MemoryBus, tmp_path: Path) -> None:
    bus.stop()
    first = Reporter(bus, TOPIC, tmp_path, lambda: NOW)
    first.report("a", "waf-1", "attack")
    first.close(0.1, leave=True)
    assert first.unconfirmed == 2
    bus.start()
    with Reporter(bus, TOPIC, tmp_path, lambda: NOW + 10) as second:
        second.report("a", "waf-2", "attack")
    assert log_of(bus) == [
        Report("a", "waf-1", "attack", NOW),
        Leave("a", "waf-1", NOW + 1),
        Report("a", "waf-2", "attack", NOW + 10),
    ]


def test_a_full_spool_withdraws_what_it_can_and_ends(bus: MemoryBus, tmp_path: Path) -> None:
    bus.stop()
    reporter = Reporter(bus, TOPIC, tmp_path, lambda: NOW, max_spool_bytes=1_000)
    for number in range(8):
        reporter.report(f"asset-{number}", "waf-1", "attack")
    reporter.close(0.1, leave=True)
    assert reporter.refused == 1
    assert 8 < reporter.unconfirmed < 16


# ---- the processes ------------------------------------------------------------------------------


def test_a_probe_leaves_unless_it_is_to_stay(
    bus: MemoryBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = CheckTarget("t", "tcp", 1, 1, 1, host="127.0.0.1", port=1)
    monkeypatch.setattr(probing, "KafkaBus", lambda _options: bus)
    bus.ensure_topics([TopicSpec("connectivity.reports", 1, {})])
    settings = Settings(_env_file=None, data_dir=tmp_path)  # type: ignore[call-arg]

    def reports_of(arguments: list[str]) -> list[Record]:
        stop, given = threading.Event(), probing.parse(["--as", "probe-9", *arguments])
        finding = CheckResult("up", {})

        def watch(
            target: CheckTarget,
            agent: str,
            reporter: Reporter,
            stop: threading.Event,
            beat: Callable[[], None],
        ) -> None:
            beat()
            report_calmly(reporter, Report(target.name, agent, finding.state))
            stop.set()

        monkeypatch.setattr(probing, "watch", watch)
        begin = bus.offsets(["connectivity.reports"])["connectivity.reports", 0][1]
        probing.run(settings, given.agent, [target], stop, leave=not given.stay)
        messages = bus.reader({("connectivity.reports", 0): begin}).poll(0, 100)
        return [decode_source(m.key, m.value, wall_clock()) for m in messages]

    assert [type(record) for record in reports_of([])] == [Report, Leave]
    assert [type(record) for record in reports_of(["--stay"])] == [Report]


def test_the_simulator_leaves_but_orders_stay_where_they_are(
    bus: MemoryBus, tmp_path: Path
) -> None:
    names = ("attack", "orders")
    bus.ensure_topics([TopicSpec(f"{name}.reports", 1, {}) for name in names])
    reporters = {
        name: Reporter(bus, f"{name}.reports", tmp_path / name, lambda: NOW) for name in names
    }
    for reporter in reporters.values():
        reporter.report("a", "waf-1", "bad")
    assert simulator.parse(["--leave"]).leave
    simulator._part(reporters, leave=True)
    ends = bus.offsets(f"{name}.reports" for name in names)
    assert [ends[f"{name}.reports", 0][1] for name in names] == [2, 1]


# ---- a rolling restart --------------------------------------------------------------------------


class Board:
    """The fold of one partition, and what it has shown of each asset."""

    def __init__(self, scenario: Scenario) -> None:
        self.bucket = Bucket(scenario, 0, epoch=1)
        self.shown: dict[str, StateRecord] = {}
        self.states: dict[str, list[str]] = {}
        self._offsets = count()

    def take(self, record: Record, at: int) -> None:
        """Apply the next record, appended at a time."""
        for emission in self.bucket.apply(record, next(self._offsets), at):
            self._show(emission)

    def _show(self, emission: Emission) -> None:
        assert isinstance(emission, StateRecord)
        self.shown[emission.asset] = emission
        seen = self.states.setdefault(emission.asset, [])
        if emission.state not in seen[-1:]:
            seen.append(emission.state)

    def check(self, agents: set[str]) -> None:
        """One state each from first to last, only these agents' votes, nothing silent."""
        assert self.states == {
            "under-attack": ["attack"],
            "calm": ["clear"],
            "two-of-three": ["attack"],
            "one-of-three": ["clear"],
        }
        for asset, record in self.shown.items():
            assert {vote.agent for vote in record.votes} == agents, asset
            assert [vote.agent for vote in record.votes if vote.silent is not None] == []
            assert not record.unconfirmed, asset


ROUND = 30 * SECOND


def rounds() -> Iterator[tuple[int, tuple[str, str, str], str | None]]:
    """When who reports, and who leaves right after: one agent is replaced in every third round.

    The successor of one that left is heard ten seconds into the round after.
    """
    names = ["old-1", "old-2", "old-3"]
    at = NOW
    for turn in range(3):
        for _ in range(2):
            yield at, (names[0], names[1], names[2]), None
            at += ROUND
        yield at, (names[0], names[1], names[2]), names[turn]
        names[turn] = f"new-{turn + 1}"
        at += ROUND
    yield at, (names[0], names[1], names[2]), None


def restart() -> Iterator[tuple[int, Record]]:
    """All records of a rolling restart, with the times at which they are appended."""
    for at, names, leaves in rounds():
        for place, name in enumerate(names):
            for asset, said in SAID.items():
                time = at + place * SECOND
                yield time, Report(asset, name, said[place], time)
        if leaves:
            yield from (
                (at + 20 * SECOND, Leave(asset, leaves, at + 20 * SECOND)) for asset in SAID
            )
        yield at + 25 * SECOND, Tick()


def test_a_rolling_restart_under_new_names_changes_no_state(scenario: Scenario) -> None:
    board = Board(scenario)
    for at, record in restart():
        board.take(record, at)
    board.check({"new-1", "new-2", "new-3"})


def test_without_leaving_the_old_names_stay_as_silent_votes(scenario: Scenario) -> None:
    """What leaving is for: their last words would count against an all-clear for a while."""
    board = Board(scenario)
    for at, record in restart():
        if not isinstance(record, Leave):
            board.take(record, at)
    board.take(Tick(), NOW + 9 * ROUND + 3 * MINUTE)
    assert {v.agent for v in board.shown["calm"].votes if v.silent is not None} >= {"old-1"}


def test_reporters_that_are_replaced_change_no_state(scenario: Scenario, tmp_path: Path) -> None:
    """The same through the library and a log, one process after the other."""
    clock = [NOW]
    bus = MemoryBus(lambda: clock[0])
    bus.ensure_topics([TopicSpec(TOPIC, 1, {})])
    running: dict[str, Reporter] = {}
    for at, names, leaves in rounds():
        for place, name in enumerate(names):
            clock[0] = at + place * SECOND
            if name not in running:
                folder = tmp_path / name
                running[name] = Reporter(bus, TOPIC, folder, lambda: clock[0])
            for asset, said in SAID.items():
                running[name].report(asset, name, said[place])
            assert running[name].flush(10) == 0
        if leaves:
            clock[0] = at + 20 * SECOND
            running.pop(leaves).close(10, leave=True)
    for reporter in running.values():
        reporter.close()

    board = Board(scenario)
    for message in bus.reader({(TOPIC, 0): 0}).poll(0, 10_000):
        board.take(decode_source(message.key, message.value, message.timestamp), message.timestamp)
    board.check({"new-1", "new-2", "new-3"})
