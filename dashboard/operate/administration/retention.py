"""Retention: how long everything is kept, the form that changes it, and the deleting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from django import forms
from django.apps import apps
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import ADMINS, form_of, role_required, user_of
from dashboard.core.common.forms import scenario_choices
from dashboard.core.common.navigation import render_page
from dashboard.core.common.retention import Retention, Thinning
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.states.models import CHANGES
from dashboard.operate.administration.models import Period, Remainder

# ---- kept ----------------------------------------------------------------------------------------
# Everything that is deleted with time. An app declares it as KEPT, next to its models.

Declared = Retention | Thinning


def kept() -> Iterator[Declared]:
    """Yield what is deleted when it expires, app by app in the order of the settings."""
    for app in apps.get_app_configs():
        yield from getattr(app.models_module, "KEPT", ())


# ---- periods -------------------------------------------------------------------------------------
# Changes to how long a scenario keeps rows of a kind. Times in ms.

LEAST_MS, MOST_MS = DAY_MS, 20 * 366 * DAY_MS
"""Limits of a period: one day and twenty years."""


def adjustable() -> dict[str, Retention]:
    """Return the kinds of rows for which scenarios may have their own period, by key."""
    return {each.key: each for each in kept() if isinstance(each, Retention) and each.by_scenario}


def period(each: Retention, scenario: str) -> int:
    """Return how long a scenario keeps rows of a kind, ms."""
    assert each.kept_ms is not None
    return Period.objects.of_kind(each.key).by_scenario().get(scenario, each.kept_ms)


def to_be_deleted(each: Retention, scenario: str, kept_ms: int, now: int) -> int:
    """Return how many of a scenario's rows would be older than `kept_ms` at `now` (Unix ms)."""
    return each.before(scenario, now - kept_ms).count()


@transaction.atomic
def set_period(each: Retention, scenario: str, kept_ms: int | None, user: User, now: int) -> None:
    """Set how long a scenario keeps rows of a kind, ms; None restores the default."""
    if kept_ms is None:
        Period.objects.of_kind(each.key).filter(scenario=scenario).delete()
        return
    given = {"kept_ms": kept_ms, "user": user, "username": user.get_username(), "at": now}
    Period.objects.update_or_create(key=each.key, scenario=scenario, defaults=given)


# ---- application ---------------------------------------------------------------------------------
# Applying retention: delete what has expired, and record what is left. Times in Unix ms.

log = structlog.get_logger(__name__)

MAX_FAULT = 300


def periods_of(each: Declared) -> dict[str, int]:
    """Return the scenarios' own periods for rows of a kind, ms."""
    if not isinstance(each, Retention) or not each.by_scenario:
        return {}
    return Period.objects.of_kind(each.key).by_scenario()


def own_period_of(scenario: str) -> int | None:
    """Return how long a scenario keeps its changes, ms, or None if it uses the default."""
    return periods_of(CHANGES).get(scenario)


def apply_one(each: Declared, now: int) -> int:
    """Delete the expired rows of one kind at `now`, and record what is left.

    Returns how many were deleted. Raises whatever deleting raises, once it has been recorded.
    """
    begun, gone, fault = time.monotonic(), 0, ""
    try:
        gone = each.apply(now, periods_of(each)) if isinstance(each, Retention) else each.apply(now)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"[:MAX_FAULT].replace("\0", "")
        raise
    finally:
        took_ms = round((time.monotonic() - begun) * 1000)
        _record_left(each, now, gone, took_ms, fault)
    return gone


def _record_left(each: Declared, now: int, gone: int, took_ms: int, fault: str) -> None:
    """Record what is left of a kind; a failure to count it is only logged."""
    try:
        left = dict(_left(each)) or {"": (0, None)}
    except Exception:
        log.exception("what retention left was not counted", what=each.what)
        return
    rows = [
        Remainder(
            what=each.what, scenario=scenario, rows=n, oldest=oldest, at=now, fault=fault,
            deleted=gone if not scenario else 0, took_ms=took_ms if not scenario else 0,
        )
        for scenario, (n, oldest) in left.items()
    ]  # fmt: skip
    Remainder.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["what", "scenario"],
        update_fields=["rows", "oldest", "deleted", "at", "took_ms", "fault"],
    )


def _left(each: Declared) -> Iterator[tuple[str, tuple[int, int | None]]]:
    """Yield how many rows are left and the time of the oldest: in all, and for each scenario."""
    if not isinstance(each, Retention):
        return
    rows = each.model._default_manager.filter(each.condition)  # noqa: SLF001 - documented API
    if not each.by_scenario:
        remainder = rows.aggregate(n=Count("pk"), oldest=Min(each.time))
        yield "", (remainder["n"], _ms(each, remainder["oldest"]))
        return
    total, oldest = 0, None
    for name in each.scenarios():
        mine = rows.filter(scenario=name).aggregate(n=Count("pk"), oldest=Min(each.time))
        first = _ms(each, mine["oldest"])
        if name:
            yield name, (mine["n"], first)
        total += mine["n"]
        oldest = min((at for at in (oldest, first) if at is not None), default=None)
    yield "", (total, oldest)


def _ms(each: Retention, at: int | None) -> int | None:
    return None if at is None else at * each.unit_ms


# ---- retention -----------------------------------------------------------------------------------
# The retention table: how long each kind is kept, how much there is, what the last run did.


@dataclass(frozen=True)
class RetentionRow:
    """A kind of rows, or a scenario with its own period for that kind.

    days: the default; own: the scenario's own days, or None; left: after the last run, None before
    the first.
    """

    what: str
    scenario: str
    days: int | None
    at_most: int | None
    own: int | None
    left: Remainder | None

    @property
    def key(self) -> str:
        """Return its key among the table's rows."""
        return f"{self.what}/{self.scenario}"


def lines() -> list[RetentionRow]:
    """Return what is kept, by name; scenarios follow their kind."""
    left = {(row.what, row.scenario): row for row in Remainder.objects.all()}
    by_name = sorted(kept(), key=lambda each: each.what)
    return [line for each in by_name for line in _lines(each, left)]


def _lines(each: Declared, left: dict[tuple[str, str], Remainder]) -> Iterator[RetentionRow]:
    days = _days(each.kept_ms)
    yield RetentionRow(each.what, "", days, each.at_most, None, left.get((each.what, "")))
    own = periods_of(each)
    for name, scenario in scenarios().items():
        rest = left.get((each.what, name))
        if rest or name in own:
            yield RetentionRow(each.what, scenario.title, days, None, _days(own.get(name)), rest)


def _days(ms: int | None) -> int | None:
    return None if ms is None else ms // DAY_MS


KEPT_TABLE = Table(
    "",
    "What",
    "Scenario",
    Column("Days", "how long it is kept, by default", numeric=True),
    Column("Own", "days of this scenario in place of the default", numeric=True),
    Column("At most", "rows; then the oldest go", numeric=True),
    Column("Rows", "after the last run", numeric=True),
    "Oldest",
    "Last run",
    Column("Deleted", "rows, by the last run", numeric=True),
)


# ---- retention -----------------------------------------------------------------------------------
# The form that changes how long a scenario keeps rows of a kind.

LEAST, MOST = LEAST_MS // DAY_MS, MOST_MS // DAY_MS


class RetentionForm(forms.Form):
    """A form for a kind, a scenario and a number of days. now: Unix ms.

    A period that would delete rows must be confirmed; the form says how many.
    """

    key = forms.ChoiceField(label="What")
    scenario = forms.ChoiceField(label="Scenario")
    days = forms.IntegerField(
        required=False,
        min_value=LEAST,
        max_value=MOST,
        label="Days",
        help_text=f"{LEAST} to {MOST:,}; empty: the default",
    )
    confirm = forms.BooleanField(required=False, label="Delete what is older, for good")

    def __init__(self, now: int, data: Any = None) -> None:
        super().__init__(data, auto_id="period_%s")
        self.now = now
        for name, choices in (
            ("key", [(key, each.what) for key, each in adjustable().items()]),
            ("scenario", scenario_choices()),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = choices

    def clean(self) -> dict[str, Any]:
        """Require a confirmation if rows would be deleted."""
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        each, kept_ms = self.kind(), self.kept_ms()
        assert each.kept_ms is not None
        if kept_ms is not None and kept_ms < each.least_ms:
            self.add_error("days", f"Expected at least {each.least_ms // DAY_MS} days of these.")
            return data
        after = each.kept_ms if kept_ms is None else kept_ms
        if after < period(each, data["scenario"]) and not data["confirm"]:
            n = to_be_deleted(each, data["scenario"], after, self.now)
            if n:
                words = f"The next run deletes {n:,} rows for good. Tick this to confirm."
                self.add_error("confirm", words)
        return data

    def kind(self) -> Retention:
        """Return the kind that the form names."""
        return adjustable()[self.cleaned_data["key"]]

    def kept_ms(self) -> int | None:
        """Return the period, ms; None for the default."""
        days = self.cleaned_data["days"]
        return None if days is None else days * DAY_MS


# ---- retention -----------------------------------------------------------------------------------
# The retention page, for admins, and the form that changes a period.


@require_safe
@never_cache
@role_required("read", ADMINS)
def retention(request: HttpRequest) -> HttpResponse:
    """Return the page; scripts get only the part that refreshes."""
    return _page(request, RetentionForm(now_ms()))


@form_of("retention:retention")
@role_required("command", ADMINS)
def change(request: HttpRequest) -> HttpResponse:
    """Set a scenario's own period for rows of a kind, or restore the default."""
    now = now_ms()
    form = RetentionForm(now, request.POST)
    if not form.is_valid():
        return _page(request, form, 422)
    each, scenario = form.kind(), form.cleaned_data["scenario"]
    set_period(each, scenario, form.kept_ms(), user_of(request), now)
    days = form.cleaned_data["days"]
    record(Actor.of(request), "retention.changed", scenario=scenario, target=each.what, days=days)
    words = "the default again" if days is None else f"{days:,} days"
    messages.success(request, f"Kept for {words}: {each.what}. The next run applies it.")
    return redirect("retention:retention")


def _page(request: HttpRequest, form: RetentionForm, status: int = 200) -> HttpResponse:
    context = {
        "now": now_ms(),
        "form": form,
        "lines": lines(),
        "table": KEPT_TABLE,
        "address": request.path,
    }
    return render_page(request, "administration/retention/retention", context, status)
