"""Batch queries beside the real job bring back what the plain fold makes of the log."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from bus.base import ConsumerRecord
from domain.asset import Asset, Timer, all_timers
from domain.fold import Bucket
from domain.overlay import overlaid
from domain.records import Command, Mute, Report, ScenarioChange, StateRecord, Tombstone
from domain.scenario import Scenario
from ops.leftovers import descendants
from streaming.queries.comparison import History, HistoryTally, compare
from streaming.queries.runner import BatchQueries
from streaming.state.checkpoint import Epoch
from streaming.state.storage import LocalPath
from support.histories.sharedlog import VIRTUAL_TIME
from support.run.selection import is_whole
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS, Job, Load, alive
from wire.batch_query import Result, Stored, StoredAsset, Totals, WhatIfResult, decode_result
from wire.job import AskStep, Control, JobAnswer, Outcome, decode_progress, encode
from wire.partitioner import partition_of
from wire.snapshot import dump_snapshot, load_snapshot
from wire.source import (
    decode_placed,
    encode_command,
    encode_mute,
    encode_report,
    encode_scenario,
    encode_tick,
)

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

IN_PYTHON = SCENARIOS.replace('{ kind = "latest" }', '{ kind = "python", function = "loudest" }')


@pytest.fixture(scope="module")
def job(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A job whose batches are short; it runs, and tests share it and its log.

    Of all tests, some ask the Python engine too.
    """
    prefix = f"batch-queries-{uuid.uuid4().hex[:8]}."
    made = Job(broker, tmp_path_factory.mktemp("shared") / "job", prefix, batch_s=5)
    made.configure(IN_PYTHON if is_whole() else SCENARIOS)
    made.start()
    yield made
    made.clean_up()


@pytest.fixture
def own_job(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Job]:
    """A job whose batches are short, neither configured nor started."""
    made = Job(broker, tmp_path / "job", f"{request.node.name[:60]}.", batch_s=5)
    yield made
    made.clean_up()


def ask(job: Job, action: Any, parameters: dict[str, Any], query: str = "kernel") -> str:
    """Ask for something; its id."""
    id_ = str(uuid.uuid4())
    record = Control(id_, query, action, "ada", "a drill", parameters)
    job.bus.producer().send_and_wait(job.topics.control, query.encode(), encode(record))
    return id_


def answers(job: Job, id_: str) -> list[JobAnswer]:
    job_answers = [decode_progress(m.value).answer for m in job.read([job.topics.progress])]
    return [answer for answer in job_answers if answer is not None and answer.id == id_]


def ended(job: Job, id_: str) -> JobAnswer:
    """The answer that settles it."""

    def last() -> list[JobAnswer]:
        return [a for a in answers(job, id_) if a.outcome != "accepted"]

    wait_until(last, 180, f"not answered, see {job.log}")
    return last()[-1]


def brought(job: Job, id_: str) -> list[Result]:
    """The parts of its result, in order."""
    messages = [m for m in job.read([job.topics.results]) if m.key == id_.encode()]
    parts = [decode_result(m.value) for m in messages]
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    return parts


def logs(job: Job, scenario: str) -> dict[int, list[ConsumerRecord]]:
    messages: dict[int, list[ConsumerRecord]] = {}
    for message in job.read([job.topics.reports(scenario)]):
        messages.setdefault(message.partition, []).append(message)
    return messages


def fold(log: list[ConsumerRecord], partitions: int, upto: int) -> Bucket:
    """The plain fold over a bucket's log, its rules included, up to an offset."""
    records = [
        (decode_placed(m.key, m.value, m.timestamp, m.partition, partitions, headers=m.headers), m)
        for m in log
    ]
    first = next(r.scenario for r, _ in records if isinstance(r, ScenarioChange))
    bucket = Bucket(first, log[0].partition, 1)
    for record, message in records:
        if message.offset <= upto:
            bucket.apply(record, message.offset, message.timestamp)
    return bucket


def timers_of(asset: Asset, rule: Scenario) -> list[tuple[Timer, str]]:
    """Return the timers, and whose vote each is of: of one kind, in the order of time and agent."""
    votes = asset.votes.values()
    times = {
        "vote-expiry": [(v.expires, v.agent) for v in votes if v.silent is None and v.expires],
        "vote-forgotten": [(v.silent, v.agent) for v in votes if v.silent is not None],
        "mute-end": [(v.muted.until, v.agent) for v in votes if v.muted and v.muted.until],
    }
    agents = {kind: iter(sorted(timed_agents)) for kind, timed_agents in times.items()}
    return [
        (timer, next(agents[timer.type])[1] if timer.type in agents else "")
        for timer in sorted(all_timers(asset, rule))
    ]


def check_stored(job: Job, scenario: str, parts: list[Result]) -> int:
    """Every asset of every bucket is as the fold has it at the offset that was committed."""
    last = parts[-1]
    assert isinstance(last, Stored)
    rows = [row for part in parts if isinstance(part, Stored) for row in part.rows]
    assert [row.asset for row in rows] == sorted(row.asset for row in rows)
    stored = {(row.partition, row.asset): row for row in rows}
    expected = {}
    partitions = job.scenarios()[scenario].partitions
    for bucket in last.buckets:
        folded = fold(logs(job, scenario)[bucket.partition], partitions, bucket.offset)
        assert (bucket.clock, bucket.assets) == (folded.clock, folded.live)
        assert bucket.rule == folded.scenario.to_plain()
        for name, asset in folded.assets.items():
            expected[bucket.partition, name] = StoredAsset(
                bucket.partition,
                name,
                asset.state,
                asset.shown,
                asset.previous,
                asset.since,
                asset.unconfirmed is not None,
                asset.offset,
                asset.step,
                asset.changed,
                asset.emitted_at,
                sorted(asset.votes.values(), key=lambda vote: vote.agent),
                asset.pending(folded.scenario),
                asset.override,
                [
                    (timer.time, timer.type, whose)
                    for timer, whose in sorted(timers_of(asset, folded.scenario))
                ],
                len(asset.answers),
                asset.forget_at,
                asset.unconfirmed,
                asset.disputed,
                sorted(asset.waits.items()),
                asset.purged_at,
            )
    assert stored == expected
    return len(stored)


def committed(job: Job, query: str = "kernel") -> bool:
    query_reports = [decode_progress(m.value) for m in job.read([job.topics.progress])]
    return any(p.checkpoint and p.checkpoint.batch > 1 for p in query_reports if p.query == query)


def test_the_state_reader_reads_what_the_fold_has(job: Job) -> None:
    process, load = job.started[-1], Load(job, 31)
    load.send(400)
    load.finish()
    wait_until(lambda: committed(job), 90, f"no batch was committed, see {job.log}")
    before = descendants(process.pid)

    id_ = ask(job, "read-state", {"scenario": "sites"})
    assert ended(job, id_).outcome == "done"
    assert check_stored(job, "sites", brought(job, id_)) > 20
    assert answers(job, id_)[0] == JobAnswer(id_, "read-state", "accepted")
    assert any(answer.step for answer in answers(job, id_))
    wait_until(
        lambda: set(descendants(process.pid)) <= set(before), 10, "a batch query stays behind"
    )

    assert "not carried" in ended(job, ask(job, "read-state", {"scenario": "elsewhere"})).why
    assert process.poll() is None


@pytest.mark.extensive(
    guard="tests/integration/spark/test_batch_queries.py::"
    "test_the_state_reader_reads_what_the_fold_has"
)
def test_the_state_reader_reads_what_the_python_engine_has(job: Job) -> None:
    load = Load(job, 31)
    load.send(400)
    load.finish()
    wait_until(lambda: committed(job, "python"), 90, f"no batch was committed, see {job.log}")
    id_ = ask(job, "read-state", {"scenario": "orders", "partition": 1}, "python")
    assert ended(job, id_).outcome == "done"
    assert check_stored(job, "orders", brought(job, id_)) > 3


# ---- what if ------------------------------------------------------------------------------------

Moments = list[tuple[int, str | None]]
Kept = dict[int, bytes]
"""Snapshots by partition."""


def histories(job: Job, rule: Scenario, totals: Totals, kept: Kept) -> dict[str, Moments]:
    """Return when each asset's state changed, by the plain fold under one rule throughout."""
    state_changes: dict[str, Moments] = {}
    for partition, log in logs(job, rule.name).items():
        bucket = Bucket(rule, partition, 1)
        first, end = totals.offsets[partition]
        if totals.began[partition].means == "snapshot":
            bucket = load_snapshot(kept[partition], 1)[0]
            assert (bucket.clock, bucket.offset + 1) == (totals.began[partition].at, first)
            bucket.apply(ScenarioChange(rule), bucket.offset, bucket.clock)
            shown = {name: asset for name, asset in bucket.assets.items() if asset.shown}
            state_changes.update(
                (name, [(asset.since, asset.shown)]) for name, asset in shown.items()
            )
        for m in (m for m in log if first <= m.offset < end):
            record = decode_placed(
                m.key, m.value, m.timestamp, partition, rule.partitions, headers=m.headers
            )
            if isinstance(record, ScenarioChange):
                continue
            for out in bucket.apply(record, m.offset, m.timestamp):
                note(state_changes, out)
    return state_changes


def note(state_changes: dict[str, Moments], out: Any) -> None:
    """Add what was emitted, if the asset's state changed with it."""
    if isinstance(out, StateRecord | Tombstone):
        state = out.state if isinstance(out, StateRecord) else None
        moments = state_changes.setdefault(out.asset, [])
        if state != (moments[-1][1] if moments else None):
            at = out.since if isinstance(out, StateRecord) else out.cause.time
            moments.append((at, state))


def check_compared(
    job: Job, id_: str, running: Scenario, proposed: Scenario, since: int, kept: Kept | None = None
) -> Totals:
    """Return what was found is what the plain fold finds, with the same comparison."""
    parts = brought(job, id_)
    rows = [row for part in parts if isinstance(part, WhatIfResult) for row in part.rows]
    last = parts[-1]
    assert isinstance(last, WhatIfResult)
    assert last.totals is not None
    sides = [histories(job, rule, last.totals, kept or {}) for rule in (running, proposed)]
    tally = HistoryTally(since, last.totals.until, proposed)
    names = sorted({name for side in sides for name, moments in side.items() if moments})
    compare(
        tally, (History(name, sides[0].get(name, []), sides[1].get(name, [])) for name in names)
    )
    assert rows == tally.different()
    expected = tally.totals(
        last.totals.began,
        last.totals.offsets,
        last.totals.engines,
        (running.to_plain(), proposed.to_plain()),
        last.totals.took_ms,
    )
    assert last.totals == expected
    return last.totals


def test_a_what_if_is_the_fold_under_both_rules(job: Job) -> None:
    load = Load(job, 32)
    for _ in range(4):
        load.send(150)
        time.sleep(0.4)  # real time passes, so that holds and expiries fall due
    load.finish()
    running = job.scenarios()["sites"]
    begun = logs(job, "sites")[0][0].timestamp

    changes = {"holds": {"clear": "100ms"}, "min_voters": 1}
    id_ = ask(job, "what-if", {"scenario": "sites", "since": begun, "changes": changes})
    answer = ended(job, id_)
    assert answer.outcome == "done", answer.why
    totals = check_compared(job, id_, running, overlaid(running, changes), begun)
    assert totals.different > 5
    assert totals.gained + totals.lost + totals.earlier > 5
    assert totals.engines == ("kernel", "kernel")
    assert {began.means for began in totals.began.values()} == {"log"}


@pytest.mark.extensive(
    guard="tests/integration/spark/test_batch_queries.py::"
    "test_a_what_if_is_the_fold_under_both_rules"
)
def test_a_what_if_of_a_rule_in_python_is_the_fold_too(job: Job) -> None:
    load = Load(job, 35)
    load.send(150)
    load.finish()
    running = job.scenarios()["sites"]
    since = logs(job, "sites")[0][0].timestamp + 800
    id_ = ask(
        job,
        "what-if",
        {
            "scenario": "sites",
            "since": since,
            "changes": {"rule": {"kind": "python", "function": "loudest"}},
        },
    )
    answer = ended(job, id_)
    assert answer.outcome == "done", answer.why
    rule = overlaid(running, {"rule": {"kind": "python", "function": "loudest"}})
    assert check_compared(job, id_, running, rule, since).engines == ("kernel", "python")


# ---- what if, begun with snapshots --------------------------------------------------------------

GATE = """\
[gate]
partitions = 2
vote_lifetime = "1d"
states = [{ name = "bad" }, { name = "meh" }, { name = "good" }]
holds = { good = "60s", meh = "20s" }
reminders = { bad = "5m" }
[gate.rule]
kind = "quorum"
ladder = [{ state = "bad", more_than = "1/2" }, { state = "good", more_than = "1/2" }]
"""
START, MINUTE = 1_900_000_000_000, 60_000
KEPT_AT, SINCE, END = 60, 120, 180
"""Of snapshots, window and log, minutes after START."""


class Played:
    """A log of some hours: each record brings its own time."""

    def __init__(self, job: Job, rule: Scenario) -> None:
        self._rule, self._random = rule, random.Random(7)
        self._topic = job.topics.reports(rule.name)
        options = {"bootstrap.servers": job.broker.bootstrap, "enable.idempotence": "true"}
        self._producer = ck.Producer(options)
        self._lines: list[tuple[int, bytes | None, bytes, int]] = []

    def put(self, minute: float, asset: str | None, value: bytes) -> None:
        """A record; one without asset goes into every partition."""
        at = START + round(minute * MINUTE)
        if asset is not None:
            key = asset.encode()
            self._lines.append((at, key, value, partition_of(key, self._rule.partitions)))
            return
        for partition in range(self._rule.partitions):
            self._lines.append((at, None, value, partition))

    def report(self, minute: float, asset: str, agent: str, state: str) -> None:
        self.put(minute, asset, encode_report(Report(asset, agent, state)))

    def command(self, minute: float, kind: Any, asset: str, **more: Any) -> None:
        id_ = str(uuid.UUID(int=self._random.getrandbits(128)))
        self.put(minute, asset, encode_command(Command(kind, asset, id_, "olga", **more)))

    def send(self) -> None:
        for at, key, value, partition in sorted(self._lines, key=lambda line: line[0]):
            self._producer.produce(self._topic, value, key, partition, timestamp=at)
        assert self._producer.flush(30) == 0

    def anything(self) -> None:
        """Minute by minute reports, commands and ticks of a crowd of assets."""
        pick = self._random.choice
        for minute in range(1, END):
            self.put(minute, None, encode_tick())
            for _ in range(9):
                at, asset = minute + self._random.random(), f"asset/{self._random.randrange(30)} é"
                self.report(at, asset, pick(AGENTS), pick(STATES))
            kind = pick(("set", "vote", "release", "purge", "", "", ""))
            if kind:
                asked = {"state": pick(STATES)} if kind in ("set", "vote") else {}
                end = START + (minute + 15) * MINUTE if kind == "set" and minute % 2 else None
                self.command(minute + 0.5, kind, f"asset/{minute % 30} é", until=end, **asked)

    def particular(self) -> None:
        """What an empty state would not know, and a hold over the window's beginning."""
        self.put(0, None, encode_scenario(self._rule))
        self.command(5, "set", "pinned", state="good")
        mute = Mute("w9", None, "olga", "", str(uuid.UUID(int=9)))
        self.put(6, None, encode_mute(mute))
        self.report(3, "voted once", "w0", "bad")
        self.report(4, "slow", "w0", "bad")
        self.report(SINCE - 0.5, "slow", "w0", "good")
        for minute in range(7, END, 3):
            self.report(minute, "pinned", "w0", ("bad", "good")[minute % 2])
            self.report(minute, "hushed", "w0", "good")
            self.report(minute + 0.1, "hushed", "w9", "bad")
            self.report(minute + 0.2, "hushed", "w8", "bad" if minute % 2 else "good")
        other = overlaid(self._rule, {"holds": {}})
        self.put(SINCE + 7, None, encode_scenario(other))  # a rule of meanwhile is left out


AGENTS, STATES = ("w0", "w1", "w2", "w9"), ("bad", "meh", "good")


def keep(job: Job, rule: Scenario) -> tuple[Kept, dict[str, Any]]:
    """Snapshots of the plain fold, as the worker keeps them; and as the console offers them."""
    folder = job.data_dir / "snapshots"
    folder.mkdir()
    kept, offered = {}, {}
    for partition, log in logs(job, rule.name).items():
        upto = max(m.offset for m in log if m.timestamp <= START + KEPT_AT * MINUTE)
        data = dump_snapshot(fold(log, rule.partitions, upto), {})
        name = f"{rule.name}-{partition}-{upto + 1}.fold"
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        kept[partition] = data
        offered[f"{rule.name}/{partition}"] = {
            "offset": upto + 1, "snapshot": name, "digest": digest
        }  # fmt: skip
    return kept, offered


class Noted:
    """Notes how batch queries end."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[Outcome, str]] = {}

    def begin_batch_query(self, ask: Control) -> None: ...

    def step(self, ask: Control, step: AskStep) -> None: ...

    def answer(self, ask: Control, outcome: Outcome, why: str = "") -> None:
        self.answers[ask.id] = (outcome, why)


def batch_query(job: Job, rule: Scenario, **wish: Any) -> tuple[str, str]:
    """Carry a what-if out, as the driver does; its id, and what it came to in words."""
    desk, settings = Noted(), job.broker.settings(data_dir=job.data_dir)
    batch_queries = BatchQueries(settings, desk)
    wish = {"scenario": rule.name, "since": START + SINCE * MINUTE, **wish}
    ask = Control(str(uuid.uuid4()), "kernel", "what-if", parameters=wish)
    batch_queries.begin(
        ask, "kernel", {rule.name: rule}, Epoch(1, LocalPath(job.data_dir / "none"))
    )

    def answered() -> bool:
        batch_queries.look()
        return bool(desk.answers)

    wait_until(answered, 180, "the batch query does not end")
    outcome, why = desk.answers[ask.id]
    assert outcome == "done", why
    return ask.id, why


@pytest.mark.extensive(
    guard="tests/integration/spark/test_batch_queries.py::"
    "test_a_what_if_is_the_fold_under_both_rules"
)
def test_a_what_if_begins_with_snapshots(own_job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job runs here: the driver's part is played, a batch query's process is its own."""
    job = own_job
    job.source_config = VIRTUAL_TIME
    job.configure(GATE)
    for name, value in job.environment().items():
        monkeypatch.setenv(name, value)
    rule = job.scenarios()["gate"]
    played = Played(job, rule)
    played.particular()
    played.anything()
    played.send()
    kept, offered = keep(job, rule)
    since = START + SINCE * MINUTE

    # votes that outlive it all, a mute, an override: from the snapshots on, nothing more is read
    changes: dict[str, Any] = {"holds": {"good": "5m", "bad": "30s"}, "min_voters": 2}
    id_, why = batch_query(job, rule, changes=changes, buckets=offered)
    proposed = overlaid(rule, changes)
    totals = check_compared(job, id_, rule, proposed, since, kept)
    assert {began.means for began in totals.began.values()} == {"snapshot"}
    assert f"{totals.gained:,} transitions gained, {totals.lost:,} lost" in why
    assert totals.engines == ("kernel", "kernel")
    assert totals.different > 10
    seen = {side: histories(job, side_rule, totals, kept) for side, side_rule in
            (("running", rule), ("proposed", proposed))}  # fmt: skip
    assert seen["running"]["pinned"] == [(START + 5 * MINUTE, "good")]
    assert seen["running"]["voted once"] == [(START + 3 * MINUTE, "bad")]
    assert seen["running"]["hushed"] == [(START + 7 * MINUTE, "good")]
    assert seen["running"]["slow"][-1] == (since + 30_000, "good")
    assert seen["proposed"]["slow"][-1] == (START + 4 * MINUTE, "bad")

    # the rule that runs is another one than the snapshots', and one of them is damaged
    running = overlaid(rule, {"vote_lifetime": "10m", "holds": {"good": "2m"}})
    offered["gate/1"]["digest"] = "0" * 64
    changes = {"rule": {"kind": "python", "function": "loudest"}}
    id_, why = batch_query(job, running, changes=changes, buckets=offered)
    totals = check_compared(job, id_, running, overlaid(running, changes), since, kept)
    assert totals.engines == ("kernel", "python")
    assert [totals.began[at].means for at in (0, 1)] == ["snapshot", "empty"]
    assert totals.began[1].at == since - 42 * MINUTE, "a life, its memory, and the longest hold"
    assert "digest" in totals.began[1].why
    assert totals.different > 10


def test_what_cannot_be_carried_out_is_answered(job: Job) -> None:
    """A bad rule, one that is busy, one that is cancelled, one whose process is killed."""
    process, load = job.started[-1], Load(job, 33)
    load.send(50)
    load.finish()
    wish = {"scenario": "sites", "since": 0, "changes": {"min_voters": 1}}
    answer = ended(job, ask(job, "what-if", {**wish, "changes": {"min_voters": "many"}}))
    assert answer.outcome == "refused"
    assert "sites.min_voters" in answer.why
    assert ended(job, ask(job, "read-state", {"scenario": 7})).outcome == "refused"

    first = ask(job, "what-if", wish)
    wait_until(lambda: answers(job, first), 30, "not accepted")
    busy = ended(job, ask(job, "what-if", wish))
    assert (busy.outcome, "another batch query" in busy.why) == ("refused", True)
    assert ended(job, ask(job, "cancel", {"ask": first})).outcome == "done"
    assert ended(job, first).why == "cancelled by ada: a drill"
    assert ended(job, ask(job, "cancel", {"ask": first})).outcome == "refused"

    second = ask(job, "what-if", wish)
    wait_until(lambda: answers(job, second), 30, "not accepted")
    os.kill(query_process_of(process.pid), signal.SIGKILL)
    assert ended(job, second).outcome == "failed"
    assert "ended with -9" in ended(job, second).why

    third = ask(job, "what-if", wish)
    wait_until(lambda: answers(job, third), 30, "not accepted")
    query = query_process_of(process.pid)
    below = [query, *descendants(query)]
    os.kill(process.pid, signal.SIGKILL)  # a batch query goes with its driver
    process.wait()
    wait_until(lambda: not alive(below), 20, "a batch query outlives its driver")
    job.start()
    assert ended(job, third).why == "the job ended meanwhile: ask again"


def query_process_of(driver: int) -> int:
    """The process of the batch query that is under way."""
    pids = [
        pid
        for pid in descendants(driver)
        if b"streaming.queries" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return pids[0]
