"""Operations on summaries: the figures of a period, the times behind them, status pages."""

# Each operation takes the request, and declares its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from django.forms import Form
from ninja import Query, Schema
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import READ, WRITE, ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import NO_NUL, StrictSchema, fields_of
from dashboard.core.common.access import ADMINS
from dashboard.core.common.times import iso, now_ms
from dashboard.notify.summaries import files
from dashboard.notify.summaries.figures import (
    BulkRun,
    FigureGroup,
    LongIncident,
    OverrideSpan,
    PeriodSummary,
    TargetStatus,
    WorstAsset,
)
from dashboard.notify.summaries.lists import SpanFilterForm, SpanList
from dashboard.notify.summaries.models import MAX_INTRO, MAX_TITLE, FigureCheck, StatusPage
from dashboard.notify.summaries.phrases import sentence
from dashboard.notify.summaries.status_pages import (
    MAX_WORD,
    MOST_LABELS,
    StatusPageForm,
    delete_page,
    plain_page,
    typed_page,
)
from dashboard.notify.summaries.views import answered, form_of
from dashboard.watch.annotations.models import MAX_KEY, MAX_VALUE
from domain.history.periods import Span
from domain.names import MAX_NAME
from wire.source import MAX_TIME

router = OperationRouter()

MOST_SCENARIOS = 100
MAX_NUMBER = 2**63 - 1
DAY = Query("", max_length=10, pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="As 2026-11-22.")


class FiguresOut(Schema):
    """Figures of a time. Durations in ms, summed over assets; availability from 0 to 1; incidents:
    incidents, of whatever scenario; null where there is no such figure, as there is none of a time
    that was not observed. observed_ms: how much of the time was; budget_ms, budget_left_ms: of one
    scenario, as several have no target together."""

    observed: Literal["wholly", "partly", "not observed"]
    observed_ms: int
    observed_share: float
    good_ms: int | None
    bad_ms: int | None
    unconfirmed_ms: int | None
    maintenance_ms: int | None
    availability: float | None
    target_percent: float | None
    target_met: bool | None
    budget_ms: int | None
    budget_left_ms: int | None
    incidents: int | None
    assets: int | None
    acknowledged: int | None
    acknowledged_mean_ms: int | None
    acknowledged_median_ms: int | None
    acknowledged_p95_ms: int | None
    cleared: int | None
    cleared_mean_ms: int | None
    cleared_median_ms: int | None
    cleared_p95_ms: int | None
    flapping: int | None
    false_alarms: int | None


class GroupOut(Schema):
    """Figures of a scenario, or of a label's value ("": of assets without it), of the period and of
    the one before it."""

    name: str
    now: FiguresOut
    before: FiguresOut


class PeriodOut(Schema):
    """The first and the last day of a period, and what it is."""

    unit: str
    first: str
    last: str


@fields_of(Span)
class SpanOut(Schema):
    """The time that is counted, Unix ms."""


class BurnOut(Schema):
    """How fast an error budget was spent in the last `window_ms` of the period: a rate of 1 spends
    just the whole of it; null where that is not known."""

    window_ms: int
    rate: float | None
    observed_ms: int


class BudgetOut(Schema):
    """How much of an error budget was left at a time (Unix ms), and whether anything was observed
    since the one before."""

    at: int
    left_ms: int
    seen: bool


class TargetOut(Schema):
    """How a scenario did by its target: its figures are in `scenarios`."""

    scenario: str
    burn: list[BurnOut]
    line: list[BudgetOut]


class DayOut(Schema):
    """A day, and its time in bad states; null where nothing of it was observed."""

    day: str
    bad_ms: int | None
    observed: Literal["wholly", "partly", "not observed"]
    observed_share: float


@fields_of(WorstAsset)
class WorstOut(Schema):
    """An asset with much time in bad states, ms; before: in the period before, null if nothing of
    that was observed."""


@fields_of(LongIncident)
class AttackOut(Schema):
    """An incident. Times in Unix ms; within: how much of it lies in the period, ms."""


@fields_of(OverrideSpan)
class OverrideOut(Schema):
    """A state that somebody pinned. Times in Unix ms; until: as it was given; ended: when another
    command ended it before that."""


@fields_of(BulkRun)
class RunOut(Schema):
    """A command for many assets."""


class CheckOut(Schema):
    """The last check of all figures against the changes of states. begun_at: Unix ms; lines: the
    first differences in words; pages: addresses of summaries that showed them."""

    begun_at: int
    differences: int
    lines: list[str]
    pages: list[str]


class SummaryOut(Schema):
    """What a period adds up to. next_zone: the zone to which a change is being summed up, or empty;
    running: whether it goes on; week: ms in bad states by weekday
    (Monday first) and hour, null where nothing of it was observed; counting: the scenarios that
    make up `now` and `before`; unobserved: what of the span was not observed; *_total: how many
    there are of what is listed; empty: whether no asset was on the board; checked: null if that
    never was; first_at: when the first
    one ever was, raw_since: since when single changes are known, summed_to: how far the sums reach,
    all in Unix ms or null."""

    period: PeriodOut
    zone: str
    next_zone: str
    service: bool
    label: str
    span: SpanOut
    span_before: SpanOut
    running: bool
    empty: bool
    computed_at: int
    raw_since: int | None
    first_at: int | None
    summed_to: int | None
    checked: CheckOut | None
    counting: list[str]
    unobserved: list[SpanOut]
    sentence: str
    now: FiguresOut
    before: FiguresOut
    scenarios: list[GroupOut]
    targets: list[TargetOut]
    labels: list[GroupOut]
    labels_total: int
    days: list[DayOut]
    week: list[list[int | None]]
    worst: list[WorstOut]
    incidents: list[AttackOut]
    incidents_total: int
    overrides: list[OverrideOut]
    overrides_total: int
    runs: list[RunOut]
    runs_total: int


Scenarios = Annotated[
    list[Annotated[str, Field(max_length=40, pattern=NO_NUL)]], Query(max_length=MOST_SCENARIOS)
]


@router.operation("GET summary", SummaryOut, "read", *READ)
def get_summary(
    request: ApiRequest,
    period: Literal["", "day", "week", "month", "quarter", "year", "dates"] = "",
    date: str = DAY,
    first: str = DAY,
    last: str = DAY,
    scenario: Scenarios = [],  # noqa: B006 - never changed
    label: str = Query("", max_length=MAX_KEY, pattern=NO_NUL, description="A key to group by."),
    hours: Literal["", "service"] = "",
) -> Any:
    """What a period adds up to: the one with the day `date`, or from `first` to `last`; by default
    the last whole week."""
    for name in scenario:
        known_scenario(name)
    return plain(answered(_valid(form_of(request.GET))))


F = TypeVar("F", bound=Form)


def _valid(form: F) -> F:
    """Return a form. Raises Problem 422 if it is invalid."""
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        raise invalid(field, str(errors[0]))
    return form


def plain(summary: PeriodSummary) -> dict[str, Any]:
    """Return a summary as data for JSON."""
    period = summary.question.period
    return {
        "period": {"unit": period.unit, "first": str(period.first), "last": str(period.last)},
        "zone": summary.zone,
        "next_zone": summary.next_zone,
        "service": summary.question.service,
        "label": summary.question.label,
        "span": summary.span,
        "span_before": summary.before,
        "running": summary.running,
        "empty": summary.empty,
        "computed_at": summary.computed_at,
        "raw_since": summary.raw_since,
        "first_at": summary.first_at,
        "counting": summary.counting,
        "unobserved": summary.unobserved,
        "summed_to": summary.summed_to,
        "checked": FigureCheck.objects.newest_ended(),
        "sentence": sentence(summary),
        "now": files.figures(summary.whole.now),
        "before": files.figures(summary.whole.before),
        "scenarios": [_group(each) for each in summary.scenarios],
        "targets": [_target(each) for each in summary.targets],
        "labels": [_group(each) for each in summary.labels],
        "labels_total": summary.labels_total,
        "days": list(files.days(summary)),
        "week": summary.week,
        "worst": summary.worst,
        "incidents": summary.incidents,
        "incidents_total": summary.incidents_total,
        "overrides": summary.overrides,
        "overrides_total": summary.overrides_total,
        "runs": summary.runs,
        "runs_total": summary.runs_total,
    }


def _target(status: TargetStatus) -> dict[str, Any]:
    burns = (
        {"window_ms": each.window_ms, "rate": each.rate, "observed_ms": each.observed.ms}
        for each in status.burn
    )
    line = ({"at": each.at, "left_ms": each.left, "seen": each.seen} for each in status.line)
    return {"scenario": status.scenario, "burn": list(burns), "line": list(line)}


def _group(group: FigureGroup) -> dict[str, Any]:
    now, before = files.figures(group.now), files.figures(group.before)
    return {"name": group.name, "now": now, "before": before}


# ---- history -------------------------------------------------------------------------------------
# The operation on the times behind a figure.


class TimeOut(Schema):
    """A time of an asset behind a figure. state: empty in maintenance; ended_at: null while it goes
    on; counted_ms: how much of it the figure counts. Times in Unix ms."""

    scenario: str
    asset: str
    state: str
    began_at: int
    ended_at: int | None
    counted_ms: int


class HistoryOut(Schema):
    """Times, the newest first; next: `before` of the next page, or null; number: how many there
    are; sum_ms: how much of all of them the figure counts, null if they are too many to add up."""

    items: list[TimeOut]
    next: int | None
    number: int
    sum_ms: int | None


Moment = Query(None, ge=0, le=MAX_TIME)


@router.operation("GET summary/history", HistoryOut, "read", *READ)
def list_history(
    request: ApiRequest,
    kind: Literal["", "bad", "unconfirmed", "maintenance"] = "",
    scenario: Scenarios = [],  # noqa: B006 - never changed
    asset: str = Query("", max_length=MAX_NAME, pattern=NO_NUL, description="The whole name."),
    label: str = Query("", max_length=MAX_KEY + 1 + MAX_VALUE, pattern=NO_NUL,
                       description="As customer:Acme; customer: for assets without it."),
    hours: Literal["", "service"] = "",
    start: int | None = Moment,
    end: int | None = Moment,
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older ones."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:  # fmt: skip
    """The times behind a figure, in bad states by default, from `start` to `end`."""
    for name in scenario:
        known_scenario(name)
    asked = {"kind": kind, "scenario": scenario, "asset": asset, "label": label, "hours": hours}
    span = {name: iso(at) for name, at in (("start", start), ("end", end)) if at is not None}
    form = _valid(SpanFilterForm(asked | span | {"zone": "UTC"}))
    return SpanList(form=form, now=now_ms()).answer(form.rows(), limit, before)


# ---- status pages --------------------------------------------------------------------------------
# Operations on status pages: list, store, delete. Each takes the request, and declares its
# parameters in its signature.

Name = Annotated[str, Field(max_length=200, pattern=NO_NUL)]


class StatusPageIn(StrictSchema):
    """A status page. labels: as `customer=Acme`; words: by scenario and state, what the page calls
    the state; days: whose incidents it lists."""

    read_only: ClassVar[tuple[str, ...]] = ("slug", "changed_at")

    title: str = Field(min_length=1, max_length=MAX_TITLE, pattern=NO_NUL)
    intro: str = Field("", max_length=MAX_INTRO, pattern=NO_NUL)
    scenarios: list[Name] = Field(min_length=1, max_length=MOST_SCENARIOS)
    labels: list[Name] = Field(min_length=1, max_length=MOST_LABELS)
    words: dict[Name, dict[Name, Annotated[str, Field(max_length=MAX_WORD, pattern=NO_NUL)]]] = {}
    days: int = Field(7, ge=0, le=90)
    published: bool = False


class StatusPageOut(StatusPageIn):
    """A status page with its name in the address. changed_at: Unix ms."""

    read_only = ()

    slug: str
    changed_at: int


@router.operation("GET status-pages", list[StatusPageOut], "read", *READ, among=ADMINS)
def list_status_pages(request: ApiRequest) -> Any:
    """All status pages, by title."""
    return [plain_page(row) for row in StatusPage.objects.order_by("title", "pk")]


@router.operation("PUT status-pages/{slug}", StatusPageOut, "command", *WRITE, among=ADMINS)
def put_status_page(request: ApiRequest, slug: str, given: StatusPageIn) -> Any:
    """Store a status page under this name, or make it."""
    row = StatusPage.objects.filter(slug=slug).first()
    if row is not None and plain_page(row) == plain_page(row) | given.dict():
        return plain_page(row)
    form = _valid(StatusPageForm(typed_page(given.dict() | {"slug": slug}), row))
    return plain_page(form.save(request, now_ms()))


@router.operation("DELETE status-pages/{slug}", StatusPageOut, "command", *READ, among=ADMINS)
def delete_status_page(request: ApiRequest, slug: str) -> Any:
    """Delete a status page: its address leads nowhere then."""
    row = StatusPage.objects.filter(slug=slug).first()
    if row is None:
        raise Problem(404, "unknown-status-page", f"There is no status page {slug!r}.")
    shown = plain_page(row)
    delete_page(request, row)
    return shown
