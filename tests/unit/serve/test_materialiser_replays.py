"""The job may say things twice, in whatever portions they are read: the database is the same."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.base import ConsumerRecord
from dashboard.core.states.aggregates import miscounted
from dashboard.core.states.caveats import DOUBTS
from dashboard.core.states.models import Answer, AssetState, Divergence, EventCount, Transition
from dashboard.core.states.queries import counts, doubt_counts
from dashboard.core.states.rows import CHANGE_COLUMNS, COLUMNS
from dashboard.serve.materialiser.worker import sort_out
from dashboard.serve.materialiser.writer import write
from domain.fold import Bucket
from domain.records import COMMAND_KINDS, Command, DeadLetter, Record, Report, StateRecord, Tick
from domain.scenario_parser import load_scenarios
from domain.version import Version
from support.run.selection import examples
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml", demo=True)
TOPIC = Topics().states("attack")


def source(seed: int) -> Record:
    """A record of few assets, agents and states."""
    chance = random.Random(seed)
    asset, kind = f"site-{chance.randrange(3)}", chance.random()
    if kind < 0.65:
        state = chance.choice(["under-attack", "suspicious", "clear"])
        return Report(asset, f"waf-{chance.randrange(3)}", state)
    if kind < 0.8:
        return Tick()
    what = chance.choice(COMMAND_KINDS)
    wanted = "clear" if what in ("set", "vote") else None
    return Command(
        what, asset, f"0b8f7e0c-51a3-4f0e-9d3e-{chance.randrange(40):012d}", "olga", "why", wanted
    )


def sink_log(seed: int, length: int = 60) -> list[tuple[bytes, bytes | None, tuple]]:
    """Return what a job emits for a generated source log."""
    bucket = Bucket(SCENARIOS["attack"], 0, 1)
    out = []
    for offset in range(length):
        for emission in bucket.apply(source(seed * 1000 + offset), offset, offset * 9000):
            if not isinstance(emission, DeadLetter):
                value = encode_state(emission) if isinstance(emission, StateRecord) else None
                out.append((emission.asset.encode(), value, encode_headers(emission)))
    return out


def content(order: Sequence[int], log: list[tuple], cuts: Sequence[int]) -> list[list[tuple]]:
    """Return what the database holds after the log's records in this order, cut into batches."""
    tables: list[list[tuple]] = []
    messages = [ConsumerRecord(TOPIC, 0, at, 0, *log[index]) for at, index in enumerate(order)]
    edges = [0, *sorted(cut % (len(messages) + 1) for cut in cuts), len(messages)]
    with transaction.atomic():
        for low, high in itertools.pairwise(edges):
            write(sort_out(messages[low:high], Topics()), SCENARIOS, 1)
            assert miscounted() == []
        tables.append(list(AssetState.objects.order_by("asset").values_list(*COLUMNS)))
        rows = Transition.objects.order_by("asset", "place")
        tables.append(list(rows.values_list(*CHANGE_COLUMNS)))
        answers = Answer.objects.order_by("command")
        tables.append(list(answers.values_list("command", "outcome", "version", "at")))
        assert not Divergence.objects.exists()
        assert counts("attack") == counted_by_rows("attack")
        assert doubt_counts("attack") == doubts_by_rows("attack")
        transaction.set_rollback(True)
    return tables


def counted_by_rows(scenario: str) -> dict[str, int]:
    """Return what the kept counts must say."""
    return dict(
        Counter(
            AssetState.objects.filter(scenario=scenario, purged=False).values_list(
                "state", flat=True
            )
        )
    )


def doubts_by_rows(scenario: str) -> dict[str, int]:
    """Return what the kept counts of doubts must say, by the records themselves."""
    doubts: Counter[str] = Counter()
    for text in AssetState.objects.filter(scenario=scenario, purged=False).values_list("record"):
        record = msgspec.json.decode(text[0])
        doubts["disputed"] += "disputed" in record
        doubts["unconfirmed"] += record["unconfirmed"]
        votes = (vote for vote in record["votes"] if "muted" not in vote and vote["weight"])
        doubts["silent"] += any("silent" in vote for vote in votes)
    return {doubt: doubts[doubt] for doubt in DOUBTS}


def said_again(length: int, jumps: Sequence[tuple[int, int]]) -> list[int]:
    """The order of a log that is told again from an earlier record, ever and again."""
    order: list[int] = []
    at = 0
    for ahead, back in jumps:
        end = min(length, at + ahead)
        order += range(at, end)
        at = max(0, end - back)
    return [*order, *range(at, length)]


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 30),
    jumps=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 40)), max_size=6),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_told_again_from_anywhere_it_is_the_same(seed, jumps, cuts):
    log = sink_log(seed)
    once = content(range(len(log)), log, [])
    assert content(said_again(len(log), jumps), log, cuts) == once


VERSION_AT = CHANGE_COLUMNS.index("version")


def in_epoch(epoch: int, message: tuple[bytes, bytes | None, tuple]) -> tuple:
    """Return a record of the sink as a later epoch of the job writes it."""
    key, value, headers = message
    version = Version.parse(dict(headers)["version"].decode())._replace(epoch=epoch)
    others = tuple(pair for pair in headers if pair[0] != "version")
    if value is not None:
        value = msgspec.json.encode(msgspec.json.decode(value) | {"version": str(version)})
    return key, value, (*others, ("version", str(version).encode()))


def history(order: Sequence[int], log: list[tuple], cuts: Sequence[int] = ()) -> list[tuple]:
    """Return the changes, without their versions, that the database holds after these records."""
    rows = content(order, log, cuts)[1]
    return [(*row[:VERSION_AT], *row[VERSION_AT + 1 :]) for row in rows]


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 60), read=st.integers(1, 60), last=st.integers(1, 60), data=st.data())
def test_an_epoch_that_writes_the_end_of_the_log_again_bends_no_change(seed, read, last, data):
    """A job that is started anew writes the last records of its assets again."""
    log = sink_log(seed)[:read]
    of_each = list({message[0]: message for message in log}.values())
    said = data.draw(st.sampled_from([log[-last:], of_each]))
    both = log + [in_epoch(2, message) for message in said]
    cuts = data.draw(st.lists(st.integers(0, len(both)), max_size=4))
    assert history(range(len(both)), both, cuts) == history(range(len(log)), log)


def test_the_generated_logs_reach_what_matters():
    logs = [sink_log(seed) for seed in range(5)]
    states, transitions, answers = (
        sum(len(content(range(len(log)), log, [])[n]) for log in logs) for n in range(3)
    )
    assert (states, transitions > 30, answers > 20) == (15, True, True)
    assert any(value is None for log in logs for _, value, _ in log)
    kinds = {row[3] for log in logs for row in content(range(len(log)), log, [])[1]}
    assert kinds >= {"change", "reminder"}
    rows = [row for log in logs for row in content(range(len(log)), log, [])[0]]
    for column in ("disputed", "silent", "unconfirmed_reason"):
        at = COLUMNS.index(column)
        assert {row[at] is None for row in rows} == {True, False}, column
    assert len(said_again(60, [(30, 20), (10, 40)])) == 60 + 20 + 20


def test_records_of_a_lower_epoch_are_counted_and_change_nothing():
    key, value, headers = next(each for each in sink_log(1) if each[1] is not None)
    record = msgspec.json.decode(value or b"")
    at = Version.parse(record["version"])

    def written(version: Version) -> Counter[tuple[str, str]]:
        text = str(version)
        renamed = msgspec.json.encode(record | {"version": text})
        others = tuple(pair for pair in headers if pair[0] != "version")
        message = ConsumerRecord(
            TOPIC, 0, 0, 0, key, renamed, (*others, ("version", text.encode()))
        )
        batch = sort_out([message], Topics())
        write(batch, SCENARIOS, 1)
        return batch.counted

    written(at._replace(epoch=3))
    assert written(at._replace(epoch=1, offset=at.offset + 9))["lower-epoch", "attack"] == 1
    assert AssetState.objects.get().version == at._replace(epoch=3).sortable()
    # What comes again of the same epoch is usual.
    assert not written(at._replace(epoch=3, offset=max(0, at.offset - 1)))["lower-epoch", "attack"]
    assert EventCount.objects.get(name="lower-epoch").n == 1
