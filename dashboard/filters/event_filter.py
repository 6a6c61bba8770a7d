"""The filter language of what has happened: changes of states, purges, reminders.

A state is the one that came, since when is when it came, an agent is the one whose report brought
it; names and labels are the asset's. What an asset is now, no event says.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_, or_

import msgspec
from django.db.models import Exists, OuterRef, Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from dashboard.filter_language.parser import FilterError, parse
from dashboard.filter_language.terms import WORD, Filter, Moment, Span, Term, Text, Vote
from dashboard.filters.query import labelled, text_is, time_is
from dashboard.labels.queries import keys
from domain.scenario import Scenario

# Of the language's own keys, those that can be asked of an event.
ASKED = (WORD, "name", "state", "since", "agent")


def condition_of(text: str, known: Iterable[Scenario], now: int) -> Q:
    """Return the condition for events of these scenarios that the text finds at `now` (Unix ms).

    A text that only some of them can read (it names a state that the others lack) finds theirs
    alone. Raises FilterError where none can.
    """
    found, faults = [], []
    for scenario in known:
        try:
            wanted = parse(text, scenario, now, keys(scenario.name))
            found.append(Q(scenario=scenario.name) & _all(wanted, text, scenario, now))
        except FilterError as error:
            faults.append(error)
    if not found:
        raise faults[0]
    return reduce(or_, found)


def _all(wanted: Filter, text: str, scenario: Scenario, now: int) -> Q:
    conditions = [_condition(term, text, scenario, now) for term in wanted.terms]
    return reduce(and_, conditions, Q())


def _condition(term: Term, text: str, scenario: Scenario, now: int) -> Q:
    if term.own and term.key not in ASKED:
        at = max(text.lower().find(f"{term.key}:"), 0)
        raise FilterError(
            f"{term.key} is not asked of events: expected state, since, agent, name or a label",
            at,
            at + len(term.key),
        )
    either = reduce(or_, (_value(term.key, value, scenario, now) for value in term.values))
    return ~either if term.negated else either


def _value(key: str, value: object, scenario: Scenario, now: int) -> Q:
    match key, value:
        case "", Text():
            return Q(asset__icontains=value.text)
        case "name", Text():
            return text_is("asset", value)
        case "state", Text():
            return text_is("state", value)
        case "since", Span() | Moment():
            return time_is("at", value, now)
        case "agent", Vote():
            state = Q() if value.state is None else Q(state=value.state)
            return state & _by(value.agent)
        case _, Text():
            labels = labelled(key, value, scenario).filter(asset=OuterRef("asset"))
            return Q(Exists(labels))
    raise AssertionError(f"{key} has no such value: {value!r}")


def _by(agent: Text) -> Q:
    """Return whose cause, a JSON text, names the agent. Quotes within a name are escaped there, so
    that no name can look like a field."""
    name = msgspec.json.encode(agent.text).decode()
    part = '"agent":' + (name[:-1] if agent.prefix else name)
    return Q(GreaterThan(StrIndex("cause", Value(part)), 0))
