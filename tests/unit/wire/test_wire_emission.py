"""What waits before it is emitted: how many records leave, which, and when."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.emission import Budget, Coalescer, Record

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.none() | st.binary(max_size=20)
STEPS = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 80)), max_size=60)
Steps = Sequence[tuple[bytes, bytes | None, int]]


def emitted(coalescer: Coalescer, steps: Steps) -> list[tuple[float, Record]]:
    """What leaves, and when, while each step is put so many ms after the one before."""
    now = 0
    left: list[tuple[float, Record]] = []
    for key, value, pause in steps:
        for moment in range(now, now + pause):
            left += [(moment, record) for record in coalescer.due(moment)]
        now += pause
        coalescer.put(key, value, now)
        left += [(now, record) for record in coalescer.due(now)]
    return left + [(now, record) for record in coalescer.drain()]


def table(records: list[Record]) -> dict[bytes, bytes]:
    """What a reader who upserts by key has in the end."""
    rows: dict[bytes, bytes] = {}
    for record in records:
        if record.value is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = record.value
    return rows


def test_seven_updates_of_a_key_within_the_wait_are_one_record_with_the_latest_value():
    steps: Steps = [(b"order-7", b"%d" % number, 16) for number in range(7)]
    assert sum(pause for _, _, pause in steps[1:]) == 96
    assert [r.value for _, r in emitted(Coalescer(every_ms=100), steps)] == [b"6"]


@pytest.mark.parametrize("options", [{"every_ms": 0}, {"max_bytes": 0}])
def test_zero_turns_waiting_off(options):
    steps: Steps = [(b"order-7", b"%d" % number, 0) for number in range(7)]
    left = emitted(Coalescer(**options), steps)
    assert [record.value for _, record in left] == [b"%d" % number for number in range(7)]


@given(STEPS, st.sampled_from([0, 1, 30, 100]), st.sampled_from([0, 450, 1000, 1 << 20]))
def test_whatever_the_limits_the_table_is_the_same_and_nothing_is_lost(steps, every_ms, max_bytes):
    coalescer = Coalescer(every_ms, max_bytes)
    left = [record for _, record in emitted(coalescer, steps)]
    assert table(left) == table([Record(key, value) for key, value, _ in steps])
    assert {record.key for record in left} == {key for key, _, _ in steps}
    assert len(coalescer) == 0
    assert coalescer.next_due() is None


@given(STEPS)
def test_no_key_leaves_twice_within_the_wait_and_none_waits_longer(steps):
    left = emitted(Coalescer(every_ms=100), steps)
    end = sum(pause for _, _, pause in steps)
    for key in {key for key, _, _ in steps}:
        moments = [moment for moment, record in left if record.key == key]
        drained = moments[-1] == end
        gaps = [b - a for a, b in pairwise(moments)]
        assert all(gap >= 100 for gap in (gaps[:-1] if drained else gaps))
    now = 0
    for key, _, pause in steps:
        now += pause
        assert any(r.key == key and now <= moment <= now + 100 for moment, r in left)


@given(STEPS, st.integers(401, 2_000))
def test_what_waits_never_exceeds_the_budget_once_what_is_due_was_taken(steps, max_bytes):
    budget = Budget(max_bytes)
    sinks = [Coalescer(every_ms=100, max_bytes=budget) for _ in range(3)]
    for number, (key, value, now) in enumerate(steps):
        sink = sinks[number % 3]
        sink.put(key, value, now)
        sink.due(now)
        assert budget.held <= max_bytes
    for sink in sinks:
        sink.drain()
    assert budget.held == 0


def test_the_budget_counts_at_least_the_memory_that_waiting_takes():
    budget = Budget(64 << 20)
    coalescer = Coalescer(every_ms=100, max_bytes=budget)
    tracemalloc.start()
    for number in range(20_000):
        coalescer.put(b"order-%d" % number, b"x" * 50, 0)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < budget.held


def test_records_leave_in_the_order_in_which_their_keys_began_to_wait():
    coalescer = Coalescer(every_ms=100)
    for now, key in enumerate([b"a", b"b", b"a", b"c", b"b"]):
        coalescer.put(key, b"%d" % now, now)
    assert [(r.key, r.value) for r in coalescer.due(103)] == [
        (b"a", b"2"),
        (b"b", b"4"),
        (b"c", b"3"),
    ]
    assert coalescer.due(1000) == []


def test_the_longest_waiting_leave_first_when_the_budget_is_exceeded():
    one = Record(b"a", b"x" * 100).size()
    coalescer = Coalescer(every_ms=100, max_bytes=2 * one)
    for key in (b"a", b"b", b"c"):
        coalescer.put(key, b"x" * 100, 0)
    assert [record.key for record in coalescer.due(0)] == [b"a"]
    assert [record.key for record in coalescer.due(100)] == [b"b", b"c"]


def test_a_replayed_version_does_not_replace_a_newer_one():
    coalescer = Coalescer(every_ms=100)
    coalescer.put(b"a", b"new", 0, [("id", b"2")], version="0002")
    coalescer.put(b"a", b"old", 1, [("id", b"1")], version="0001")
    coalescer.put(b"a", b"same", 2, [("id", b"2")], version="0002")
    assert coalescer.drain() == [Record(b"a", b"same", (("id", b"2"),), "0002")]


def test_a_deleted_key_is_told_even_if_it_came_within_the_wait():
    coalescer = Coalescer(every_ms=100)
    coalescer.put(b"a", b"1", 0)
    coalescer.put(b"a", None, 1)
    assert coalescer.due(100) == [Record(b"a", None)]


@pytest.mark.parametrize("options", [{"every_ms": -1}, {"max_bytes": -1}])
def test_negative_limits_are_refused(options):
    with pytest.raises(ValueError, match="expected 0 or more"):
        Coalescer(**options)
