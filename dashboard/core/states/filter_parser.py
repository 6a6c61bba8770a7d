"""The filter language: its parser, what boards say in it, and addresses of boards with a filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import NamedTuple, Protocol

from django.http import QueryDict
from django.urls import reverse

from dashboard.core.states.filter_terms import (
    FLAGS,
    KEYS,
    PATTERNS,
    TIMES,
    UNITS,
    WORD,
    WORDS,
    AmountTerm,
    DurationTerm,
    Filter,
    Flag,
    Never,
    Term,
    Text,
    TimeTerm,
    Value,
    VoteTerm,
    amount_of,
    quoted,
)
from domain.names import CONTROL
from domain.scenario import Scenario

# ---- parser --------------------------------------------------------------------------------------
# The filter language: `state:attack since:>1h agent:waf-7 tier:gold shop -test`.
#
# Terms are separated by spaces and all must match; a comma within one means "or", a leading `-`
# means "not". A word without a key matches part of the name. Quoted text is taken literally.

__all__ = ["MAX_TEXT", "Filter", "FilterError", "parse", "state_of"]

# Length of the longest filter, in characters.
MAX_TEXT = 1_000
# Most values in all terms together.
MAX_VALUES = 50

_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}):(?!:|//)")
_BARE = re.compile(r"[^\s,]+")
_SPACE = re.compile(r"\s*")
_DURATION = re.compile(r"(?:[0-9]{1,6}[wdhms])+")
_STEP = re.compile(r"([0-9]+)([wdhms])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?[Zz]?")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_YES = {"yes": True, "true": True, "no": False, "false": False}


class FilterError(ValueError):
    """The text is not a valid filter. start, end: the part at fault; meant: a suggestion."""

    def __init__(self, message: str, start: int, end: int, meant: str = "") -> None:
        super().__init__(f"{message}; did you mean {meant}?" if meant else message)
        self.start, self.end, self.meant = start, end, meant


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece of text between commas, and its position.

    literal: quoted; star: `*` follows; compare: `<` or `>` before it; state: after `=`.
    """

    text: str
    start: int
    end: int
    literal: bool = False
    star: bool = False
    compare: str = ""
    state: Atom | None = None

    def error(self, message: str, meant: str = "") -> FilterError:
        """Return what is wrong with it. meant: what may stand here instead."""
        return FilterError(message, self.start, self.end, meant)


class TermHead(NamedTuple):
    """The beginning of a term, `-tier:`, and its position."""

    key: str
    negated: bool
    start: int
    end: int


class Language(Protocol):
    """What a filter may say: of a board's assets, or of a list's rows."""

    @property
    def compared(self) -> Collection[str]:
        """Keys whose values may begin with < or >."""

    @property
    def details(self) -> Collection[str]:
        """Keys of what agents add."""

    @property
    def votes(self) -> Collection[str]:
        """Keys whose values may be `NAME=STATE`."""

    def key(self, head: TermHead, text: str) -> str:
        """Return the key of a term in `text` if there is such a key. Raises FilterError."""

    def value(self, key: str, atom: Atom) -> Value:
        """Return the meaning of a term's value. Raises FilterError."""


def parse(text: str, scenario: Scenario, now: int, labels: Collection[str] | None = None) -> Filter:
    """Parse a board's filter and return it. now: Unix ms, for times of day; labels: known keys.

    Without `labels`, every key outside the language counts as a label's. An empty filter has no
    terms and matches everything. Raises FilterError.
    """
    return parsed(text, _Board(scenario, now, labels))


def parsed(text: str, language: Language) -> Filter:
    """Parse a filter in a language and return it. Raises FilterError."""
    _check(text)
    reader = _Reader(text, language)
    terms = []
    while reader.more():
        head = reader.head()
        key = language.key(head, text)
        atoms = reader.atoms(key)
        values = tuple(dict.fromkeys(language.value(key, atom) for atom in atoms))
        terms.append(Term(key, values, head.negated, detail=key in language.details))
        if sum(len(term.values) for term in terms) > MAX_VALUES:
            raise FilterError(f"expected at most {MAX_VALUES} values", head.start, len(text))
    return Filter(tuple(dict.fromkeys(terms)))


@dataclass(frozen=True)
class _Board:
    """What a filter may say of a scenario's assets."""

    scenario: Scenario
    now: int
    labels: Collection[str] | None
    votes: Collection[str] = ("agent",)

    @property
    def details(self) -> Collection[str]:
        return self.scenario.detail_keys

    @property
    def compared(self) -> Collection[str]:
        return TIMES.union(self.details)

    def key(self, head: TermHead, text: str) -> str:
        return _known(head, text, self.details, self.labels)

    def value(self, key: str, atom: Atom) -> Value:
        return _value(key, atom, self.scenario, self.now)


def _check(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise FilterError(f"expected at most {MAX_TEXT} characters", MAX_TEXT, len(text))
    if match := _SURROGATE.search(text):
        raise FilterError("this is no character", match.start(), match.end())


class _Reader:
    """A text in a language, and the current position in it."""

    def __init__(self, text: str, language: Language) -> None:
        self.text = text
        self.compared, self.votes = language.compared, language.votes
        self.at = 0

    def more(self) -> bool:
        """Return whether another term follows."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr] # it always matches
        return self.at < len(self.text)

    def head(self) -> TermHead:
        """Read and return the beginning of a term."""
        start = self.at
        negated = self.text[self.at] == "-"
        self.at += negated
        match = _KEY.match(self.text, self.at)
        key = match[1].lower() if match else WORD
        self.at = match.end() if match else self.at
        return TermHead(key, negated, start, self.at)

    def atoms(self, key: str) -> list[Atom]:
        """Read and return the values of a term, up to its end. Raises FilterError."""
        atoms = [self._atom(key)]
        while self.text.startswith(",", self.at):
            self.at += 1
            atoms.append(self._atom(key))
        if self.at < len(self.text) and not self.text[self.at].isspace():
            raise FilterError("expected a space or a comma", self.at, self.at + 1)
        return atoms

    def _atom(self, key: str) -> Atom:
        start, compare = self.at, ""
        if key in self.compared and self.text[self.at : self.at + 1] in ("<", ">"):
            compare = self.text[self.at]
            self.at += 1
        atom = self._quoted(key) if self.text.startswith('"', self.at) else self._bare(key)
        if CONTROL.search(atom.text):
            raise atom.error("no name contains a control character")
        return Atom(atom.text, start, self.at, atom.literal, atom.star, compare, atom.state or None)

    def _bare(self, key: str) -> Atom:
        match = _BARE.match(self.text, self.at)
        if match is None:
            message = f"expected a value after {key}:" if key else "expected a part of the name"
            raise FilterError(message, max(0, self.at - 1), max(1, self.at))
        start, self.at = self.at, match.end()
        return _split(key, match[0], start, key in self.votes)

    def _quoted(self, key: str) -> Atom:
        start = self.at
        text = self._until_quote()
        star = _takes_star(key) and self.text.startswith("*", self.at)
        self.at += star
        state = None
        if key in self.votes and self.text.startswith("=", self.at):
            self.at += 1
            state = self._atom("state")
        if not text and not star:
            raise FilterError("expected something between the quotes", start, self.at)
        return Atom(text, start, self.at, literal=True, star=star, state=state)

    def _until_quote(self) -> str:
        start, letters = self.at, []
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            self.at += self.text[self.at] == "\\"  # the next character is literal
            letters.append(self.text[self.at : self.at + 1])
            self.at += 1
        if self.at >= len(self.text):
            raise FilterError("this quote is not closed", start, len(self.text))
        self.at += 1
        return "".join(letters)


def _split(key: str, text: str, start: int, votes: bool) -> Atom:
    """Return the atom of an unquoted value: `waf-*=clear` of votes, `shop-*`, or plain text.

    Raises FilterError.
    """
    state, end = None, start + len(text)
    if votes and "=" in text:
        text, _, word = text.rpartition("=")
        if not text or not word:
            raise FilterError("expected agent:NAME=STATE", start, end)
        state = Atom(word, end - len(word), end)
    star = _takes_star(key) and text.endswith("*")
    return Atom(text.removesuffix("*") if star else text, start, end, star=star, state=state)


def _takes_star(key: str) -> bool:
    return key in PATTERNS or key not in (WORD, *KEYS)


def _known(
    head: TermHead, text: str, details: Collection[str], labels: Collection[str] | None
) -> str:
    """Return the key if it is the language's, a detail's, or may be a label's. Raises
    FilterError."""
    if head.key in (WORD, *KEYS, *details) or (labels is not None and head.key in labels):
        return head.key
    start = head.start + head.negated
    close = get_close_matches(head.key, [*KEYS, *details, *(labels or ())], 1, 0.75)
    if close:
        raise FilterError(f"there is no key {head.key}", start, head.end, f"{close[0]}:")
    if labels is not None:
        whole = _BARE.match(text, start)
        end = whole.end() if whole else head.end
        message = f"no asset has a label {head.key}; put a name with a colon in quotes"
        raise FilterError(message, start, max(end, head.end))
    return head.key


# ---- values -------------------------------------------------------------------------------------


def _value(key: str, atom: Atom, scenario: Scenario, now: int) -> Value:
    """Return the meaning of a term's value. Raises FilterError."""
    if key == "state":
        return Text(_state(atom, scenario))
    if key in TIMES:
        return _time(key, atom, now)
    if key in FLAGS:
        return _flag(key, atom)
    if key in WORDS:
        return _word(key, atom)
    if key == "agent":
        state = _state(atom.state, scenario) if atom.state else None
        return VoteTerm(Text(atom.text, atom.star), state)
    if key in ("override", "ack", "pending") and not atom.literal and atom.text.lower() in _YES:
        return Flag(_YES[atom.text.lower()])
    if key == "pending":
        return Text(_state(atom, scenario))
    return _amount(key, atom) if atom.compare else Text(atom.text, atom.star)


def _amount(key: str, atom: Atom) -> AmountTerm:
    number = None if atom.literal or atom.star else amount_of(atom.text)
    if number is None:
        raise atom.error(f"{key}: expected a number such as 10000, 2.5k or 1M after {atom.compare}")
    return AmountTerm(atom.compare == ">", number)


def _flag(key: str, atom: Atom) -> Flag:
    on = None if atom.literal else _YES.get(atom.text.lower())
    if on is None:
        raise atom.error(f"{key}: expected yes or no")
    return Flag(on)


def _word(key: str, atom: Atom) -> Text:
    """Return the word if it is one that the key accepts. Raises FilterError."""
    known = WORDS[key]
    if atom.text.lower() in known and not atom.literal:
        return Text(atom.text.lower())
    close = get_close_matches(atom.text.lower(), known, 1, 0.5)
    raise atom.error(f"{key}: expected {' or '.join(known)}", close[0] if close else "")


def state_of(text: str, scenario: Scenario) -> str | None:
    """Return the state whose full name or label is the text, in any case, or None."""
    named = {spec.name: spec.name for spec in scenario.states}
    folded = {name.casefold(): name for name in named}
    labelled = {spec.label.casefold(): spec.name for spec in scenario.states}
    alike = " ".join(text.split()).casefold()
    return named.get(text) or labelled.get(alike) or folded.get(alike)


def _state(atom: Atom, scenario: Scenario) -> str:
    """Return the state with this name or label, or the only one whose name contains the text.

    With an open vocabulary, any other text is a state too. Raises FilterError.
    """
    named = {spec.name: spec.name for spec in scenario.states}
    labelled = {spec.label.casefold(): spec.name for spec in scenario.states}
    state = state_of(atom.text, scenario)
    if state is None and not atom.literal:
        state = _only(atom.text, named)
    if state in named or scenario.open_vocabulary:
        return state or atom.text
    words = {**{name.casefold(): name for name in named}, **labelled}
    close = get_close_matches(atom.text.casefold(), words, 1, 0.5)
    expected = ", ".join(named)
    raise atom.error(
        f"no state is called {quoted(atom.text)}: {expected}",
        quoted(words[close[0]]) if close else "",
    )


def _only(part: str, names: Iterable[str]) -> str | None:
    candidates = [name for name in names if part.casefold() in name.casefold()]
    return candidates[0] if len(candidates) == 1 else None


def _time(key: str, atom: Atom, now: int) -> DurationTerm | TimeTerm | Never:
    """Return the meaning of a time, or of `until:none`. Raises FilterError."""
    if key == "until" and atom.text.lower() == "none" and not (atom.compare or atom.literal):
        return Never()
    return time_of(key, atom, now)


def time_of(key: str, atom: Atom, now: int) -> DurationTerm | TimeTerm:
    """Return the meaning of a duration or a moment after < or >. Raises FilterError."""
    if atom.literal:
        raise atom.error(f"{key}: expected a duration such as <10m, without quotes")
    if not atom.compare:
        meant = f"<{atom.text}" if _DURATION.fullmatch(atom.text) else ""
        raise atom.error(f"{key}: expected < or > before a duration or a time", meant)
    more = atom.compare == ">"
    if _DURATION.fullmatch(atom.text):
        return DurationTerm(more, sum(_sizes(atom.text)))
    at = _moment(atom.text, now)
    if at is None:
        raise atom.error(f"{key}: expected a duration such as 1h30m, or a time such as 14:00 or "
                         "2026-11-22T14:00 (UTC)")  # fmt: skip
    return TimeTerm(more, at)


def _sizes(text: str) -> Iterator[int]:
    sizes = dict(UNITS)
    for many, unit in _STEP.findall(text):
        yield int(many) * sizes[unit]


def _moment(text: str, now: int) -> int | None:
    """Return the time (Unix ms) that a text gives: a date, or the latest such time of day.

    None if the text is neither. now: Unix ms.
    """
    if match := _CLOCK.fullmatch(text):
        today = datetime.fromtimestamp(now / 1000, UTC)
        at = today.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
        return _ms(at if at <= today else at - timedelta(days=1))
    if not _DATE.fullmatch(text):
        return None
    try:
        return _ms(datetime.fromisoformat(text.upper().removesuffix("Z")).replace(tzinfo=UTC))
    except ValueError:
        return None


def _ms(when: datetime) -> int:
    return int(when.timestamp()) * 1000


# ---- addresses -----------------------------------------------------------------------------------
# Addresses of boards with a filter applied.


def board_url(scenario: str, text: str, states: Iterable[str] = ()) -> str:
    """Return the address of a board with a filter's text and the selected states."""
    query = QueryDict(mutable=True)
    query["scenario"], query["q"] = scenario, text
    query.setlist("state", list(states))
    return f"{reverse('board:board')}?{query.urlencode()}"
