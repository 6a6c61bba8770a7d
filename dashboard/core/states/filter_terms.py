"""The terms of a filter, and whether an asset matches them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dashboard.core.states.board_rows import LARGEST
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from wire.sink import BriefVote, votes_value

# ---- terms ---------------------------------------------------------------------------------------
# The terms of a filter, and whether an asset matches them. Times in Unix ms.
#
# Pure: nothing here reads a clock or a database. `watch.filters.query` does the same in SQL.

# The key of a term without a key: part of the name.
WORD = ""
# Keys whose value is yes or no.
FLAGS = frozenset(("unconfirmed", "muted"))
# Keys compared with a duration or a time.
TIMES = frozenset(("since", "until"))
# Keys, besides those of labels, whose value may be a prefix: `shop-*`.
PATTERNS = frozenset(("name", "agent", "override", "ack"))
# Keys for doubts and maintenance, and the values that each accepts.
WORDS = {
    "is": ("unhandled", "disputed", "unconfirmed"),
    "has": ("silent", "doubt"),
    "in": ("maintenance",),
}
# The language's own keys. Every other key is a label's.
KEYS = ("state", "since", "agent", "override", "until", "pending", "is", "has", "unconfirmed",
        "ack", "in", "muted", "name")  # fmt: skip

# Units of a duration, ms.
UNITS = (("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))

_BARE = re.compile(r"\w[\w./@+-]*")
_MEANT = frozenset(("yes", "no", "none"))


class Sight(NamedTuple):
    """What is known about an asset. votes: agent and state of each live vote; override: user and
    end; pending: the state that waits; ack: who acknowledged it; muted: whether a live vote is
    muted; doubts: the names of its doubts; works: whether it is in maintenance; alarming: whether
    somebody has to see to its state; details: what agents add, by key."""

    asset: str
    state: str
    since: int
    unconfirmed: bool = False
    pending: str | None = None
    override: tuple[str, int | None] | None = None
    votes: Sequence[Sequence[str]] = ()
    labels: Mapping[str, str] = {}
    ack: str | None = None
    muted: bool = False
    doubts: Collection[str] = ()
    works: bool = False
    alarming: bool = False
    details: Mapping[str, str | float] = {}

    @property
    def unhandled(self) -> bool:
        """Whether somebody has to see to it, nobody has it in hand, and no work explains it."""
        return self.alarming and self.ack is None and not self.works


# ---- what a value may be ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """This exact text, or with `prefix` any text that begins with it."""

    text: str
    prefix: bool = False

    def fits(self, text: str) -> bool:
        """Return whether `text` matches."""
        return text.startswith(self.text) if self.prefix else text == self.text

    def __str__(self) -> str:
        if self.prefix:
            return quoted(self.text) + "*" if self.text else "*"
        return quoted(self.text)


UNHANDLED = Text("unhandled")
"""The value of `is:unhandled`."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    on: bool

    def __str__(self) -> str:
        return "yes" if self.on else "no"


@dataclass(frozen=True, slots=True)
class DurationTerm:
    """Longer or shorter than a duration, ms."""

    more: bool
    ms: int

    def __str__(self) -> str:
        return ("<>"[self.more]) + duration(self.ms)


@dataclass(frozen=True, slots=True)
class TimeTerm:
    """After or before a time (Unix ms, whole seconds)."""

    after: bool
    at: int

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.at // 1000, UTC).replace(tzinfo=None)
        return f"{'<>'[self.after]}{when.isoformat()}Z"


@dataclass(frozen=True, slots=True)
class Never:
    """No end."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class VoteTerm:
    """A live vote of an agent, for any state or for this one."""

    agent: Text
    state: str | None = None

    def __str__(self) -> str:
        return f"{self.agent}={quoted(self.state)}" if self.state is not None else f"{self.agent}"


@dataclass(frozen=True, slots=True)
class AmountTerm:
    """A number above or below this one."""

    more: bool
    than: float

    def __str__(self) -> str:
        return f"{'<>'[self.more]}{self.than:.3f}".rstrip("0").rstrip(".")


Value = Text | Flag | DurationTerm | TimeTerm | Never | VoteTerm | AmountTerm


@dataclass(frozen=True, slots=True)
class Term:
    """Matches any of `values`; negated: none of them; detail: the key is a detail's."""

    key: str
    values: tuple[Value, ...]
    negated: bool = False
    detail: bool = False

    def matches(self, sight: Sight, now: int) -> bool:
        """Return whether the asset matches at `now` (Unix ms)."""
        look = _LOOKS.get(self.key) or (_detail if self.detail else _label)(self.key)
        return any(look(sight, value, now) for value in self.values) is not self.negated

    @property
    def timed(self) -> bool:
        """Return whether the result changes with time alone."""
        return any(isinstance(value, DurationTerm) for value in self.values)

    @property
    def own(self) -> bool:
        """Return whether the key is the language's own or a detail's, rather than a label's."""
        return self.detail or self.key in _LOOKS

    def __str__(self) -> str:
        key = f"{self.key}:" if self.key else ""
        return f"{'-' * self.negated}{key}{','.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class Filter:
    """All of these terms. Parsing its text gives an equal filter."""

    terms: tuple[Term, ...] = ()

    def matches(self, sight: Sight, now: int) -> bool:
        """Return whether the asset matches at `now` (Unix ms)."""
        return all(term.matches(sight, now) for term in self.terms)

    @property
    def timed(self) -> bool:
        """Return whether the result changes with time alone."""
        return any(term.timed for term in self.terms)

    def asks(self, key: str) -> bool:
        """Return whether a term has this key."""
        return any(term.key == key for term in self.terms)

    @property
    def of_marks(self) -> bool:
        """Return whether the result depends on acknowledgements or maintenance."""
        unhandled = any(UNHANDLED in term.values for term in self.terms if term.key == "is")
        return unhandled or self.asks("ack") or self.asks("in")

    @property
    def labels(self) -> tuple[str, ...]:
        """The label keys that the filter uses."""
        return tuple(dict.fromkeys(term.key for term in self.terms if not term.own))

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))


def doubt_term(doubt: str) -> Term:
    """Return the term that asks for assets with this doubt."""
    key = next(key for key, words in WORDS.items() if doubt in words)
    return Term(key, (Text(doubt),))


# ---- whether it is so ---------------------------------------------------------------------------

Look = Callable[[Sight, Any, int], bool]


def _word(sight: Sight, value: Text, _now: int) -> bool:
    return value.text.lower() in sight.asset.lower()


def _name(sight: Sight, value: Text, _now: int) -> bool:
    return value.fits(sight.asset)


def _state(sight: Sight, value: Text, _now: int) -> bool:
    return value.fits(sight.state)


def _since(sight: Sight, value: DurationTerm | TimeTerm, now: int) -> bool:
    if isinstance(value, DurationTerm):
        return now - sight.since > value.ms if value.more else now - sight.since < value.ms
    return sight.since > value.at if value.after else sight.since < value.at


def _until(sight: Sight, value: DurationTerm | TimeTerm | Never, now: int) -> bool:
    if sight.override is None:
        return False
    until = sight.override[1]
    if isinstance(value, Never) or until is None:
        return isinstance(value, Never) and until is None
    if isinstance(value, DurationTerm):
        return until - now > value.ms if value.more else until - now < value.ms
    return until > value.at if value.after else until < value.at


def _agent(sight: Sight, value: VoteTerm, _now: int) -> bool:
    return any(
        value.agent.fits(agent) and value.state in (None, state) for agent, state in sight.votes
    )


def _override(sight: Sight, value: Flag | Text, _now: int) -> bool:
    return _by(sight.override[0] if sight.override else None, value)


def _ack(sight: Sight, value: Flag | Text, _now: int) -> bool:
    return _by(sight.ack, value)


def _by(user: str | None, value: Flag | Text) -> bool:
    if isinstance(value, Flag):
        return value.on is (user is not None)
    return user is not None and value.fits(user)


def _pending(sight: Sight, value: Flag | Text, _now: int) -> bool:
    return _by(sight.pending, value)


def _unconfirmed(sight: Sight, value: Flag, _now: int) -> bool:
    return value.on is sight.unconfirmed


def _is(sight: Sight, value: Text, _now: int) -> bool:
    return sight.unhandled if value == UNHANDLED else value.text in sight.doubts


def _works(sight: Sight, _value: Text, _now: int) -> bool:
    return sight.works


def _muted(sight: Sight, value: Flag, _now: int) -> bool:
    return value.on is sight.muted


def _label(key: str) -> Look:
    def look(sight: Sight, value: Text, _now: int) -> bool:
        label = sight.labels.get(key)
        return label is not None and value.fits(label)

    return look


def _detail(key: str) -> Look:
    def look(sight: Sight, value: Text | AmountTerm, _now: int) -> bool:
        detail = sight.details.get(key)
        return detail is not None and _is_value(detail, value)

    return look


def _is_value(detail: str | float, value: Text | AmountTerm) -> bool:
    """Return whether a detail's value is what a term asks for."""
    if isinstance(value, AmountTerm):
        number = None if isinstance(detail, str) else detail
        return number is not None and (number > value.than) is value.more and number != value.than
    if isinstance(detail, str):
        return value.fits(detail)
    return not value.text if value.prefix else amount_of(value.text) == detail


_AMOUNT = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,3})?)([kMG]?)")
_THOUSANDS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def amount_of(text: str) -> float | None:
    """Return the number that a text such as `10000`, `2.5k` or `1M` is; None if it is none."""
    match = _AMOUNT.fullmatch(text)
    number = float(match[1]) * _THOUSANDS[match[2]] if match else None
    return number if number is not None and abs(number) < LARGEST else None


_LOOKS: dict[str, Look] = {
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


# ---- in words -----------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return the text as a value that matches it literally, in quotes if it needs them."""
    if _BARE.fullmatch(text) and text not in _MEANT:
        return text
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def duration(ms: int) -> str:
    """Return a duration in the syntax of filters: `1h30m`. ms: a multiple of 1000."""
    parts = []
    for unit, size in UNITS:
        many, ms = divmod(ms, size)
        if many:
            parts.append(f"{many}{unit}")
    return "".join(parts) or "0s"


# ---- live votes ----------------------------------------------------------------------------------
# The live votes of a state record, as far as filters need them.
#
# They are parsed here and not in the database, which would parse a record's JSON once per vote.

VOTE_KEYS = frozenset(("agent", "muted"))
"""Keys of terms that depend on votes alone."""


def live_votes(record: str | bytes) -> list[BriefVote]:
    """Return the live votes in a state record's JSON, including muted ones. Raises ValueError."""
    return [vote for vote in votes_value(record).votes if vote.silent is None]


def voting(ids: Collection[int], terms: Sequence[Term]) -> set[int]:
    """Return the ids of the rows whose votes match all of `terms`."""
    if not terms:
        return set(ids)
    rows = AssetState.objects.filter(pk__in=listed(ids)).values_list("pk", "record")
    return {
        pk
        for pk, record in rows
        if (sight := _sight(record)) and all(term.matches(sight, 0) for term in terms)
    }


def _sight(record: str) -> Sight:
    """Return an asset's votes as a Sight with nothing else set."""
    votes = live_votes(record)
    muted = any(vote.muted is not None for vote in votes)
    return Sight("", "", 0, votes=[(vote.agent, vote.state) for vote in votes], muted=muted)
