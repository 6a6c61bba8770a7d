"""Assets that look forgotten, and the forms of their page and of bulk."""

from __future__ import annotations

import codecs
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import QueryDict

from dashboard.core.common.tables import (
    Column,
    ListOrder,
    Page,
    PagePosition,
    Part,
    Table,
    page_of_parts,
)
from dashboard.core.common.times import DAY_MS, HOUR_MS
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError, parse
from dashboard.core.states.filter_terms import Filter, Term, Text
from dashboard.core.states.models import AssetState
from dashboard.core.states.rows import quarter_of
from dashboard.watch.bulk import review
from dashboard.watch.bulk.models import Run
from dashboard.watch.bulk.review import MOST, TargetAsset, visible
from dashboard.watch.commands.forms import CHOOSE, TASK, EndForm, ScheduleFields, expected_state
from dashboard.watch.filters.query import rows as filtered
from dashboard.watch.filters.search import by_name
from domain.names import MAX_STATE, USER_PREFIX
from domain.scenario import Scenario
from wire.sink import Votes, votes_value
from wire.source import MAX_REASON

# ---- stale assets --------------------------------------------------------------------------------
# Assets that look forgotten: no report for long, no live vote, an override that is old.
#
# Each reason is a range of an index, so that it is found among a million assets without reading
# them; an index of times is of quarters of an hour, and so is the order of the list. What a row
# shows: its newest live vote is renewed by reports that come 30 s or more after the asset's last
# record, so its time is at most so much too old. Where no agent has a live vote any more, the last
# report is that of the newest silent vote; where there is none either, it is older than the asset's
# last record by a vote's lifetime or more, unless its agent left.

Reason = Literal["silent", "voteless", "pinned"]
REASONS: dict[Reason, str] = {
    "silent": "No report",
    "voteless": "No live vote",
    "pinned": "Pinned",
}
UNITS = {"hours": HOUR_MS, "days": DAY_MS}
MOST_COUNTED = 100_000
"""Of more assets it is only said that there are at least so many."""
PAGE = 100
"""Assets of one page."""
MAX_AGE = 10_000
"""Most hours or days that are asked for."""
STALE_TABLE = Table(
    "stale", "Asset", "State", Column.time("Since"), Column.time("Last report"),
    Column.number("Live votes"), Column.time("Pinned"),
)  # fmt: skip


class AssetCount(NamedTuple):
    """The number of assets that a reason finds; least: there are more."""

    n: int
    least: bool = False


@dataclass(frozen=True, slots=True)
class StaleAsset:
    """An asset of the list.

    reported_at: of its newest live vote; last_known: where there is none, its last report was at
    this time at the latest; all Unix ms; agents: how many votes of theirs are live.
    """

    asset: str
    state: str
    reported_at: int | None
    last_known: int
    since: int
    agents: int
    record: Votes


def stale_ranges(scenario: Scenario, reason: Reason, age: int, now: int) -> list[Part[AssetState]]:
    """Return what a reason finds, as ranges of an index; age: in ms."""
    rows, before = visible(scenario.name), now - age
    voteless = rows.filter(voteless_in__isnull=False)
    if reason == "voteless":
        return [Part(voteless, _by("voteless_in"))]
    if reason == "pinned":
        every = AssetState.objects.filter(scenario=scenario.name, overridden=True)
        pinned = every.filter(override_since__lt=before)
        return [Part(pinned, _by("override_since"))]
    expired = before + (scenario.lifetime or 0)
    long_gone = rows.filter(voteless_in__lte=quarter_of(expired), changed_at__lt=expired)
    unreported = rows.filter(reported_in__lte=quarter_of(before), reported_at__lt=before)
    return [Part(long_gone, _by("voteless_in")), Part(unreported, _by("reported_in"))]


def _by(column: str) -> ListOrder:
    return ListOrder(column, down=False)


def count_stale(scenario: Scenario, reason: Reason, age: int, now: int) -> AssetCount:
    """Return how many assets a reason finds, counted up to a bound."""
    n = 0
    for each in stale_ranges(scenario, reason, age, now):
        n += each.rows.order_by().values("pk")[: MOST_COUNTED + 1 - n].count()
    return AssetCount(min(n, MOST_COUNTED), n > MOST_COUNTED)


def stale_page(
    scenario: Scenario, reason: Reason, age: int, now: int, after: PagePosition | None = None
) -> Page[StaleAsset]:
    """Return a page of what a reason finds, the oldest first."""
    page = page_of_parts(stale_ranges(scenario, reason, age, now), PAGE, after)
    return Page([_line(scenario, row) for row in page.rows], page.following)


def _line(scenario: Scenario, row: AssetState) -> StaleAsset:
    record = votes_value(row.record)
    agents = [v for v in record.votes if not v.agent.startswith(USER_PREFIX)]
    silent = [v.time for v in agents if v.silent is not None]
    expired = row.changed_at - (scenario.lifetime or 0)
    return StaleAsset(
        asset=row.asset,
        state=row.state,
        reported_at=row.reported_at,
        last_known=max(silent, default=expired),
        since=row.since,
        agents=len(agents) - len(silent),
        record=record,
    )


# ---- bulk ----------------------------------------------------------------------------------------
# Forms of the pages of stale assets and of bulk.

KINDS = [
    ("set", "Set: pin a state"),
    ("release", "Release: end a pin, and withdraw my own vote"),
    ("vote", "Vote: count me as one more agent"),
    ("schedule", "Schedule: a task for each"),
    ("purge", "Purge: take off the board"),
]
FROM = [
    ("filter", "By a filter"),
    ("names", "By their names"),
    ("stale", "Not reporting"),
    ("all", "All of them"),
]
MAX_FILE = 32 * 1_048_576
"""Largest list of names, bytes: 100,000 of the longest in one byte a character fit."""
MAX_STATES = 50
FILE_AGAIN = "Choose the file again: the browser does not keep it."


MOST_NAMED = 900
"""Most names in one form: it has a thousand fields at the most."""


def names_of_filter(
    scenario: Scenario, text: str, states: list[str], now: int
) -> tuple[list[str], bool]:
    """Return the first names that a filter finds in these states (none: any), by name.

    Also returns whether there may be others. Raises FilterError.
    """
    criteria = parse(text, scenario, now)
    if states:
        chosen = Term("state", tuple(Text(state) for state in states[:MAX_STATES]))
        criteria = Filter((*criteria.terms, chosen))
    names: list[str] = []
    after: str | None = ""
    while after is not None and len(names) < MOST_NAMED:
        portion, after = by_name(
            scenario, criteria, now, after=after, limit=MOST_NAMED - len(names)
        )
        names += (name for name, _ in portion)
    return names, after is not None


class BulkSelection(NamedTuple):
    """The choice of a form: in words, the assets, how many more match, names given again."""

    words: str
    assets: Iterator[list[TargetAsset]]
    beyond: int = 0
    repeated: int = 0


class StaleForm(forms.Form):
    """A form of the age in the address of the list of stale assets."""

    why = forms.ChoiceField(required=False, choices=list(REASONS.items()), label="Why")
    n = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_AGE,
        label="Longer than",
        widget=forms.NumberInput(attrs={"placeholder": "7"}),
    )
    unit = forms.ChoiceField(
        required=False, choices=[(unit, unit) for unit in ("days", "hours")], label="Unit"
    )

    @property
    def age(self) -> int:
        """Return the age of a valid form, in ms."""
        data = self.cleaned_data
        return int(data["n"] or 7) * UNITS[data["unit"] or "days"]

    @property
    def reason(self) -> Reason:
        """Return which of the reasons a valid form names."""
        return self.cleaned_data["why"] or "silent"

    def words(self) -> str:
        """Return the reason in words."""
        if self.reason == "voteless":
            return "no live vote"
        return f"{'no report for' if self.reason == 'silent' else 'pinned for over'} {self.long()}"

    def long(self) -> str:
        """Return the age in words: `7 days`."""
        n, unit = self.cleaned_data["n"] or 7, self.cleaned_data["unit"] or "days"
        return f"{n} {unit.removesuffix('s') if n == 1 else unit}"


class BulkForm(ScheduleFields, EndForm):
    """A form of one command for many assets of a scenario: which, what, and why.

    `state`, repeated, and `q` are the board's own filter; `to` is the state of a command.
    """

    id = forms.UUIDField(widget=forms.HiddenInput)
    by = forms.ChoiceField(choices=FROM, widget=forms.RadioSelect, label="Which")
    q = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        strip=False,
        label="Filter",
        help_text="as on the board",
    )
    names = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false", "autocomplete": "off"}),
        label="Names, one per line",
    )
    file = forms.FileField(
        required=False, allow_empty_file=True, label="Or as a file, for long lists"
    )
    kind = forms.ChoiceField(choices=KINDS, label="Command")
    to = forms.CharField(required=False, max_length=MAX_STATE, label="State")
    reason = forms.CharField(max_length=MAX_REASON, label="Reason")
    unchanged = forms.BooleanField(
        required=False, initial=True, label="Only if the state is still the one in the review"
    )

    def __init__(
        self,
        scenario: Scenario,
        data: QueryDict | None = None,
        files: Any = None,
        initial: Mapping[str, Any] | None = None,
        states: list[str] | None = None,
    ) -> None:
        """Fill the form; `states`: those of the filter that it begins with."""
        begun = {"id": uuid.uuid4(), "by": "filter", **(initial or {})}
        super().__init__(_with_names(data), files, initial=begun)
        self.scenario = scenario
        self.states = (data.getlist("state") if data else list(states or []))[:MAX_STATES]
        self.stale = StaleForm(data or dict(initial or {}))
        self.fields["q"].widget.attrs |= {"type": "search", "spellcheck": "false"}
        self.fields["to"].widget.attrs |= {"list": "states-known", "autocomplete": "off"}
        if not scenario.open_vocabulary:
            choices = [CHOOSE, *((spec.name, spec.label) for spec in scenario.states)]
            self.fields["to"].widget = forms.Select(choices=choices)
        self.offer_conditions(scenario)

    def what(self) -> list[forms.BoundField]:
        """Return the fields of the command itself."""
        do, *when = TASK
        names = ("kind", do, "to", "end", "until_at", *when, "reason")
        return [self[name] for name in names]

    def clean(self) -> dict[str, Any]:
        """Compare the parts with each other."""
        data = super().clean()
        self._clean_to(data)
        if data.get("by") == "names":
            self._clean_names(data)
        elif data.get("by") == "stale" and not self.stale.is_valid():
            self.add_error("by", _stale_faults(self.stale))
        elif data.get("by") == "filter":
            self._clean_filter(data)
        self._clean_times(data)
        return data

    def _clean_times(self, data: dict[str, Any]) -> None:
        """Check the task of a schedule, and the end of a pin; forget what other commands have no
        use for."""
        if data.get("kind") == "schedule":
            self.check_schedule(self.scenario, data, "to")
        else:
            self._forgive(TASK)
        if data.get("kind") != "set":
            data["until"] = data.get("last")
            self._forgive(("end", "until_at"))

    def _forgive(self, names: Iterable[str]) -> None:
        """Drop the errors of fields that the command does not use."""
        for name in names:
            self.errors.pop(name, None)

    def _clean_to(self, data: dict[str, Any]) -> None:
        sets = data.get("kind") == "schedule" and data.get("do") == "set"
        if data.get("kind") not in ("set", "vote") and not sets:
            data["to"] = ""
        elif not self.scenario.knows(data.get("to", "")):
            self.add_error("to", expected_state(self.scenario, data.get("to", "")))

    def _clean_filter(self, data: dict[str, Any]) -> None:
        if not self.states and not data.get("q", "").strip():
            words = f"Expected a filter, or states below. For all: {dict(FROM)['all']}."
            self.add_error("q", words)
        try:
            parse(data.get("q", ""), self.scenario, 0)
        except FilterError as error:
            self.add_error("q", f"{error} (character {error.start + 1})")

    def _clean_names(self, data: dict[str, Any]) -> None:
        lines = data.get("names", "").split("\n")
        file = data.get("file")
        if file:
            try:
                lines += _lines(file)
            except ValueError as error:
                self.add_error("file", str(error))
                return
        names = review.names_of(lines, self.scenario.name)
        if not names.names:
            self.add_error("names", "Expected names, one in a line, here or in a file.")
        elif len(names.names) > MOST:
            got = f"{len(names.names):,}"
            self.add_error("names", f"Expected at most {MOST:,} names, got {got}.")
        data["asset_names"] = names

    def chosen(self, now: int) -> BulkSelection:
        """Return which assets a valid form chooses at `now` (ms)."""
        data, name = self.cleaned_data, self.scenario.name
        if data["by"] == "names":
            names, repeated = data["asset_names"]
            words = f"{len(names):,} by name"
            return BulkSelection(words, review.by_names(name, names), repeated=repeated)
        if data["by"] == "stale":
            parts = stale_ranges(self.scenario, self.stale.reason, self.stale.age, now)
            return _selection(self.stale.words(), *(part.order.of(part.rows) for part in parts))
        if data["by"] == "all":
            return _selection("all", visible(name).order_by("pk"))
        return _selection(self._filter_words(), self._filtered(now))

    def _filtered(self, now: int) -> QuerySet[AssetState]:
        criteria = parse(self.cleaned_data["q"], self.scenario, now)
        rows = filtered(criteria, self.scenario, now)
        return (rows.filter(state__in=self.states) if self.states else rows).order_by("pk")

    def _filter_words(self) -> str:
        states = ", ".join(self.scenario.spec(state).label for state in self.states)
        parts = [f"in {states}" if states else "", self.cleaned_data["q"].strip()]
        return "; ".join(part for part in parts if part)[:400]

    def run(self, user: Any, words: str, now: int) -> Run:
        """Return the run that a valid form requests, not saved yet."""
        data = self.cleaned_data
        return Run(
            id=data["id"],
            scenario=self.scenario.name,
            kind=data["kind"],
            state=data["to"],
            until=data["until"],
            reason=data["reason"],
            schedule=asdict(self.schedule()) if data["kind"] == "schedule" else {},
            unchanged=data["unchanged"],
            chosen=words,
            user=user,
            username=user.get_username(),
            created_at=now,
        )


def _selection(words: str, *rows: QuerySet[AssetState]) -> BulkSelection:
    """Return the choice of these rows, in words."""
    return BulkSelection(words, review.by_rows(*rows), review.beyond(*rows))


def _with_names(data: QueryDict | None) -> QueryDict | None:
    """Return the data with what was chosen on another page, `asset` repeated, among the names."""
    if data is None or not data.getlist("asset") or data.get("by") == "stale":
        return data
    data = data.copy()
    data["names"] = "\n".join([*data.getlist("asset"), data.get("names", "")]).rstrip("\n")
    data["by"] = "names"
    data.setlist("asset", [])
    return data


def _lines(file: UploadedFile[Any]) -> list[str]:
    """Return the lines of a list. Raises ValueError for what is no text, or too long."""
    if (file.size or 0) > MAX_FILE:
        raise ValueError(f"Expected at most {MAX_FILE // 1_048_576} MiB. {FILE_AGAIN}")
    try:
        text: str = file.read().removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected UTF-8; byte {error.start} is not. {FILE_AGAIN}") from error
    return text.split("\n")


def _stale_faults(form: StaleForm) -> str:
    return "; ".join(f"{name}: {faults[0]}" for name, faults in form.errors.items())
