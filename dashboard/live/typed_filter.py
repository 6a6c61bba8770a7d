"""The filter of a page or a socket, from its text as it was typed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import DatabaseError

from dashboard.filter_language.parser import FilterError, parse, state_of
from dashboard.filter_language.terms import WORD, Filter, Term, Text
from dashboard.labels.queries import keys
from dashboard.live.page_filter import Filter as Shown
from domain.scenario import Scenario

FilterProblem = dict[str, str | int]
# What is wrong with a text that is no filter: in words, where, and what may have been meant.
NO_PROBLEM: FilterProblem = {"message": "", "start": 0, "end": 0, "meant": ""}


def readable(states: Iterable[str]) -> frozenset[str]:
    """Return names of states as a database can be queried for them: PostgreSQL accepts no NUL."""
    return frozenset(state.replace("\0", "\ufffd") for state in states)


def named(scenario: Scenario, states: Iterable[str]) -> frozenset[str]:
    """Return the states that an address or a program names, by name or label.

    They are names that a database can be queried for.
    """
    return readable(state_of(state, scenario) or state for state in states)


def unknown_states(scenario: Scenario, states: Iterable[str]) -> list[str]:
    """Return which of these name no state: a board of them would be empty, as if all were well.

    An open vocabulary has any state.
    """
    if scenario.open_vocabulary:
        return []
    return [state for state in states if state_of(state, scenario) is None]


def with_states(scenario: Scenario, states: Iterable[str], text: str, now: int) -> Filter:
    """Return the filter of a text within these states (none: all). Raises FilterError."""
    wanted = parse(text, scenario, now, _keys(scenario))
    some = tuple(Text(name) for name in sorted(named(scenario, states)))
    return Filter((*wanted.terms, Term("state", some))) if some else wanted


def shown(scenario: Scenario, states: frozenset[str], text: str, now: int, **rest: Any) -> Shown:
    """Return the rows of these states (empty: all) that the text finds; rest: as `Shown` has it.

    What is requested of states and of one part of the name alone is looked up without a further
    term: that is counted exactly and costs the least. now: Unix ms. Raises FilterError.
    """
    return filter_of(parse(text, scenario, now, _keys(scenario)), states, now, **rest)


def _keys(scenario: Scenario) -> tuple[str, ...] | None:
    """Return the keys that there are; None where the database does not say."""
    try:
        return keys(scenario.name)
    except DatabaseError:
        return None


def filter_of(wanted: Filter, states: frozenset[str], now: int, **rest: Any) -> Shown:
    """Return the rows that a parsed filter finds; states, now, rest: as for `shown`."""
    terms = list(wanted.terms)
    for term in wanted.terms:
        named = _states(term)
        both = named & states if states else named
        if both:
            states = both
            terms.remove(term)
    if len(terms) == 1 and (word := _word(terms[0])):
        return Shown(states, word, **rest)
    return Shown(states, terms=Filter(tuple(terms)) if terms else None, now=now, **rest)


def problem_of(error: FilterError) -> FilterProblem:
    """Return the error as a page and the live protocol have it."""
    return {"message": str(error), "start": error.start, "end": error.end, "meant": error.meant}


def _states(term: Term) -> frozenset[str]:
    """Return the states of which the term wants one; empty if it is about something else."""
    if term.key != "state" or term.negated:
        return frozenset()
    return frozenset(value.text for value in term.values if isinstance(value, Text))


def _word(term: Term) -> str:
    """Return the one part of the name that the term wants, or nothing."""
    if term.key != WORD or term.negated or len(term.values) > 1:
        return ""
    (value,) = term.values
    return value.text if isinstance(value, Text) else ""
