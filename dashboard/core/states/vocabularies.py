"""The filters of lists: what each may say, as a condition on its rows and for completion.

Boards and lists share the parser (`filter_parser.py`) and completion; each list declares its keys.
"""

# ruff: noqa: ARG002 - kinds of keys that do not need the time take it as the others do

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property, reduce
from itertools import islice
from operator import and_, or_
from typing import Any, ClassVar, NamedTuple

from django.db.models import Q, Value
from django.db.models.functions import Left
from django.db.models.lookups import Exact
from django.http import QueryDict

from dashboard.core.common.forms import scenario_choices, time_zone_of
from dashboard.core.common.times import DAY_MS
from dashboard.core.states.filter_parser import (
    Atom,
    FilterError,
    TermHead,
    parsed,
    time_of,
)
from dashboard.core.states.filter_terms import (
    WORD,
    DurationTerm,
    Filter,
    Flag,
    Term,
    Text,
    TimeTerm,
    quoted,
)
from dashboard.core.states.filter_terms import Value as TermValue
from domain.names import CONTROL

# ---- completion ----------------------------------------------------------------------------------
# What may follow at a position in a filter.

# Most completions that are offered.
MOST = 12

_TERM = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?:"|\Z))+\Z')
_KEY = re.compile(r"-?([A-Za-z][A-Za-z0-9_-]{0,31}):")


class Completion(NamedTuple):
    """A completion. text: what is inserted; label: what is shown; note: a remark on it."""

    text: str
    label: str
    note: str = ""


class Offers(NamedTuple):
    """The completions that may replace the characters from `start` to `end`."""

    start: int
    end: int
    items: list[Completion]

    def plain(self) -> dict[str, Any]:
        """Return them for the browser."""
        return self._asdict() | {"items": [each._asdict() for each in self.items]}


def completed(
    text: str,
    at: int,
    keys: Callable[[str], list[Completion]],
    values: Callable[[str, str], Iterable[Completion]],
) -> Offers:
    """Return what may stand at position `at` of the text.

    keys: returns the keys that begin so; values: the values of a key, for what was typed.
    """
    if CONTROL.search(text[:at]):  # no name has one, and PostgreSQL takes no NUL
        return Offers(at, at, [])
    match = _TERM.search(text[:at])
    term = match[0] if match else ""
    start = at - len(term)
    key = _KEY.match(term)
    if key is None:
        negated = term.startswith("-")
        return Offers(start + negated, at, keys(term[negated:]))
    part = term[key.end() :]
    part = part[_after_comma(part) :]
    typed = part.removeprefix('"')
    return Offers(at - len(part), at, _first(values(key[1].lower(), typed), typed))


def _after_comma(part: str) -> int:
    """Return where the value after the last comma outside quotes begins."""
    at, inside = 0, False
    for place, letter in enumerate(part):
        inside ^= letter == '"'
        if letter == "," and not inside:
            at = place + 1
    return at


def _first(every: Iterable[Completion], typed: str) -> list[Completion]:
    """Return the completions that begin with what was typed, then those that contain it."""
    part, all_of_them = typed.casefold(), list(every)
    begun = [each for each in all_of_them if each.label.casefold().startswith(part)]
    inside = [
        each
        for each in all_of_them
        if each not in begun and part in f"{each.label} {each.note}".casefold()
    ]
    return list(islice((*begun, *inside), MOST))


# ---- conditions ----------------------------------------------------------------------------------

# Largest time that a database can compare, ms.
FARTHEST = 2**63 - 1


def text_is(column: str, value: Text) -> Q:
    """Return the condition that a column equals a text, or begins with it.

    It is case-sensitive, which `LIKE` would not be.
    """
    if not value.prefix:
        return Q(**{column: value.text})
    if not value.text:
        return Q(**{f"{column}__isnull": False})
    begins = Q(Exact(Left(column, len(value.text)), Value(value.text)))
    return begins & Q(**{f"{column}__isnull": False})


def compared(column: str, more: bool, than: int) -> Q:
    """Return the condition that a column of times is above or below a number, ms."""
    than = max(-FARTHEST, min(than, FARTHEST))
    return Q(**{f"{column}__gt" if more else f"{column}__lt": than})


def time_is(column: str, value: DurationTerm | TimeTerm, now: int) -> Q:
    """Return the condition that a time column lies so long ago, or before or after a moment.

    The column and `now` are in Unix ms.
    """
    if isinstance(value, DurationTerm):  # longer ago means an earlier time
        return compared(column, not value.more, now - value.ms)
    return compared(column, value.after, value.at)


# ---- keys ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListKey:
    """A key of a list's filter. hint: shown beside it while somebody types."""

    name: str
    hint: str

    compares: ClassVar[bool] = False
    """Whether its values begin with < or >."""

    def value(self, atom: Atom, now: int) -> TermValue:
        """Return the meaning of a value. now: Unix ms. Raises FilterError."""
        raise NotImplementedError

    def condition(self, value: Any, now: int) -> Q:
        """Return the condition on a row for one value."""
        raise NotImplementedError

    def values(self, typed: str) -> Iterable[Completion]:
        """Return the values to offer, likeliest first."""
        return ()


NO_CHOICE: Callable[[], Mapping[str, str]] = dict


@dataclass(frozen=True)
class ChoiceKey(ListKey):
    """A key with known values. choices: their titles; rows: the condition, or a column's name."""

    choices: Callable[[], Mapping[str, str]] = NO_CHOICE
    rows: Callable[[str], Q] | str = ""

    def value(self, atom: Atom, now: int) -> Text:
        """Return the value with this name or title, or the only one whose name begins so."""
        choices = self.choices()
        folded = {name.casefold(): name for name in choices}
        titled = {title.casefold(): name for name, title in choices.items()}
        typed = atom.text.casefold()
        parts = (
            [] if atom.literal else [name for name in choices if name.casefold().startswith(typed)]
        )
        exact = atom.text if atom.text in choices else folded.get(typed) or titled.get(typed)
        known = exact or (parts[0] if len(parts) == 1 else "")
        if known and not atom.star:
            return Text(known)
        close = get_close_matches(typed, folded, 1, 0.5)
        meant = quoted(folded[close[0]]) if close else ""
        raise atom.error(f"{self.name}: expected {_either(parts or choices)}", meant)

    def condition(self, value: Text, now: int) -> Q:
        """Return the condition on a row for one value."""
        return Q(**{self.rows: value.text}) if isinstance(self.rows, str) else self.rows(value.text)

    def values(self, typed: str) -> Iterable[Completion]:
        """Return all values."""
        return [
            Completion(quoted(name), name, "" if title == name else title)
            for name, title in self.choices().items()
        ]


MOST_NAMED = 20
"""Most values that an error names."""


def _either(names: Collection[str]) -> str:
    shown = list(islice(names, MOST_NAMED))
    if len(names) > MOST_NAMED:
        return f"{', '.join(shown)} or one of {len(names) - MOST_NAMED} more"
    return f"{', '.join(shown[:-1])} or {shown[-1]}" if shown[1:] else "".join(shown) or "nothing"


def scenario_key(rows: Callable[[str], Q] | str = "scenario") -> ChoiceKey:
    """Return the key for a row's scenario, by name or title."""
    return ChoiceKey("scenario", "the board", lambda: dict(scenario_choices()), rows)


def choice_of(titles: Mapping[str, str] | Iterable[str]) -> Callable[[], Mapping[str, str]]:
    """Return what gives choices that are always the same: titles by name, or names alone."""
    known = titles if isinstance(titles, Mapping) else {name: name for name in titles}
    return lambda: known


@dataclass(frozen=True)
class TextKey(ListKey):
    """A key of a text, or of its beginning before `*`; `*` alone is any text.

    column: of the row; part: whether any part of the text does; known: the values to offer;
    within: makes the condition on the column one on the row, if the column is another table's.
    """

    column: str = ""
    part: bool = False
    known: Callable[[], Iterable[str]] = tuple
    within: Callable[[Q], Q] | None = None

    def value(self, atom: Atom, now: int) -> Text | Flag:
        """Return the text."""
        return Text(atom.text, atom.star)

    def condition(self, value: Any, now: int) -> Q:
        """Return the condition on a row for one value."""
        so = self._of_column(value)
        return self.within(so) if self.within else so

    def _of_column(self, value: Text) -> Q:
        if not value.text:
            return Q(**{f"{self.column}__gt": ""})
        if self.part and not value.prefix:
            return Q(**{f"{self.column}__icontains": value.text})
        return text_is(self.column, value)

    def values(self, typed: str) -> Iterable[Completion]:
        """Return the known values."""
        return [Completion(quoted(text), text) for text in self.known()]


_ANYBODY = {"nobody": False, "no": False, "yes": True}


@dataclass(frozen=True)
class PersonKey(TextKey):
    """A key of who it is, by name, or `nobody`, or `yes`. none: the condition for nobody."""

    none: Q = field(default_factory=Q)

    def value(self, atom: Atom, now: int) -> Text | Flag:
        """Return the name, or whether there is anybody."""
        anybody = None if atom.literal or atom.star else _ANYBODY.get(atom.text.lower())
        return super().value(atom, now) if anybody is None else Flag(anybody)

    def condition(self, value: Text | Flag, now: int) -> Q:
        """Return the condition on a row for one value."""
        if isinstance(value, Flag):
            return ~self.none if value.on else self.none
        return super().condition(value, now)

    def values(self, typed: str) -> Iterable[Completion]:
        """Return nobody, and the known names."""
        return [Completion("nobody", "nobody"), *super().values(typed)]


_SPANS = {"<1h": "in the last hour", "<1d": "in the last day", "<7d": "in the last seven days",
          ">1h": "longer ago", ">1d": "longer ago"}  # fmt: skip
_AHEAD = {"<1h": "within an hour", "<1d": "within a day", ">1d": "later"}


@dataclass(frozen=True)
class TimeKey(ListKey):
    """A key of a time: `<1h` ago, `>14:00`, that moment included. column: of the row, Unix ms.

    ahead: whether durations are from now on, as for what is to come.
    """

    column: str = ""
    ahead: bool = False

    compares = True

    def value(self, atom: Atom, now: int) -> DurationTerm | TimeTerm:
        """Return the duration or the moment; a time of day is the last one, or `ahead` the next."""
        return time_of(self.name, atom, now + DAY_MS if self.ahead else now)

    def condition(self, value: DurationTerm | TimeTerm, now: int) -> Q:
        """Return the condition on a row for one value."""
        if isinstance(value, TimeTerm):
            way = "gte" if value.after else "lt"
            return Q(**{f"{self.column}__{way}": min(value.at, FARTHEST)})
        if self.ahead:
            return compared(self.column, value.more, now + value.ms)
        return time_is(self.column, value, now)

    def values(self, typed: str) -> Iterable[Completion]:
        """Return usual spans."""
        spans = _AHEAD if self.ahead else _SPANS
        return [Completion(span, span, note) for span, note in spans.items()]


# ---- vocabularies --------------------------------------------------------------------------------

LinkTerm = Callable[[str, Mapping[str, Any]], str]
"""Returns the term, or "", for the value of a query parameter of a link, given all of them."""


def as_term(key: str) -> LinkTerm:
    """Return what makes a parameter's value a term of this key."""
    return lambda value, _: f"{key}:{quoted(value)}"


def in_utc(at: str, given: Mapping[str, Any]) -> str:
    """Return the time of a parameter in UTC; another one may name its zone."""
    try:
        moment = datetime.fromisoformat(at).replace(tzinfo=time_zone_of(given)).astimezone(UTC)
    except (ValueError, OverflowError):
        return at
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def period(key: str) -> dict[str, LinkTerm]:
    """Return what makes the parameters of a period terms of this key."""
    return {"start": lambda at, _: f"{key}:>{at}", "end": lambda at, _: f"{key}:<{at}"}


@dataclass(frozen=True)
class Vocabulary:
    """What the filter of a list may say.

    word: the condition for a term without a key; keys: the list's; more: further keys, of what is
    stored; example: shown in an empty box; links: the terms for query parameters of links, besides
    those with the name of a key; default: the filter of an address without one.
    """

    word: Callable[[str], Q]
    keys: tuple[ListKey, ...]
    more: Callable[[], Iterable[ListKey]] = tuple
    example: str = ""
    links: Mapping[str, LinkTerm] = field(default_factory=dict)
    default: str = ""

    def read(self, text: str, now: int) -> ListFilter:
        """Return what a filter says at `now` (Unix ms). Raises FilterError."""
        language = _Rows(self, now)
        return ListFilter(parsed(text, language), language.condition)

    def offers(self, text: str, at: int) -> Offers:
        """Return what may stand at position `at` of a filter."""
        keys = _Rows(self, 0).keys

        def begun(typed: str) -> list[Completion]:
            every = (Completion(f"{name}:", name, key.hint) for name, key in keys.items())
            return [each for each in every if each.label.startswith(typed.lower())]

        def values(name: str, typed: str) -> Iterable[Completion]:
            return keys[name].values(typed) if name in keys else ()

        return completed(text, at, begun, values)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The query parameters that stand for terms of `q`."""
        return tuple(self._terms())

    def _terms(self) -> dict[str, LinkTerm]:
        """Return what makes a term of a query parameter, by its name."""
        own = {key.name: as_term(key.name) for key in self.keys}
        word: dict[str, LinkTerm] = {"word": lambda value, _: quoted(value)}
        return own | dict(self.links) | word

    def renewed(self, given: Mapping[str, Any]) -> QueryDict:
        """Return the query of an address with its other parameters as terms of `q`.

        A query without `q` gets the default filter, unless its parameters say otherwise. `word` is
        a part of a name, whatever characters it has. `q` stays first: a mistake is named by its
        place.
        """
        query = QueryDict(mutable=True)
        query.update(given)
        terms = []
        given_all = query.copy()
        for name, term in self._terms().items():
            values = [value for value in query.getlist(name) if value]
            query.pop(name, None)
            terms += _joined([term(value, given_all) for value in values])
        key = self.default.partition(":")[0]
        if "q" not in query and not any(term.startswith(f"{key}:") for term in terms):
            terms.append(self.default)
        query["q"] = " ".join(filter(None, [query.get("q", "").strip(), *terms]))
        return query


def _joined(terms: list[str]) -> list[str]:
    """Return terms of one key as a single one, whose values are alternatives."""
    if len(terms) < 2 or ":" not in terms[0]:
        return terms
    key, _, _ = terms[0].partition(":")
    return [f"{key}:{','.join(term.partition(':')[2] for term in terms)}"]


@dataclass(frozen=True)
class ListFilter:
    """What a filter says. condition_of: returns the condition on the list's rows for a term."""

    terms: Filter = field(default_factory=Filter)
    condition_of: Callable[[Term], Q] = lambda _: Q()

    @property
    def condition(self) -> Q:
        """Return the condition on the list's rows."""
        return self.besides("")

    def besides(self, key: str) -> Q:
        """Return the condition without the terms of a key."""
        terms = (term for term in self.terms.terms if not key or term.key != key)
        return reduce(and_, map(self.condition_of, terms), Q())

    def changed(self, key: str, *values: str) -> str:
        """Return the filter's text with these values of a key in place of those that it has."""
        others = (str(term) for term in self.terms.terms if term.key != key)
        return " ".join([*(f"{key}:{value}" for value in values), *others])

    def value(self, key: str) -> str:
        """Return the only value that a key is to have; "" if it is to have none, or several."""
        terms = [term for term in self.terms.terms if term.key == key]
        one = len(terms) == 1 and len(terms[0].values) == 1 and not terms[0].negated
        return getattr(terms[0].values[0], "text", "") if one else ""


@dataclass(frozen=True)
class _Rows:
    """What a filter may say of a list's rows. now: Unix ms."""

    vocabulary: Vocabulary
    now: int
    details: Collection[str] = ()
    votes: Collection[str] = ()

    @cached_property
    def own(self) -> dict[str, ListKey]:
        """Return the list's keys, in their order."""
        return {key.name: key for key in self.vocabulary.keys}

    @cached_property
    def keys(self) -> dict[str, ListKey]:
        """Return all keys, also those of what is stored, which take queries."""
        return self.own | {
            key.name: key for key in self.vocabulary.more() if key.name not in self.own
        }

    @property
    def compared(self) -> Collection[str]:
        return [name for name, key in self.own.items() if key.compares]

    def of(self, name: str) -> ListKey:
        return self.own.get(name) or self.keys[name]

    def key(self, head: TermHead, text: str) -> str:
        if head.key in (WORD, *self.own) or head.key in self.keys:
            return head.key
        close = get_close_matches(head.key, self.keys, 1, 0.6)
        message = f"there is no key {head.key}: expected {_either(self.keys)}, or quotes around it"
        start = head.start + head.negated
        raise FilterError(message, start, head.end, f"{close[0]}:" if close else "")

    def value(self, key: str, atom: Atom) -> TermValue:
        return Text(atom.text) if key == WORD else self.of(key).value(atom, self.now)

    def condition(self, term: Term) -> Q:
        either = reduce(or_, (self._one(term.key, value) for value in term.values))
        return ~either if term.negated else either

    def _one(self, key: str, value: Any) -> Q:
        return self.of(key).condition(value, self.now) if key else self.vocabulary.word(value.text)
