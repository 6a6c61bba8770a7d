"""Batch queries: transitions compared, what is asked, processes that are followed."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from dataclasses import asdict, replace
from typing import Any

import msgspec
import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from dashboard.core.states.models import FoldSnapshot
from dashboard.operate.requests.batch_queries import newest_before
from dashboard.operate.requests.state_store import (
    BEHIND,
    BOARD_BEHIND,
    DIFFERS,
    EQUAL,
    Board,
    judge,
    lines,
)
from domain.fold import Bucket
from domain.overlay import overlaid
from domain.records import Doubt, Flap, Report, Vote
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from streaming.queries import runner
from streaming.queries.comparison import (
    MOST_PAIRS,
    History,
    HistoryTally,
    Matched,
    StateTransition,
    compare,
    match,
    transitions,
)
from streaming.queries.protocol import QueryRefused, reason
from streaming.queries.replay_window import (
    AppendTimes,
    ReplayWindow,
    begin_with,
    choose,
    warm_up,
    window_of,
)
from streaming.queries.runner import BatchQueries
from streaming.state.checkpoint import Epoch
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from wire.batch_query import (
    MOST_DIFFERENT,
    MOST_MOMENTS,
    Began,
    Snapshot,
    StoredAsset,
    decode_result,
    lead_time,
    parameters_of,
    portions,
)
from wire.job import AskStep, Control, Outcome, UnreadableJobRecord
from wire.snapshot import dump_snapshot

RULE = scenario_from_plain(
    {
        "name": "sites",
        "partitions": 1,
        "states": [{"name": "attack"}, {"name": "clear"}],
        "rule": {"kind": "latest"},
        "vote_lifetime": "10s",
        "forget_after": "0s",
        "holds": {"clear": "5s"},
        "fold": 2,
    }
)
# As an earlier release may have left one in the log.
ENDLESS = replace(RULE, vote_lifetime=None)


# ---- transitions --------------------------------------------------------------------------------


def held(running: list[Any], proposed: list[Any]) -> Matched:
    return match(transitions(None, running), transitions(None, proposed))


@pytest.mark.parametrize(
    ("running", "proposed", "expected"),
    [
        ([], [], (0, 0, 0, ())),
        ([(1, "a")], [(1, "a")], (1, 0, 0, ())),
        ([(1, "a")], [(4, "a")], (0, 0, 0, (3,))),
        ([(4, "a")], [(1, "a")], (0, 0, 0, (-3,))),
        ([(1, "a")], [], (0, 1, 0, ())),
        ([], [(1, "a")], (0, 0, 1, ())),
        ([(1, "a")], [(1, "b")], (0, 1, 1, ())),
        # a flicker less: the way there and the way back are lost
        ([(1, "a"), (5, "b"), (6, "a")], [(1, "a")], (1, 2, 0, ())),
        # of two that may be meant, the nearer one has moved
        ([(0, "a"), (10, "b"), (11, "a"), (90, "b")], [(0, "a"), (91, "b")], (1, 2, 0, (1,))),
        # between those that are the same, none is matched across them
        ([(1, "a"), (5, "b"), (9, "a")], [(1, "a"), (6, "b"), (9, "a")], (2, 0, 0, (1,))),
    ],
)
def test_transitions_are_the_same_moved_lost_or_gained(
    running: list[Any], proposed: list[Any], expected: tuple[Any, ...]
) -> None:
    assert held(running, proposed) == Matched(*expected)
    # what is lost the one way is gained the other
    turned = held(proposed, running)
    assert (turned.same, turned.gained, turned.lost) == expected[:3]
    assert sorted(map(abs, turned.shifts)) == sorted(map(abs, expected[3]))


def test_each_transition_is_counted_once_however_many_there_are() -> None:
    words = "ab" * 400
    running = [(10 * at, word) for at, word in enumerate(words)]
    proposed = [(10 * at + 3, word) for at, word in enumerate(words)][:-5]
    assert len(running) * len(proposed) > MOST_PAIRS
    matched = held(running, proposed)
    assert matched == Matched(0, 5, 0, (3,) * 795)


def test_totals_by_state_and_assets_that_differ() -> None:
    tally = HistoryTally(1000, 2000, RULE)
    compare(
        tally,
        [
            History("same", [(10, "attack"), (1500, "clear")], [(10, "attack"), (1500, "clear")]),
            History("moved", [(10, "attack"), (1500, "clear")], [(10, "attack"), (1900, "clear")]),
            History("lost", [(1200, "attack"), (1300, None)], []),
            History("before", [(10, "attack")], [(10, "clear")]),
        ],
    )
    total = tally.totals({0: Began("log", 0)}, {0: (5, 25)}, ("kernel", "kernel"), ({}, {}), 1)
    assert (total.assets, total.different, total.other_end, total.records) == (4, 3, 1, 20)
    assert (total.running, total.proposed, total.same) == (4, 2, 1)
    assert (total.gained, total.lost, total.earlier, total.later, total.shift) == (0, 2, 0, 1, 400)
    by_state = {one.state: one for one in total.states}
    assert list(by_state) == ["attack", "clear"]
    assert (by_state["attack"].running_ms, by_state["attack"].proposed_ms) == (2100, 1400)
    assert (by_state["clear"].running_ms, by_state["clear"].proposed_ms) == (1000, 1600)
    assert (by_state["attack"].running, by_state["attack"].proposed) == (1, 0)
    assert [one.asset for one in tally.different()] == ["lost", "before", "moved"]


def test_what_is_told_of_the_assets_is_bounded() -> None:
    tally = HistoryTally(0, 10_000, RULE)
    flicker = [(at, "ab"[at % 2]) for at in range(3 * MOST_MOMENTS)]
    compare(tally, [History("worst", flicker, [])])
    compare(tally, (History(f"n{at}", [(1, "clear")], []) for at in range(MOST_DIFFERENT + 10)))
    differences = tally.different()
    assert (len(differences), differences[0].asset) == (MOST_DIFFERENT, "worst")
    assert (len(differences[0].running), differences[0].lost) == (MOST_MOMENTS, 3 * MOST_MOMENTS)
    assert tally.differing == MOST_DIFFERENT + 11


def test_kinds_are_from_and_to() -> None:
    assert StateTransition(1, "a", "b").kind == ("a", "b")
    assert [one.before for one in transitions("x", [(1, "a"), (2, "b")])] == ["x", "a"]


# ---- what is replayed ---------------------------------------------------------------------------


def test_a_replay_begins_a_votes_life_its_memory_and_the_longest_hold_earlier() -> None:
    other = overlaid(RULE, {"vote_lifetime": "30s", "holds": {"attack": "1s"}})
    assert warm_up([RULE, other]) == 35_000
    assert warm_up([RULE, overlaid(other, {"forget_after": "1m"})]) == 95_000
    assert warm_up([RULE, ENDLESS]) is None


PLACE = ("sites.reports", 0)


def filled() -> MemoryBus:
    """A log with a record each second from 0 s to 99 s, at the offsets of the same numbers."""
    clock = [0]
    bus = MemoryBus(lambda: clock[0])
    bus.ensure_topics([TopicSpec("sites.reports", 1, {"message.timestamp.type": "LogAppendTime"})])
    producer = bus.producer()
    for second in range(100):
        clock[0] = 1000 * second
        producer.send_and_wait("sites.reports", None, b"{}", partition=0)
    return bus


@pytest.mark.parametrize(("since", "offset"), [(0, 0), (1, 1), (50_000, 50), (99_001, 100)])
def test_an_offset_is_found_by_time(since: int, offset: int) -> None:
    with AppendTimes(filled()) as times:
        assert times.first_since(("sites.reports", 0), 0, 100, since) == offset


def test_a_window_is_from_the_warm_up_to_the_logs_end() -> None:
    window = window_of(filled(), "sites.reports", 60_000, [RULE, RULE])
    assert window.offsets == {0: (45, 100)}
    assert (window.begun, window.since, window.until) == (45_000, 60_000, 99_000)
    assert window.records == 55
    assert window.began[PLACE] == Began("empty", 45_000)
    window = window_of(filled(), "sites.reports", 60_000, [RULE, ENDLESS])
    assert (window.begun, window.records) == (0, 100)
    assert window.began[PLACE] == Began("log", 0)
    bus = filled()
    bus.truncate("sites.reports", 0, 50)
    window = window_of(bus, "sites.reports", 60_000, [RULE, ENDLESS])
    assert window.offsets == {0: (50, 100)}
    assert window.began[PLACE] == Began("empty", 50_000)


@pytest.mark.parametrize("since", [99_000, 10**12])
def test_a_window_that_holds_nothing_is_refused(since: int) -> None:
    with pytest.raises(QueryRefused, match="before the log's end"):
        window_of(filled(), "sites.reports", since, [RULE, RULE])


def test_too_long_a_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.queries.replay_window.MOST_RECORDS", 54)
    window = window_of(filled(), "sites.reports", 60_000, [RULE, RULE])
    with pytest.raises(QueryRefused, match=r"55 records with what .* at most 54"):
        window.check()


# ---- what is begun with -------------------------------------------------------------------------

HELD = overlaid(RULE, {"holds": {"clear": "30s", "attack": "1s"}})
MINDFUL = overlaid(RULE, {"forget_after": "1m"})


@pytest.mark.parametrize(
    ("then", "rules", "expected"),
    [
        (RULE, [RULE], 0),
        (RULE, [RULE, HELD], 30_000),
        (HELD, [RULE, HELD], 5_000),
        # votes that are missing have to come again, then a hold may pass
        (RULE, [overlaid(RULE, {"vote_lifetime": "20s"})], 25_000),
        (RULE, [overlaid(RULE, {"vote_lifetime": "20s", "holds": {}})], 20_000),
        (RULE, [overlaid(RULE, {"vote_lifetime": "2s"})], 5_000),
        # an older report leaves no vote, whatever its age is compared with
        (overlaid(RULE, {"max_report_age": "1h"}), [RULE], 5_000),
        (overlaid(RULE, {"max_report_age": "8s"}), [RULE], 15_000),
        (RULE, [overlaid(RULE, {"max_report_age": "1h"})], 5_000),
        (ENDLESS, [RULE, ENDLESS], 5_000),
        # what has expired never comes again where votes live for ever
        (RULE, [RULE, ENDLESS], None),
        (replace(ENDLESS, max_report_age=3_600_000), [ENDLESS], None),
        (ENDLESS, [replace(ENDLESS, max_report_age=3_600_000)], 5_000),
        # what was forgotten has to be forgotten by the rule too; what falls silent late is late
        (RULE, [MINDFUL], 75_000),
        (MINDFUL, [RULE], 5_000),
        (overlaid(MINDFUL, {"max_report_age": "30s"}), [MINDFUL], 75_000),
        (MINDFUL, [overlaid(MINDFUL, {"vote_lifetime": "2s"})], 65_000),
        (MINDFUL, [overlaid(MINDFUL, {"holds": {}})], 0),
        # votes of an earlier version of the fold
        (scenario_from_plain({**MINDFUL.to_plain(), "fold": 1}), [MINDFUL], 75_000),
        # words that were not taken then
        (scenario_from_plain({**RULE.to_plain(), "states": [{"name": "clear"}]}), [RULE], 15_000),
    ],
)
def test_a_snapshot_lies_before_the_window_by_votes_and_holds(
    then: Scenario, rules: list[Scenario], expected: int | None
) -> None:
    assert lead_time(then, rules) == expected


def test_the_newest_snapshot_before_a_moment_is_taken_of_each_partition() -> None:
    kept = [
        FoldSnapshot(
            scenario="sites", partition=at, next_offset=n, clock=clock, file=f"{n}", digest="d"
        )
        for at, n, clock in [(0, 5, 100), (0, 9, 200), (0, 20, 300), (1, 7, 250), (1, 8, 300)]
    ]
    assert newest_before(kept, 300) == {
        "sites/0": Snapshot(9, "9", "d"),
        "sites/1": Snapshot(7, "7", "d"),
    }
    assert newest_before(kept, 201) == {"sites/0": Snapshot(9, "9", "d")}
    assert newest_before(reversed(kept), 201) == {"sites/0": Snapshot(9, "9", "d")}
    assert newest_before(kept, 100) == {}


def windowed(*lengths: tuple[int, int, int]) -> ReplayWindow:
    """Partitions with a log from and to these offsets, begun without state at the third."""
    places = {("sites.reports", at): each for at, each in enumerate(lengths)}
    return ReplayWindow(
        {place: (begin, end) for place, (begin, end, _) in places.items()},
        {place: offset for place, (_, _, offset) in places.items()},
        dict.fromkeys(places, Began("empty", 7)),
        60_000,
        99_000,
    )


def offered(*offsets: int) -> dict[str, Snapshot]:
    return {f"sites/{at}": Snapshot(n, f"{n}.fold", "d") for at, n in enumerate(offsets)}


def test_a_snapshot_that_does_not_meet_the_log_is_left_out() -> None:
    window = windowed((10, 100, 90), (0, 100, 90), (0, 100, 90))
    window, chosen = choose(
        window, "sites", offered(9, 0, 101) | {"other/2": Snapshot(1, "x", "d")}
    )
    assert [place[1] for place in chosen] == [1]
    assert {place[1]: began.why[:22] for place, began in window.began.items()} == {
        0: "the log does not reach",
        1: "",
        2: "the log does not reach",
    }


def test_of_too_many_records_the_farthest_snapshot_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streaming.queries.replay_window.MOST_RECORDS", 119)
    window, chosen = choose(windowed((0, 100, 90), (0, 100, 90)), "sites", offered(50, 30))
    assert [place[1] for place in chosen] == [0]
    assert "more than 119 records" in window.began["sites.reports", 1].why
    assert not window.began[PLACE].why
    # where an empty state would have to begin earlier still, it is no help
    _, chosen = choose(windowed((0, 100, 0), (0, 100, 0)), "sites", offered(20, 30))
    assert len(chosen) == 2


class Taker:
    """A run that notes the buckets which it is given."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.taken = scenario, dict[int, int]()

    def take_up(self, bucket: Bucket) -> None:
        self.taken[bucket.partition] = bucket.offset

    def lead_time(self, then: Scenario) -> int | None:
        return lead_time(then, [self.scenario])


def folded(folder: LocalPath, clock: int, rule: Scenario = RULE) -> Snapshot:
    """A snapshot of a bucket of one report, at that time."""
    bucket = Bucket(rule, 0, 1)
    outs = bucket.apply(Report("a", "w", "attack"), 4, clock)
    data = dump_snapshot(bucket, {"a": outs[0]})  # type: ignore[dict-item]
    (folder / f"{clock}.fold").write_bytes(data)
    return Snapshot(5, f"{clock}.fold", hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    ("clock", "changes", "wrong"),
    [
        (54_999, {}, ""),
        (55_000, {}, "another one"),
        (54_999, {"digest": "no"}, "digest: expected that of 54999.fold"),
        (54_999, {"snapshot": "gone.fold"}, "gone.fold"),
        (54_999, {"offset": 6}, "expected one up to offset 6"),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_left_out_and_said(
    tmp_path: LocalPath, clock: int, changes: dict[str, Any], wrong: str
) -> None:
    kept = msgspec.structs.replace(folded(tmp_path, clock), **changes)
    runs = [Taker(RULE), Taker(overlaid(RULE, {"vote_lifetime": "5s"}))]
    window = begin_with(windowed((0, 100, 90)), {PLACE: kept}, tmp_path, runs, lambda *_step: None)
    assert wrong in window.began[PLACE].why
    assert [run.taken for run in runs] == [{} if wrong else {0: 4}] * 2
    begun = (
        (90, Began("empty", 7, window.began[PLACE].why)) if wrong else (5, Began("snapshot", clock))
    )
    assert (window.begin[PLACE], window.began[PLACE]) == begun


# ---- what is asked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "parameters", "wrong"),
    [
        ("read-state", {}, "scenario"),
        ("read-state", {"scenario": "sites", "partition": -1}, "partition"),
        ("read-state", {"scenario": "sites", "asset": "x" * 256}, "asset"),
        ("read-state", {"scenario": "sites", "more": 1}, "more"),
        ("what-if", {"scenario": "sites", "changes": {}}, "since"),
        ("what-if", {"scenario": "sites", "since": 1.5, "changes": {}}, "since"),
        (
            "what-if",
            {
                "scenario": "sites",
                "since": 1,
                "changes": {},
                "buckets": {"sites/0": {"offset": 4, "snapshot": "../secret-key", "digest": ""}},
            },
            "snapshot",
        ),
        ("cancel", {"ask": ""}, "ask"),
        ("stop", {}, "stop"),
    ],
)
def test_parameters_that_cannot_be_read_are_named(
    action: Any, parameters: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(UnreadableJobRecord, match=wrong):
        parameters_of(Control("1", "kernel", action, parameters=parameters))


@pytest.mark.parametrize("value", [None, b"", b"{", b"{}", b'{"type":"other"}', b"\xff"])
def test_a_result_that_is_none_is_refused(value: bytes | None) -> None:
    with pytest.raises(UnreadableJobRecord):
        decode_result(value)


def test_portions_are_of_about_one_size_and_lose_nothing() -> None:
    rows = ["x" * 100] * 95
    parts = list(portions(rows, 1000))
    assert [row for portion in parts for row in portion] == rows
    assert max(map(len, parts)) == 10
    assert list(portions([])) == [[]]


# ---- the process --------------------------------------------------------------------------------


class Answers:
    """Notes what is answered."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.steps: list[AskStep] = []
        self.answers: dict[str, tuple[Outcome, str]] = {}

    def begin_batch_query(self, ask: Control) -> None:
        self.begun.append(ask.id)

    def step(self, _ask: Control, step: AskStep) -> None:
        self.steps.append(step)

    def answer(self, ask: Control, outcome: Outcome, why: str = "") -> None:
        assert ask.id not in self.answers
        self.answers[ask.id] = (outcome, why)


SAYS = """
import sys
sys.stdin.readline()
{}
sys.stdout.flush()
sys.stdin.read()
"""
STEP = """print('{"type":"step","step":{"done":1,"of":2,"what":"rows"}}')"""
END = """print('{"type":"ended","outcome":"done","why":"two rows"}')"""


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch, tmp_path: LocalPath) -> Any:
    """Batch queries whose process is another program."""
    answers, epoch = Answers(), Epoch(1, tmp_path)
    settings = Settings(_env_file=None, data_dir=tmp_path, batch_query_s=10)  # type: ignore[call-arg]
    start = runner.subprocess.Popen

    def make(program: str) -> tuple[BatchQueries, Answers, Any]:
        batch_queries = BatchQueries(settings, answers)

        def popen(_command: list[str], **options: Any) -> Any:
            return start([sys.executable, "-c", SAYS.replace("{}", program)], **options)

        monkeypatch.setattr(runner.subprocess, "Popen", popen)

        def begin(id_: str, **parameters: Any) -> None:
            wish = {"scenario": "sites", "since": 0, "changes": {}, **parameters}
            ask = Control(id_, "kernel", "what-if", "ada", "a drill", wish)
            batch_queries.begin(ask, "kernel", {"sites": RULE}, epoch)

        return batch_queries, answers, begin

    return make


def followed(batch_queries: BatchQueries, done: Any) -> None:
    def looked() -> bool:
        batch_queries.look()
        return bool(done())

    wait_until(looked, 10, "nothing is told")


def test_steps_and_the_end_are_told(says: Any) -> None:
    batch_queries, answers, begin = says(f"{STEP}\n{END}")
    begin("a")
    assert answers.begun == ["a"]
    followed(batch_queries, lambda: answers.answers)
    assert answers.answers == {"a": ("done", "two rows")}


def test_one_at_a_time_and_a_cancelled_one_makes_room(says: Any) -> None:
    batch_queries, answers, begin = says(STEP)
    begin("a")
    begin("b")
    assert answers.answers["b"][0] == "refused"
    other, _, begin_other = says(STEP)  # of the job's other query
    begin_other("c")
    assert "another batch query" in answers.answers["c"][1]
    followed(batch_queries, lambda: answers.steps)
    assert answers.steps[0] == AskStep(1, 2, "rows")
    batch_queries.cancel(Control("x", "kernel", "cancel", "eve", "no", {"ask": "b"}))
    assert answers.answers["x"] == ("refused", "it is not under way")
    batch_queries.cancel(Control("y", "kernel", "cancel", "eve", "enough", {"ask": "a"}))
    assert answers.answers["a"] == ("failed", "cancelled by eve: enough")
    assert answers.answers["y"][0] == "done"
    begin_other("d")
    assert answers.begun[-1] == "d"
    other.close()
    assert answers.answers["d"] == ("failed", "the job ended")


def test_what_a_process_said_before_its_end_is_read_first(
    says: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_output = runner._read_output

    def read_late(process: Any, lines: Any) -> None:
        process.wait()
        time.sleep(0.3)  # it is looked for meanwhile
        read_output(process, lines)

    monkeypatch.setattr(runner, "_read_output", read_late)
    batch_queries, answers, begin = says(f"{END}\nsys.exit()")
    begin("a")
    followed(batch_queries, lambda: answers.answers)
    assert answers.answers["a"][0] == "done"


def test_a_process_that_ends_or_takes_too_long_has_failed(
    says: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_queries, answers, begin = says("sys.exit(3)")
    begin("a")
    followed(batch_queries, lambda: answers.answers)
    assert answers.answers["a"] == ("failed", "its process ended with 3")
    batch_queries, answers, begin = says("print('nonsense')")
    begin("b")
    now = runner.time.monotonic()
    monkeypatch.setattr(runner.time, "monotonic", lambda: now + 11)
    batch_queries.look()
    assert "longer than 10 s" in answers.answers["b"][1]


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [
        ({"scenario": "other"}, "not carried"),
        ({"changes": {"min_voters": 0}}, "sites.min_voters"),
        ({"changes": {"states": []}}, "sites.states"),
        ({"since": "today"}, "since"),
    ],
)
def test_what_cannot_be_done_starts_no_process(
    says: Any, parameters: dict[str, Any], wrong: str
) -> None:
    _, answers, begin = says(STEP)
    begin("a", **parameters)
    assert answers.answers["a"][0] == "refused"
    assert wrong in answers.answers["a"][1]
    assert not answers.begun


def test_a_state_that_was_never_committed_is_not_read(tmp_path: LocalPath) -> None:
    answers = Answers()
    settings = Settings(_env_file=None, data_dir=tmp_path)  # type: ignore[call-arg]
    ask = Control("a", "kernel", "read-state", parameters={"scenario": "sites"})
    BatchQueries(settings, answers).begin(
        ask, "kernel", {"sites": RULE}, Epoch(1, tmp_path / "none")
    )
    assert "nothing has been committed" in answers.answers["a"][1]
    assert not (tmp_path / "batch-query.lock").exists()


# ---- beside the database ------------------------------------------------------------------------

VOTE = Vote("w", "attack", 5, 5, 7, None, 1)
BOARD_VOTE = {"agent": "w", "state": "attack", "weight": 1}
FLAP = Flap("down", 5, 9, again=True)
DOUBT = Doubt("v", "contradiction", "down", 5, 7, 9, 1)
UNREAD = replace(DOUBT, said=None)
REASON = "1 of 2 voters"
DOUBTED: Any = {"unconfirmed": True, "unconfirmed_reason": REASON, "disputed": "down"}


def asset(**changes: Any) -> StoredAsset:
    fields: dict[str, Any] = {
        "partition": 0, "asset": "a", "tallied": "attack", "state": "attack", "previous": None,
        "since": 5, "unconfirmed": False, "offset": 9, "step": 1, "changed": (7, 0),
        "emitted_at": 5, "votes": [VOTE], "pending": None, "override": None, "timers": [],
        "answers": 0, "forget_at": None,
    }  # fmt: skip
    return StoredAsset(**{**fields, **changes})


def board(version: str = "1.7.0", at: int = 5, purged: bool = False, **changes: Any) -> Board:
    votes = [BOARD_VOTE]
    record = {
        "state": "attack", "previous": None, "since": 5, "unconfirmed": False, "pending": None,
        "override": None, "votes": votes, **changes,
    }  # fmt: skip
    return Board(version, at, purged, json.dumps(record))


@pytest.mark.parametrize(
    ("stored", "other", "verdict", "fields"),
    [
        (asset(), board(), EQUAL, ()),
        (asset(), board("1.9.1"), EQUAL, ()),
        (asset(), board("1.9.2"), BEHIND, ()),
        (asset(), board("1.10.0"), BEHIND, ()),
        (asset(), board("2.1.0"), BEHIND, ()),
        (asset(), board("0.99.0"), BOARD_BEHIND, ()),
        (asset(), board("1.6.5"), BOARD_BEHIND, ()),
        (asset(emitted_at=6), board(), BOARD_BEHIND, ()),
        (asset(), None, BOARD_BEHIND, ()),
        (asset(state=None), None, EQUAL, ()),
        (asset(state=None), board(purged=True), EQUAL, ()),
        (asset(state=None), board(), DIFFERS, ("state",)),
        (asset(), board(purged=True), DIFFERS, ("state",)),
        (asset(), board(state="clear", since=4), DIFFERS, ("state", "since")),
        (asset(votes=[]), board(), DIFFERS, ("votes",)),
        (asset(unconfirmed=True), board(), DIFFERS, ("unconfirmed",)),
        (asset(**DOUBTED), board(**DOUBTED), EQUAL, ()),
        (
            asset(**DOUBTED),
            board(**{**DOUBTED, "unconfirmed_reason": "1 of 3 voters"}),
            DIFFERS,
            ("unconfirmed",),
        ),
        (asset(**DOUBTED), board(**{**DOUBTED, "disputed": "slow"}), DIFFERS, ("disputed",)),
        (asset(votes=[replace(VOTE, silent=9)]), board(), DIFFERS, ("votes",)),
        (asset(votes=[replace(VOTE, doubt="purged")]), board(), DIFFERS, ("votes",)),
        (asset(votes=[replace(VOTE, detail_fault="too-large")]), board(), DIFFERS, ("votes",)),
        (asset(votes=[replace(VOTE, flap=Flap("down", 5, 9))]), board(), EQUAL, ()),
        (asset(votes=[replace(VOTE, flap=FLAP)]), board(), DIFFERS, ("votes",)),
        (
            asset(votes=[replace(VOTE, flap=FLAP)]),
            board(votes=[{**BOARD_VOTE, "flapping": {"state": "down", "time": 6, "until": 8}}]),
            EQUAL,
            (),
        ),
        (asset(doubts=[DOUBT]), board(), DIFFERS, ("doubts",)),
        (asset(), board(doubts=[asdict(DOUBT)]), DIFFERS, ("doubts",)),
        (asset(doubts=[DOUBT]), board(doubts=[{**asdict(DOUBT), "until": 8}]), EQUAL, ()),
        (asset(doubts=[DOUBT]), board(doubts=[asdict(UNREAD)]), DIFFERS, ("doubts",)),
    ],
)
def test_a_verdict_is_behind_before_it_is_a_difference(
    stored: StoredAsset, other: Board | None, verdict: str, fields: tuple[str, ...]
) -> None:
    assert judge(stored, 1, other) == (verdict, fields)


def test_doubts_stand_side_by_side() -> None:
    vote = replace(VOTE, doubt="clock-ahead", detail_fault="too-large", flap=FLAP)
    stored = asset(votes=[vote], doubts=[UNREAD, replace(DOUBT, agent="x")])
    by_field = {
        line.field: line for line in lines(stored, json.loads(board().record), "votes, doubts")
    }
    assert by_field["votes"].store == (
        "w: attack (weight 1, in doubt: clock-ahead, flapping: down, detail left out: too-large)"
    )
    assert by_field["doubts"].store == (
        "v: contradiction, said nothing readable (weight 1); x: contradiction, said down (weight 1)"
    )
    assert (by_field["doubts"].board, by_field["doubts"].differs) == ("none", True)


def test_a_full_heap_is_named_with_its_setting() -> None:
    settings = Settings(batch_query_memory="600m")
    assert "heap of 600m is full: raise TALLYBOARD_BATCH_QUERY_MEMORY" in reason(
        ConnectionRefusedError(111, "Connection refused"), settings
    )
    assert reason(ValueError("no such column\n at x"), settings) == "ValueError: no such column"
