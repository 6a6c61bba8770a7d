"""A filter as a database condition, and the filter language for events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import and_, or_
from typing import Any

import msgspec
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from dashboard.core.states.filter_parser import FilterError, parse
from dashboard.core.states.filter_terms import (
    UNHANDLED,
    WORD,
    AmountTerm,
    DurationTerm,
    Filter,
    Flag,
    Never,
    Term,
    Text,
    TimeTerm,
    VoteTerm,
    amount_of,
)
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import DOUBTED
from dashboard.core.states.vocabularies import compared, text_is, time_is
from dashboard.watch.annotations.labels import keys
from dashboard.watch.annotations.models import Label, Mark
from dashboard.watch.annotations.row_marks import calm_of, unhandled
from domain.scenario import Scenario

# ---- query ---------------------------------------------------------------------------------------
# A filter as a database condition: the same as `Filter.matches`, row by row.


def rows(
    criteria: Filter, scenario: Scenario, now: int, since: int | None = None
) -> QuerySet[AssetState]:
    """Return the visible assets that the filter finds at `now` (Unix ms), unordered. since: also
    those that were purged after that, Unix ms."""
    there = Q(purged=False) if since is None else Q(purged=False) | Q(purged_at__gt=since)
    assets = AssetState.objects.filter(there, scenario=scenario.name)
    for term in criteria.terms:
        assets = assets.filter(condition(term, scenario, now))
    return assets.order_by()


def condition(term: Term, scenario: Scenario, now: int) -> Q:
    """Return the database condition for one term, on rows of `scenario`."""
    look = _LOOKS.get(term.key)
    if term.detail:
        place = scenario.detail_keys.index(term.key) + 1
        asked = [_detail(place, value) for value in term.values]  # type: ignore[arg-type]
    elif look is None:
        asked = [_label(term.key, value, scenario) for value in term.values]  # type: ignore[arg-type]
    else:
        asked = [look(value, scenario, now) for value in term.values]
    either = reduce(or_, asked)
    return ~either if term.negated else either


# ---- columns ------------------------------------------------------------------------------------


def _word(value: Text, _scenario: Scenario, _now: int) -> Q:
    return Q(asset__icontains=value.text)


def _name(value: Text, _scenario: Scenario, _now: int) -> Q:
    return text_is("asset", value)


def _state(value: Text, _scenario: Scenario, _now: int) -> Q:
    return text_is("state", value)


def _detail(place: int, value: Text | AmountTerm) -> Q:
    """Return the condition for a detail's value. place: of the detail, from 1."""
    text, number = f"detail_{place}", f"amount_{place}"
    if isinstance(value, AmountTerm):
        return Q(**{f"{number}__gt" if value.more else f"{number}__lt": value.than})
    if value.prefix:
        any_number = Q() if value.text else Q(**{f"{number}__isnull": False})
        return text_is(text, value) | any_number if any_number else text_is(text, value)
    amount = amount_of(value.text)
    return text_is(text, value) if amount is None else text_is(text, value) | Q(**{number: amount})


def _since(value: DurationTerm | TimeTerm, _scenario: Scenario, now: int) -> Q:
    return time_is("since", value, now)


def _until(value: DurationTerm | TimeTerm | Never, _scenario: Scenario, now: int) -> Q:
    if isinstance(value, Never):
        return Q(overridden=True, override_until__isnull=True)
    more, than = (
        (value.more, now + value.ms) if isinstance(value, DurationTerm) else (value.after, value.at)
    )
    there = Q(overridden=True, override_until__isnull=False)
    return there & compared("override_until", more, than)


def _override(value: Flag | Text, _scenario: Scenario, _now: int) -> Q:
    if isinstance(value, Flag):
        return Q(overridden=value.on)
    return Q(overridden=True) & text_is("override_user", value)


def _unconfirmed(value: Flag, _scenario: Scenario, _now: int) -> Q:
    return Q(unconfirmed=value.on)


def _is(value: Text, scenario: Scenario, now: int) -> Q:
    return unhandled(scenario, now) if value == UNHANDLED else DOUBTED[value.text]


# ---- inside the record --------------------------------------------------------------------------

_VOTES = {
    "sqlite": (
        "EXISTS (SELECT 1 FROM json_each({record}, '$.votes') AS vote WHERE {so})",
        "json_extract(vote.value, '$.{field}')",
    ),
    "postgresql": (
        (
            "EXISTS (SELECT 1 FROM json_array_elements({record}::json -> 'votes') AS vote(value) "
            "WHERE {so})"
        ),
        "(vote.value ->> '{field}')",
    ),
}
_PENDING = {
    "sqlite": "json_extract({record}, '$.pending.state') = %s",
    "postgresql": "({record}::json -> 'pending' ->> 'state') = %s",
}


class PendingIs(Func):
    """Whether the pending state in a record, a JSON text, is this one."""

    output_field = BooleanField()

    def __init__(self, state: str) -> None:
        super().__init__(F("record"))
        self.state = state

    def as_sql(self, compiler: Any, connection: Any, *_given: Any, **_extra: Any) -> Any:
        """Return the SQL for the present database."""
        record, params = compiler.compile(self.get_source_expressions()[0])
        return _PENDING[connection.vendor].format(record=record), (*params, self.state)


class HasVote(Func):
    """Whether a live vote in a record, a JSON text, is an agent's, is for a state, or is muted."""

    output_field = BooleanField()

    def __init__(self, vote: VoteTerm | None = None) -> None:
        """Prepare the condition. vote: the vote to look for, or None for a muted one."""
        super().__init__(F("record"))
        self.vote = vote

    def as_sql(self, compiler: Any, connection: Any, *_given: Any, **_extra: Any) -> Any:
        """Return the SQL for the present database."""
        record, params = compiler.compile(self.get_source_expressions()[0])
        whole, field = _VOTES[connection.vendor]
        terms = [
            (term.format(*(field.format(field=name) for name in fields)), term_params)
            for term, fields, term_params in self._asked()
        ]
        sql = whole.format(record=record, so=" AND ".join(term for term, _ in terms))
        return sql, (*params, *(each for _, term_params in terms for each in term_params))

    def _asked(self) -> Iterator[tuple[str, tuple[str, ...], tuple[Any, ...]]]:
        """Yield each condition on a vote, the fields that it names, and its parameters."""
        yield "{} IS NULL", ("silent",), ()
        if self.vote is None:
            yield "{} IS NOT NULL", ("muted",), ()
            return
        agent = self.vote.agent
        if not agent.prefix:
            yield "{} = %s", ("agent",), (agent.text,)
        elif agent.text:
            yield "substr({}, 1, %s) = %s", ("agent",), (len(agent.text), agent.text)
        else:
            yield "{} IS NOT NULL", ("agent",), ()
        if self.vote.state is not None:
            yield "{} = %s", ("state",), (self.vote.state,)


def _pending(value: Flag | Text, _scenario: Scenario, _now: int) -> Q:
    if isinstance(value, Flag):
        return Q(pending_due__isnull=not value.on)
    return Q(pending_due__isnull=False) & Q(PendingIs(value.text))


def _agent(value: VoteTerm, _scenario: Scenario, _now: int) -> Q:
    return Q(HasVote(value))


def _muted(value: Flag, _scenario: Scenario, _now: int) -> Q:
    return Q(HasVote()) if value.on else ~Q(HasVote())


# ---- what other tables say ----------------------------------------------------------------------


def labelled(key: str, value: Text, scenario: Scenario) -> QuerySet[Label]:
    """Return the shown labels with this key and value."""
    labels = Label.objects.shown(scenario.name).filter(key=key)
    return labels.filter(text_is("value", value)) if value.text or not value.prefix else labels


def _label(key: str, value: Text, scenario: Scenario) -> Q:
    return Q(Exists(labelled(key, value, scenario).filter(asset=OuterRef("asset"))))


def acknowledged(value: Flag | Text, scenario: Scenario, now: int) -> QuerySet[Mark]:
    """Return the marks of acknowledgements in force at `now` (Unix ms), of all or of a user."""
    marks = Mark.objects.filter(scenario=scenario.name, ack_until__gt=now)
    return marks if isinstance(value, Flag) else marks.filter(text_is("ack_by", value))


def _ack(value: Flag | Text, scenario: Scenario, now: int) -> Q:
    marks = acknowledged(value, scenario, now).filter(
        asset=OuterRef("asset"), ack_severity__lte=OuterRef("severity")
    )
    ack_condition = Q(severity__lt=calm_of(scenario)) & Q(Exists(marks))
    return ~ack_condition if isinstance(value, Flag) and not value.on else ack_condition


def in_work(scenario: Scenario, now: int) -> QuerySet[Mark]:
    """Return the marks of the assets that are in a maintenance window at `now` (Unix ms)."""
    return Mark.objects.filter(scenario=scenario.name, work_until__gt=now)


def _works(_value: Text, scenario: Scenario, now: int) -> Q:
    return Q(Exists(in_work(scenario, now).filter(asset=OuterRef("asset"))))


_LOOKS: dict[str, Callable[[Any, Scenario, int], Q]] = {
    WORD: _word,
    "name": _name,
    "state": _state,
    "since": _since,
    "until": _until,
    "agent": _agent,
    "override": _override,
    "pending": _pending,
    "is": _is,
    "has": _is,
    "unconfirmed": _unconfirmed,
    "ack": _ack,
    "in": _works,
    "muted": _muted,
}


# ---- event filter --------------------------------------------------------------------------------
# The filter language for events: state changes, purges, reminders.
#
# `state` is the new state, `since` when it came, `agent` the one whose report caused it; names and
# labels are the asset's. Events do not say what an asset is now.

# The language's own keys that apply to events.
ASKED = (WORD, "name", "state", "since", "agent")


def condition_of(text: str, known: Iterable[Scenario], now: int) -> Q:
    """Return the condition for events of these scenarios that the text finds at `now` (Unix ms).

    A text that only some of them can read (it names a state that the others lack) finds only their
    events. Raises FilterError if none can read it.
    """
    conditions, faults = [], []
    for scenario in known:
        try:
            criteria = parse(text, scenario, now, keys(scenario.name))
            conditions.append(Q(scenario=scenario.name) & _all(criteria, text, scenario, now))
        except FilterError as error:
            faults.append(error)
    if not conditions:
        raise faults[0]
    return reduce(or_, conditions)


def _all(criteria: Filter, text: str, scenario: Scenario, now: int) -> Q:
    conditions = [_condition(term, text, scenario, now) for term in criteria.terms]
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
        case "since", DurationTerm() | TimeTerm():
            return time_is("at", value, now)
        case "agent", VoteTerm():
            state = Q() if value.state is None else Q(state=value.state)
            return state & _by(value.agent)
        case _, Text():
            labels = labelled(key, value, scenario).filter(asset=OuterRef("asset"))
            return Q(Exists(labels))
    raise AssertionError(f"{key} has no such value: {value!r}")


def _by(agent: Text) -> Q:
    """Return the condition that the cause, a JSON text, names the agent.

    Quotes within a name are escaped there, so no name can look like a field.
    """
    name = msgspec.json.encode(agent.text).decode()
    part = '"agent":' + (name[:-1] if agent.prefix else name)
    return Q(GreaterThan(StrIndex("cause", Value(part)), 0))
