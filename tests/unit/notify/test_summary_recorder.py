"""What the recorder keeps of moves in portions, against a history that is read whole."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from dashboard.notify.summaries.ingestion import (
    KINDS,
    Condition,
    Move,
    Moves,
    SpanKind,
    _concerns,
    follow,
)
from domain.history.runs import Run

STATES = ("clear", "suspicious", "under-attack", "")
PRESENCE, IMPAIRED, ALARM = KINDS
ATTACK = scenarios()["attack"]


class Span(NamedTuple):
    begin: int
    end: int | None
    kind: tuple


conditions = st.builds(
    Condition,
    st.sampled_from(STATES),
    st.booleans(),
    st.sampled_from(("", "", "suspicious", "under-attack")),
).map(lambda c: c if c.state else Condition())
histories = st.lists(st.tuples(st.integers(0, 5), conditions, st.booleans()), max_size=25)


def portions_of(history: list, epoch: int = 1) -> list[list[Move]]:
    """Return the moves of a history in portions; what stays as it is is none."""
    portions: list[list[Move]] = [[]]
    at, before = 0, Condition()
    for n, (pause, condition, cut) in enumerate(history):
        at += pause
        anew = epoch > 1
        if condition != before or anew:
            portions[-1].append(Move(f"{n:033}", at, condition, anew))
        before = condition
        if cut and portions[-1]:
            portions.append([])
    return [portion for portion in portions if portion]


def whole(history: list, kind: str) -> list[Span]:
    """Return the spans of a history that is read whole."""
    spans: list[Span] = []
    at = 0
    for pause, (state, unconfirmed, wait), _ in history:
        at += pause
        keys = {
            "presence": (True,) if state else (),
            "impaired": (state, unconfirmed) if state and (unconfirmed or state != "clear") else (),
            "alarm": (True,) if wait else (),
        }
        running = spans[-1] if spans and spans[-1].end is None else None
        if running and running.kind != keys[kind]:
            spans[-1] = running._replace(end=at)
        if keys[kind] and not (running and running.kind == keys[kind]):
            spans.append(Span(at, None, keys[kind]))
    return spans


def bring(kept: dict[str, Run], kind: SpanKind, portions: list[list[Move]]) -> None:
    """Take portions as the materialiser does, into a table of the kept rows by their places."""
    before = Condition()
    for steps in portions:
        moves = Moves(before, steps)
        before = steps[-1].condition
        if not _concerns(kind, moves):
            continue
        void = [step.place for step in steps if step.anew]
        known = [
            Run(**vars(run))
            for run in kept.values()
            if run.end is None or (void and max(run.place, run.end_place) >= min(void))
        ]
        track = follow(kind, ATTACK, known, steps)
        for place in track.gone:
            kept.pop(place, None)
        kept |= {place: track.runs[place] for place in track.touched}


def kept_spans(kept: dict[str, Run]) -> list[Span]:
    rows = [run for _, run in sorted(kept.items())]
    return [
        Span(run.begin, run.end, run.key if isinstance(run.key, tuple) else (run.key,))
        for run in rows
    ]


@pytest.mark.parametrize(
    ("kind", "name"), [(PRESENCE, "presence"), (IMPAIRED, "impaired"), (ALARM, "alarm")]
)
@given(history=histories)
def test_spans_are_those_of_the_whole_history(kind: SpanKind, name: str, history: list):
    kept: dict[str, Run] = {}
    bring(kept, kind, portions_of(history))
    assert kept_spans(kept) == whole(history, name)


@pytest.mark.parametrize("kind", KINDS, ids=["presence", "impaired", "alarm"])
@given(history=histories)
def test_a_rebuild_finds_its_spans_again(kind: SpanKind, history: list):
    kept: dict[str, Run] = {}
    bring(kept, kind, portions_of(history))
    before = kept_spans(kept)
    bring(kept, kind, portions_of(history, epoch=2))
    assert kept_spans(kept) == before
