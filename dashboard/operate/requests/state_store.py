"""Readings of the state store: requested, and compared with the database. Times in Unix ms."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from django import forms
from django.db.models import Case, F, IntegerField, QuerySet, Value, When
from django.utils.http import urlencode

from dashboard.core.common.forms import FilterForm, scenario_choices
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.operate.requests.models import Reading, StoredRow
from domain.names import MAX_NAME, name_ok
from domain.overlay import LIVE_KEYS, overlay_text
from domain.scenario import Scenario
from domain.version import Version
from wire.batch_query import ReadState, StoredAsset

# ---- comparison ----------------------------------------------------------------------------------
# Comparison of the database with the state store's record of an asset. Times in ms.
#
# Both come from the same fold, so they must agree unless one is behind the other.

EQUAL, BEHIND, BOARD_BEHIND, DIFFERS = "equal", "behind", "board-behind", "differs"
# By verdict: its word, icon, colour and meaning; most important first.
VERDICTS: dict[str, tuple[str, str, str, str]] = {
    DIFFERS: (
        "differs",
        "warning",
        "red",
        "neither is behind, and they are different: run manage.py reconcile",
    ),
    BOARD_BEHIND: (
        "board behind",
        "clock",
        "orange",
        "the store had emitted more than the database had stored: is the materialiser behind?",
    ),
    BEHIND: (
        "store behind",
        "clock",
        "grey",
        "the board has changed since this batch was committed, as is usual while the job runs",
    ),
    EQUAL: ("equal", "check", "green", "state, doubts, votes, override and pending are the same"),
}


class Board(NamedTuple):
    """The database's row for an asset. record: from the states topic, as JSON; at: its cause's."""

    version: str
    at: int
    purged: bool
    record: str


class RecordComparison(NamedTuple):
    """A verdict, and the fields that differ."""

    verdict: str
    fields: tuple[str, ...] = ()


def judge(stored: StoredAsset, epoch: int, board: Board | None) -> RecordComparison:
    """Compare an asset in the store with the database's row and return the verdict."""
    if board is None:
        return RecordComparison(EQUAL if stored.state is None else BOARD_BEHIND)
    version = Version.parse(board.version)
    if version.epoch != epoch:
        return RecordComparison(BEHIND if version.epoch > epoch else BOARD_BEHIND)
    if (version.offset, version.step) > (stored.offset, stored.step):
        return RecordComparison(BEHIND)
    if stored.state is None:
        return RecordComparison(
            EQUAL if board.purged else DIFFERS, () if board.purged else ("state",)
        )
    if stored.changed > (version.offset, version.step) or board.at < stored.emitted_at:
        return RecordComparison(BOARD_BEHIND)
    fields = _differing(stored, board)
    return RecordComparison(DIFFERS, fields) if fields else RecordComparison(EQUAL)


def judge_missing(epoch: int, reached: int, board: Board) -> RecordComparison:
    """Return the verdict on an asset that the board shows but the store does not have.

    reached: its bucket's offset.
    """
    version = Version.parse(board.version)
    behind = (version.epoch, version.offset) > (epoch, reached)
    return RecordComparison(BEHIND) if behind else RecordComparison(DIFFERS, ("state",))


def _differing(stored: StoredAsset, board: Board) -> tuple[str, ...]:
    """Return the fields whose values differ.

    A row without a state is a purged one.
    """
    if board.purged:
        return ("state",)
    record: dict[str, Any] = msgspec.json.decode(board.record)
    plain: dict[str, Any] = msgspec.to_builtins(stored)
    names = ("state", "previous", "since", "unconfirmed", "disputed", "pending", "override")
    fields = [name for name in names if plain[name] != record.get(name)]
    is_other = plain["unconfirmed_reason"] != record.get("unconfirmed_reason")
    if is_other and "unconfirmed" not in fields:
        fields.append("unconfirmed")
    if _votes(plain["votes"]) != _votes(record["votes"]):
        fields.append("votes")
    if _doubts(plain["doubts"]) != _doubts(record.get("doubts", [])):
        fields.append("doubts")
    return tuple(fields)


def _votes(votes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the part of the votes reported at once; ages may be reported up to 30 s later."""
    return sorted(
        (
            vote["agent"],
            vote["state"],
            vote["weight"],
            vote.get("silent") or 0,
            vote.get("doubt") or "",
            vote.get("detail_fault") or "",
            flapping(vote),
        )
        for vote in votes
    )


def flapping(vote: dict[str, Any]) -> str:
    """Return the state that a vote has flapped to, from a state record or the store; else empty.

    The store also has votes that have turned only once.
    """
    flap = vote.get("flapping") or vote.get("flap") or {}
    return str(flap.get("state", "")) if flap.get("again", True) else ""


def _doubts(doubts: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the part of the doubts that is reported at once."""
    return sorted(
        (each["agent"], each["reason"], each["said"] or "", each["weight"]) for each in doubts
    )


# ---- record lines --------------------------------------------------------------------------------
# An asset in the store next to the database's record, line by line. Times in Unix ms.

# Most votes, and most doubts, listed individually.
MOST_LISTED = 20


# Fields that both sides have.
FIELDS = (
    "state", "previous", "since", "unconfirmed", "disputed", "votes", "doubts", "pending",
    "override",
)  # fmt: skip


class FieldComparison(NamedTuple):
    """A field as each side has it. differs: whether the two disagree."""

    field: str
    store: str
    board: str
    differs: bool


def lines(
    stored: StoredAsset | None, board: dict[str, Any] | None, differing: str
) -> list[FieldComparison]:
    """Return both sides, field by field; the other side is empty for fields only the store has."""
    store = _as_text(msgspec.to_builtins(stored)) if stored is not None else {}
    other = _as_text(board) if board is not None and "state" in board else {}
    fields = differing.split(", ")
    shared = [
        FieldComparison(name, store.get(name, "–"), other.get(name, "–"), name in fields)
        for name in FIELDS
    ]
    return [*shared, *_own(stored)]


def _own(stored: StoredAsset | None) -> list[FieldComparison]:
    if stored is None:
        return []
    timers = [
        f"{type_}{f' of {agent}' if agent else ''} {_time(at)}"
        for at, type_, agent in stored.timers
    ]
    texts = {
        "tallied": stored.tallied or "nothing",
        "last event": f"offset {stored.offset}, step {stored.step}",
        "last change": f"offset {stored.changed[0]}, step {stored.changed[1]}",
        "timers": "; ".join(timers) or "none",
        "answers remembered": str(stored.answers),
    }
    if stored.waits:
        waits = (f"{state} since {_time(since)}" for state, since in stored.waits)
        texts["waits"] = "; ".join(waits)
    if stored.purged_at is not None:
        texts["purged"] = _time(stored.purged_at)
    if stored.forget_at is not None:
        texts["forgotten"] = _time(stored.forget_at)
    return [FieldComparison(name, text, "", False) for name, text in texts.items()]


def _as_text(record: dict[str, Any]) -> dict[str, str]:
    pending, pin, doubts = record["pending"], record["override"], record.get("doubts") or []
    return {
        "state": record["state"] or "purged",
        "previous": record["previous"] or "–",
        "since": _time(record["since"]) if record["state"] else "–",
        "unconfirmed": _unconfirmed(record),
        "disputed": record.get("disputed") or "no",
        "votes": _texts([_vote(vote) for vote in record["votes"][:MOST_LISTED]], record["votes"]),
        "doubts": _texts([_doubt(each) for each in doubts[:MOST_LISTED]], doubts),
        "pending": f"{pending['state']} at {_time(pending['due'])}" if pending else "none",
        "override": _override(pin) if pin else "none",
    }


def _unconfirmed(record: dict[str, Any]) -> str:
    if not record["unconfirmed"]:
        return "no"
    reason = record.get("unconfirmed_reason")
    return f"yes: {reason}" if reason else "yes"


def _vote(vote: dict[str, Any]) -> str:
    silent = vote.get("silent")
    since = f", silent since {_time(silent)}" if silent is not None else ""
    doubt = f", in doubt: {vote['doubt']}" if vote.get("doubt") else ""
    fault = f", detail left out: {vote['detail_fault']}" if vote.get("detail_fault") else ""
    to = flapping(vote)
    flaps = f", flapping: {to}" if to else ""
    return f"{vote['agent']}: {vote['state']} (weight {vote['weight']}{since}{doubt}{flaps}{fault})"


def _doubt(doubt: dict[str, Any]) -> str:
    said = doubt["said"] or "nothing readable"
    return f"{doubt['agent']}: {doubt['reason']}, said {said} (weight {doubt['weight']})"


def _texts(texts: list[str], every: list[Any]) -> str:
    more = len(every) - len(texts)
    return ("; ".join(texts) + (f"; and {more} more" if more > 0 else "")) or "none"


def _override(pin: dict[str, Any]) -> str:
    end = f"until {_time(pin['until'])}" if pin["until"] is not None else "without an end"
    return f"{pin['state']} by {pin['user']}, {end}"


def _time(at: int) -> str:
    try:
        when = datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(at)
    return when.strftime("%Y-%m-%d %H:%M:%S.") + f"{at % 1000:03d} UTC"


# ---- state store ---------------------------------------------------------------------------------
# Forms of the state store's page: what to read, and which rows to show.


class ReadForm(forms.Form):
    """The form that chooses a scenario and its one asset, one partition, or everything."""

    scenario = forms.ChoiceField(choices=scenario_choices)
    partition = forms.IntegerField(required=False, min_value=0, max_value=999)
    asset = forms.CharField(required=False, max_length=MAX_NAME, strip=False)
    after = forms.CharField(
        required=False, max_length=MAX_NAME, strip=False, label="Names after this one"
    )

    def __init__(self, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, initial=initial, auto_id="read-%s")
        self.fields["partition"].widget.attrs["placeholder"] = "all"
        for name, hint in (
            ("asset", "its whole name, or empty for all"),
            ("after", "from the first"),
        ):
            self.fields[name].widget.attrs |= {
                "placeholder": hint,
                "autocomplete": "off",
                "spellcheck": "false",
            }

    def clean_asset(self) -> str:
        """Return the asset's name, or an empty string. Raises ValidationError."""
        asset: str = self.cleaned_data["asset"]
        if asset and not name_ok(asset):
            raise forms.ValidationError("Expected a name without control characters.")
        return asset

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data.

        Adds an error for a partition that the scenario does not have, or one given along with an
        asset, whose name already determines its partition.
        """
        data = super().clean() or self.cleaned_data
        scenario: Scenario | None = scenarios().get(data.get("scenario", ""))
        partition = data.get("partition")
        if scenario is not None and partition is not None and partition >= scenario.partitions:
            self.add_error("partition", f"Expected 0 to {scenario.partitions - 1}, or nothing.")
        if data.get("asset") and partition is not None:
            self.add_error("partition", "Leave it empty: the asset's name says its partition.")
        if "\0" in data.get("after", ""):
            self.add_error("after", "Expected a name without control characters.")
        return data

    def read_request(self) -> ReadState:
        """Return the reading to request. The form must be valid."""
        data = self.cleaned_data
        return ReadState(data["scenario"], data["partition"], data["asset"] or None, data["after"])


class ShowForm(FilterForm):
    """The form that selects, sorts and pages the rows of a reading: by verdict and name."""

    verdict = forms.ChoiceField(required=False, label="Status")
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Name holds")
    sort = forms.ChoiceField(required=False, widget=forms.HiddenInput)
    page = forms.IntegerField(
        required=False, min_value=1, max_value=10_000, widget=forms.HiddenInput
    )

    def __init__(self, data: Any) -> None:
        super().__init__(data, auto_id="show-%s")
        choices = [("", "any"), *((name, words[0]) for name, words in VERDICTS.items())]
        self.offer("verdict", choices)
        self.offer("sort", [(way + name, name) for name in ORDERS for way in ("", "-")])
        self.fields["verdict"].widget = forms.Select(choices=choices)
        self.fields["q"].widget.attrs["type"] = "search"


ORDERS = {
    "standing": "rank",
    "asset": "asset",
    "partition": "partition",
    "state": "state",
    "since": "since",
    "votes": "votes",
    "due": "due",
}
"""The field to order by, for each column."""


# ---- state store ---------------------------------------------------------------------------------
# Readings as the page lists them. Times in Unix ms.

PAGE = 100
"""Rows per page."""
ROWS = Table(
    "", Column.text("Status", name="standing"), "Asset", Column.number("Partition"), "State",
    "Since", Column.number("Votes"), "Due", Column("On the board"), Column("Side by side"),
    css="stored",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadingPage:
    """The requested part of a reading."""

    verdict: str = ""
    q: str = ""
    sort: str = "standing"
    page: int = 1

    def query(self, **changes: Any) -> str:
        """Return this selection as a query string, with changes."""
        names = ("verdict", "q", "sort", "page")
        values = {name: getattr(self, name) for name in names} | changes
        plain = {"verdict": "", "q": "", "sort": "standing", "page": 1}
        return "?" + urlencode({name: v for name, v in values.items() if v != plain[name]})

    @property
    def table(self) -> Table:
        """Return the table of rows, whose headings sort by their columns."""
        return ROWS.ordered(self.sort, lambda order: self.query(sort=order, page=1))


def rows_of(reading: Reading, shown: ReadingPage) -> QuerySet[StoredRow]:
    """Return the requested rows in the requested order."""
    ranks = [When(verdict=name, then=Value(at)) for at, name in enumerate(VERDICTS)]
    rows = reading.rows.annotate(
        rank=Case(*ranks, default=Value(len(ranks)), output_field=IntegerField())
    )
    if shown.verdict:
        rows = rows.filter(verdict=shown.verdict)
    if shown.q:
        rows = rows.filter(asset__contains=shown.q)
    field = F(ORDERS[shown.sort.removeprefix("-")])
    order = field.desc(nulls_last=True) if shown.sort[0] == "-" else field.asc(nulls_last=True)
    return rows.order_by(order, "asset")


def counts(reading: Reading, shown: ReadingPage) -> list[dict[str, Any]]:
    """Return the number of rows for each verdict, with what the page shows for it."""
    counted = reading.verdict_counts()
    return [
        {
            "name": name,
            "word": word,
            "icon": icon,
            "colour": colour,
            "hint": hint,
            "n": counted.get(name, 0),
            "query": shown.query(verdict=name, page=1),
        }
        for name, (word, icon, colour, hint) in VERDICTS.items()
    ]


def buckets_of(reading: Reading) -> list[dict[str, Any]]:
    """Return the buckets that were read, with their rules as text."""
    buckets = reading.decoded_buckets
    return [{"is": bucket, "rule": overlay_text(_live(bucket.rule))} for bucket in buckets]


def _live(rule: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario's rule keys that are set."""
    return {name: rule[name] for name in LIVE_KEYS if rule.get(name) not in (None, {})}
