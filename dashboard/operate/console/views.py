"""The pages of partitions, and of topics as tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import OPERATORS, is_fragment, role_required, takes
from dashboard.core.common.forms import FilterForm, scenario_choices
from dashboard.core.common.kafka import gateway
from dashboard.core.common.lists import ListPage
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Pager, Table
from dashboard.core.common.times import now_ms
from dashboard.core.job.freshness import BoardProblem, lasting_problem
from dashboard.core.job.status import problems
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.models import AssetState
from dashboard.core.states.stores import record_of
from dashboard.operate.console.partitions import (
    PARTITIONS,
    SHARED_MS,
    SINKS,
    Partition,
    PartitionEdges,
    counted,
    logs,
    rows,
    sinks,
    totals,
)
from dashboard.operate.console.topic_copies import copies, is_stale, why_not
from dashboard.operate.console.topic_table import (
    MAX_PATTERN,
    CopyState,
    TopicRow,
    TopicRowFilter,
    ViewTable,
)
from dashboard.operate.console.topics import (
    MAX_EXPRESSION,
    BadExpression,
    TopicView,
    expression,
    printed,
)
from domain.names import CONTROL, MAX_NAME
from domain.scenario import Scenario
from domain.version import Version
from wire.partitioner import murmur2, partition_of

# ---- asset lookup --------------------------------------------------------------------------------
# Where an asset is: from its name by its hash to a partition, its bucket and its row.


class KeyForm(forms.Form):
    """Which asset is looked for."""

    use_required_attribute = False
    scenario = forms.ChoiceField(choices=scenario_choices)
    asset = forms.CharField(
        label="Where is an asset?",
        strip=False,
        widget=forms.TextInput(
            attrs={
                "type": "search",
                "placeholder": "its whole name",
                "autocomplete": "off",
                "spellcheck": "false",
            }
        ),
        error_messages={"required": "Expected a name: 1 to 255 characters."},
    )

    def __init__(self, data: Any = None, scenario: str = "") -> None:
        """Prepare the form. scenario: the one that is chosen at first."""
        super().__init__(data, auto_id="key-%s", initial={"scenario": scenario})
        wrong = f"Expected one of: {', '.join(scenarios())}."
        self.fields["scenario"].error_messages |= {"required": wrong, "invalid_choice": wrong}

    def clean_asset(self) -> str:
        """Return the name. Raises ValidationError where the wire does not allow it."""
        name: str = self.cleaned_data["asset"]
        if len(name) > MAX_NAME:
            raise forms.ValidationError(
                f"Expected at most {MAX_NAME} characters, got {len(name):,}."
            )
        if CONTROL.search(name):
            raise forms.ValidationError("Expected a name without control characters.")
        return name


@dataclass(frozen=True, slots=True)
class BoardAsset:
    """What the board has of an asset. state: None once it is purged; changed_at: Unix ms.

    partition: of the record that its version rests on.
    """

    state: str | None
    version: Version
    changed_at: int
    partition: int


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """An asset's way: the bytes of its name, their hash, the partition, and what is there of it."""

    scenario: Scenario
    asset: str
    size: int
    hash: int
    place: Partition
    row: BoardAsset | None

    @property
    def hash_hex(self) -> str:
        """The hash as its 32 bits."""
        return f"0x{self.hash:08x}"

    @property
    def positive(self) -> int:
        """The hash without its sign, as the producer takes it."""
        return self.hash & 0x7FFFFFFF

    @property
    def url(self) -> str:
        """Its page."""
        return asset_path(self.scenario.name, self.asset)

    @property
    def strayed(self) -> bool:
        """Whether its row rests on another partition than the name leads to."""
        return self.row is not None and self.row.partition != self.place.partition


def look_up(scenario: Scenario, asset: str, among: Iterable[Partition]) -> Whereabouts:
    """Follow a name as a producer does. among: every partition as it is now."""
    key = asset.encode()
    at = partition_of(key, scenario.partitions)
    here = (scenario.name, at)
    place = next(row for row in among if (row.scenario, row.partition) == here)
    return Whereabouts(scenario, asset, len(key), murmur2(key), place, _row(scenario.name, asset))


def _row(scenario: str, asset: str) -> BoardAsset | None:
    """Return the newest of the asset, as the live view or else the database has it, or None."""
    record = record_of(scenario, asset)
    if record is not None:
        cause = record.cause
        version = Version.parse(record.version)
        return BoardAsset(record.state, version, cause.time, cause.partition)
    gone = AssetState.objects.filter(scenario=scenario, asset=asset, purged=True).first()
    if gone is None:
        return None
    at = gone.changed_at if gone.purged_at is None else gone.purged_at
    return BoardAsset(None, Version.parse(gone.version), at, gone.partition)


# ---- partition views -----------------------------------------------------------------------------
# The console's page of partitions, with the look-up of an asset's name.


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes(*KeyForm.base_fields)
def partitions(request: HttpRequest) -> HttpResponse:
    """List every partition; for a script, the part of the page that refreshes itself."""
    log_edges = logs(gateway()).edges(SHARED_MS)
    now = now_ms()
    partition_rows = rows(log_edges, now)
    key = _key(request, partition_rows)
    context = key | {
        "now": now,
        "problems": _problems(log_edges, now),
        "partitions": PARTITIONS,
        "rows": partition_rows,
        "sink_table": SINKS,
        "sinks": sinks(log_edges),
        "totals": totals(scenarios().values(), partition_rows),
        "signs": counted(partition_rows),
    }
    name = "_partitions" if is_fragment(request) else "partitions"
    status = 422 if key["form"].errors else 200
    return render(request, f"console/{name}.html", context, status=status)


def _key(request: HttpRequest, among: list[Partition]) -> dict[str, Any]:
    """Return the look-up's form, what it found, and the address to ask for again.

    What is not a valid name is not asked for again.
    """
    asked = request.GET if "asset" in request.GET else None
    form = KeyForm(asked, request.GET.get("scenario", ""))
    context = {"form": form}
    if not form.is_valid():
        return context | {"way": None, "address": request.path}
    data = form.cleaned_data
    way = look_up(scenarios()[data["scenario"]], data["asset"], among)
    return context | {"way": way, "address": request.get_full_path()}


def _problems(log_edges: PartitionEdges, now: int) -> list[BoardProblem]:
    """Return what keeps these figures from being those of now, Kafka first."""
    current = problems(now)
    return [_away(log_edges), *current] if log_edges.fault else current


def _away(log_edges: PartitionEdges) -> BoardProblem:
    todo = "check that the broker runs" if not log_edges.refused else log_edges.fault
    known = "as of then" if log_edges.at is not None else "not known"
    what = "Kafka refuses this server" if log_edges.refused else "Kafka does not answer"
    return lasting_problem(
        "kafka", what, log_edges.at, f"Ends of logs and lags are {known}: {todo}.", links=()
    )


# ---- topic views ---------------------------------------------------------------------------------
# The filter of a view's rows.


class RowFilterForm(FilterForm):
    """The filter in the address."""

    key = forms.CharField(
        required=False,
        max_length=MAX_PATTERN,
        label="Key",
        strip=False,
        widget=forms.TextInput(attrs={"placeholder": "name-1*", "autocomplete": "off"}),
        help_text="A whole key; * stands for anything, ? for one character.",
    )
    # A field `matches` would hide the form's own method in the browser.
    expression = forms.CharField(
        required=False,
        max_length=MAX_EXPRESSION,
        label="Regular expression",
        strip=False,
        widget=forms.TextInput(attrs={"placeholder": "name-(1|2)[0-9]+", "autocomplete": "off"}),
        help_text="Of a whole key, as RE2 has them.",
    )
    not_empty = forms.BooleanField(required=False, label="Without empty values")
    after = forms.CharField(required=False, max_length=100_000, widget=forms.HiddenInput)

    PLACES = ("after",)

    def criteria(self) -> TopicRowFilter:
        """Return which rows are asked for. The form must be valid."""
        data = self.cleaned_data
        return TopicRowFilter(data["key"], data["not_empty"], data["expression"])

    def clean_expression(self) -> str:
        """Return the expression. Raises ValidationError."""
        text: str = self.cleaned_data["expression"]
        try:
            expression(text)
        except BadExpression as error:
            raise forms.ValidationError(f"Expected {error}.") from None
        return text

    def clean_after(self) -> bytes | None:
        """Return the key after which the page begins. Raises ValidationError."""
        text = self.cleaned_data["after"]
        try:
            return bytes.fromhex(text) if text else None
        except ValueError:
            raise forms.ValidationError("Expected a page of this list.") from None


# ---- topic views ---------------------------------------------------------------------------------
# The pages of views: all of them, and the rows of one.

PAGE_SIZE = 100
LONGEST_VALUE = 400
"""Most bytes of a key or a value that a page shows."""

VIEW_TABLE = Table(
    "views",
    "View",
    "Topic",
    "Copy",
    Column.number("Rows"),
    Column.number("Memory", "of this process's copy"),
    Column.number("Lag", "records of the topic that the copy has not read"),
    Column.time("As of", "when the copy last had all that the topic held"),
)
ROW_TABLE = Table(
    "view-rows",
    "Key",
    Column.text("Value"),
    Column.number("Partition"),
    Column.number("Offset"),
    Column.time("Appended"),
)
STATUSES = {
    "not-followed": "not kept here",
    "catching-up": "catching up",
    "ready": "ready",
    "topic-absent": "no topic",
    "too-large": "too large",
}


class ViewStatus(NamedTuple):
    """A view in the list. reason: why it gives no answer, empty where it does."""

    view: TopicView
    state: CopyState
    status: str
    reason: str
    stale: bool


class ViewRow(NamedTuple):
    """A row as it is shown. cut: whether the value is longer."""

    key: str
    value: str
    cut: bool
    row: TopicRow


class ViewList(ListPage):
    """The list of all views."""

    template = "console/topic_views/views"
    table = VIEW_TABLE
    roles = OPERATORS

    def list_context(self) -> dict[str, Any]:
        """Return how the copies of the views fare."""
        return {"entries": [_entry(table) for table in copies().values()]}


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
@takes(*RowFilterForm.parameters())
def view(request: HttpRequest, name: str) -> HttpResponse:
    """Return the page of a view's rows; to a script, the part that renews itself. Raises
    Http404."""
    table = copies().get(name)
    if table is None:
        raise Http404
    form = RowFilterForm(request.GET)
    valid, entry = form.is_valid(), _entry(table)
    context = {
        "now": now_ms(),
        "entry": entry,
        "form": form,
        "narrowed": bool(form.query()),
        "table": ROW_TABLE,
        "address": request.get_full_path(),
        **(_rows(table, form) if valid and not entry.reason else {}),
    }
    return render_page(request, "console/topic_views/view", context, status=200 if valid else 422)


def _rows(table: ViewTable, form: RowFilterForm) -> dict[str, Any]:
    after = form.cleaned_data["after"]
    criteria = form.criteria()
    page = table.page(criteria.test(), PAGE_SIZE, after, prefix=criteria.prefix())
    following = "" if page.following is None else page.following.hex()
    place = form.data.get("after", "")
    return {
        "lines": list(map(_line, page.rows)),
        "first": after is None,
        "pager": Pager.by_key(form.query(), "after", place, following),
    }


def _entry(table: ViewTable) -> ViewStatus:
    state = table.state()
    ready = state.status == "ready"
    reason = "" if ready else why_not(table, state)
    return ViewStatus(table.view, state, STATUSES[state.status], reason, ready and is_stale(state))


def _line(row: TopicRow) -> ViewRow:
    cut = len(row.value) > LONGEST_VALUE
    return ViewRow(printed(row.key[:LONGEST_VALUE]), printed(row.value[:LONGEST_VALUE]), cut, row)
