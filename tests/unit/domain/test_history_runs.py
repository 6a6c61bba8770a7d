"""Runs of a history that comes in portions, and again, against one that is read whole."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from domain.history.runs import Run, Step, Track, merged, without


class Whole(NamedTuple):
    begin: int
    end: int | None
    key: str


Moves = list[tuple[int, str | None, bool]]
histories: st.SearchStrategy[Moves] = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(("a", "b", None)), st.booleans()), max_size=30
)


def steps_of(history: Moves, anew: bool = False) -> list[list[Step]]:
    """Return a history as steps, in portions."""
    portions: list[list[Step]] = [[]]
    at = 0
    for n, (pause, key, cut) in enumerate(history):
        at += pause
        portions[-1].append(Step(f"{n:05}", at, key, anew and n == 0))
        if cut:
            portions.append([])
    return portions


def read_whole(history: Moves) -> list[Whole]:
    runs: list[Whole] = []
    at = 0
    for pause, key, _ in history:
        at += pause
        running = runs[-1] if runs and runs[-1].end is None else None
        if running and running.key != key:
            runs[-1] = running._replace(end=at)
        if key is not None and not (running and running.key == key):
            runs.append(Whole(at, None, key))
    return runs


def bring(kept: dict[str, Run], portions: list[list[Step]]) -> None:
    """Take portions as the recorder does: it knows open runs, and what is void."""
    for steps in portions:
        void = [step.place for step in steps if step.anew]
        known = [
            Run(**vars(run))
            for run in kept.values()
            if run.end is None or (void and max(run.place, run.end_place) >= min(void))
        ]
        track = Track(known)
        for step in steps:
            track.take(step)
        for place in track.gone:
            kept.pop(place, None)
        for place in track.touched:
            kept[place] = track.runs[place]
        if track.touched or track.gone:
            assert track.since is not None


def whole_runs(kept: dict[str, Run]) -> list[Whole]:
    return [Whole(run.begin, run.end, str(run.key)) for _, run in sorted(kept.items())]


@given(histories)
def test_runs_are_those_of_the_whole_history(history: Moves):
    kept: dict[str, Run] = {}
    bring(kept, steps_of(history))
    assert whole_runs(kept) == read_whole(history)


@given(histories, st.data())
def test_a_history_that_comes_again_finds_its_runs(history: Moves, data: st.DataObject):
    kept: dict[str, Run] = {}
    bring(kept, steps_of(history))
    before = whole_runs(kept)
    begin = data.draw(st.integers(0, len(history)))
    steps = [step for portion in steps_of(history) for step in portion][begin:]
    again = [[step._replace(anew=n == 0)] for n, step in enumerate(steps)]
    bring(kept, again)
    assert whole_runs(kept) == before


@given(histories, histories)
def test_a_history_by_another_rule_takes_the_place_of_the_first(first: Moves, second: Moves):
    kept: dict[str, Run] = {}
    bring(kept, steps_of(first))
    bring(kept, steps_of(second, anew=True))
    if second:
        assert whole_runs(kept) == read_whole(second)


@given(histories)
def test_what_is_dirty_reaches_back_to_the_first_difference(history: Moves):
    track = Track()
    for portion in steps_of(history):
        for step in portion:
            track.take(step)
    begins = [run.begin for run in track.runs.values()]
    assert track.since == min(begins, default=None)


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def points(covered: list[tuple[int, int]]) -> set[int]:
    return {at for begin, end in covered for at in range(begin, end)}


@given(spans)
def test_merged_spans_cover_the_same_and_stand_apart(covered: list[tuple[int, int]]):
    whole = merged(covered)
    assert points(whole) == points(covered)
    for one, two in itertools.pairwise(whole):
        assert one[1] < two[0]


@given(st.tuples(st.integers(0, 40), st.integers(0, 40)), spans)
def test_a_span_is_parted_by_others(span: tuple[int, int], cut_out: list[tuple[int, int]]):
    outside, inside = without(span, merged(cut_out))
    assert points(inside) == points([span]) & points(cut_out)
    assert points(outside) == points([span]) - points(cut_out)
    assert sum(end - begin for begin, end in outside + inside) == len(points([span]))
