"""What the recorder keeps of changes in portions, against a history that is read whole."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.ingestion import StateChange
from dashboard.watch.incidents.ingestion import Course, IncidentChange, follow


class Run(NamedTuple):
    """An incident of a whole history: when it began and ended, and its states in order."""

    begin: int
    end: int | None
    states: tuple[str, ...]


def runs_of(moves: list[StateChange]) -> list[Run]:
    """Return the incidents of a history that is read whole."""
    runs: list[Run] = []
    for move in moves:
        running = runs[-1] if runs and runs[-1].end is None else None
        if move.state in ("", "clear"):
            if running:
                runs[-1] = running._replace(end=move.at)
        elif running is None:
            runs.append(Run(move.at, None, (move.state,)))
        else:
            runs[-1] = running._replace(states=(*running.states, move.state))
    return runs


STATES = ("clear", "suspicious", "under-attack", "")
histories = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from(STATES), st.booleans()), max_size=30
)


def moves_of(history: list[tuple[int, str, bool]]) -> list[list[StateChange]]:
    """Return the changes of a history, in portions; a state that stays is no change."""
    portions: list[list[StateChange]] = [[]]
    at, state = 0, ""
    for step, new, cut in history:
        at += step
        if new != state:
            portions[-1].append(StateChange("attack", "a", f"{at:033}", at, new, state))
        if cut and portions[-1]:
            portions.append([])
        state = new
    return [portion for portion in portions if portion]


def write(kept: dict[str, Course], portions: list[list[StateChange]]) -> None:
    """Record portions as the materialiser does, into a table of the kept rows by their places."""
    for moves in portions:
        known = [row for row in kept.values() if row.ended_at is None]
        touched, _ = follow(scenarios()["attack"], known, moves)
        kept |= {row.place: row for row in touched}


def real(kept: dict[str, Course]) -> list[tuple[int, int | None, int, str]]:
    rows = [row for row in kept.values() if row.ended_at != row.began_at]
    return sorted((row.began_at, row.ended_at, row.changes, row.state) for row in rows)


def expected(portions: list[list[StateChange]]) -> list[tuple[int, int | None, int, str]]:
    runs = runs_of([move for portion in portions for move in portion])
    return [(run.begin, run.end, len(run.states), run.states[-1]) for run in runs]


@given(histories)
def test_incidents_are_those_of_the_whole_history(history):
    portions, kept = moves_of(history), dict[str, Course]()
    write(kept, portions)
    assert real(kept) == expected(portions)


@given(histories)
def test_a_rebuild_finds_its_incidents_again(history):
    portions, kept = moves_of(history), dict[str, Course]()
    write(kept, portions)
    before = dict(kept)
    write(kept, portions)
    assert real(kept) == expected(portions)
    assert kept.keys() == before.keys()


@given(histories, histories)
@example([(1, "suspicious", False)], [(2, "suspicious", False)])
def test_a_rebuild_by_another_rule_leaves_none_open_that_is_not(first, second):
    kept: dict[str, Course] = {}
    write(kept, moves_of(first))
    portions = moves_of(second)
    write(kept, portions)
    if portions:
        open_now = [row for row in real(kept) if row[1] is None]
        assert open_now == [run for run in expected(portions) if run[1] is None]


def changes_of(portions: list[list[StateChange]]) -> list[IncidentChange]:
    """Record portions, and return what each made of incidents."""
    kept: dict[str, Course] = {}
    changes: list[IncidentChange] = []
    for moves in portions:
        known = [row for row in kept.values() if row.ended_at is None]
        touched, made = follow(scenarios()["attack"], known, moves)
        kept |= {row.place: row for row in touched}
        changes += made
    return changes


@given(histories)
def test_each_change_of_an_incident_is_returned_once(history):
    portions = moves_of(history)
    changes = changes_of(portions)
    runs = runs_of([move for portion in portions for move in portion])
    expected = []
    for run in runs:
        expected += ["begun", *["changed"] * (len(run.states) - 1)]
        expected += [] if run.end is None else ["ended"]
    assert [change.kind for change in changes] == expected
    assert len({(change.place, change.kind) for change in changes}) == len(changes)


def test_what_a_rebuild_may_not_find_again_is_withdrawn():
    portions = moves_of([(5, "under-attack", True)])
    again = [move._replace(place=f"{3:033}", at=3) for move in portions[0]]
    kinds = [change.kind for change in changes_of([*portions, again])]
    assert kinds == ["begun", "withdrawn", "begun"]
