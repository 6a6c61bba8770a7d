"""What-if's pages: a rule is proposed, tried on the log, and shown."""

from __future__ import annotations

from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

from django import forms
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    ADMINS,
    OPERATORS,
    Role,
    form_of,
    role_of,
    role_required,
    user_of,
)
from dashboard.core.common.forms import UtcTimeField, scenario_links
from dashboard.core.common.navigation import render_page
from dashboard.core.common.retention import apply_all
from dashboard.core.common.scenarios import scenario_or_first, scenarios
from dashboard.core.common.tables import Column, Pager, Table
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.core.rules.models import as_carried
from dashboard.operate.requests.batch_queries import progress_of, progress_of_all, submit_form
from dashboard.operate.requests.models import MOST_TRIALS, TRIALS_KEPT, TRIALS_KEPT_MS, Trial
from dashboard.operate.requests.what_if import (
    PAGE,
    STATES,
    asset_table,
    began_of,
    begun_at,
    earlier,
    proposed,
    rows_of,
    snapshots,
    states_of,
)
from domain.config_values import duration_text
from domain.overlay import MAX_TEXT, canonical, differing, overlaid, overlay_text, read_overlay
from domain.scenario import Scenario, ScenarioError
from wire.batch_query import WhatIf
from wire.job import MAX_REASON

# ---- what if -------------------------------------------------------------------------------------
# The form of a trial: the changed keys as TOML or in fields of their own, and how far back.

HOURS = (1, 6, 24)
LONGEST_MS = 7 * 24 * HOUR_MS
"""The log holds no more than that."""
_SPANS = ("vote_lifetime", "forget_after")
"""Fields of a duration, each named as its key."""


class TrialForm(forms.Form):
    """A proposed rule for one scenario.

    rule: the changed keys, as they would be in scenarios.toml; the fields next to it set one key
    each, so that nobody has to write TOML for a hold.
    """

    scenario = forms.CharField(widget=forms.HiddenInput)
    back = forms.ChoiceField(
        label="Replay",
        choices=[*((str(n), f"the last {n} h" if n > 1 else "the last hour") for n in HOURS),
                 ("since", "since…")],
    )  # fmt: skip
    since = UtcTimeField(label="Since (UTC)")
    vote_lifetime = forms.CharField(required=False, max_length=20, label="Vote lifetime")
    forget_after = forms.CharField(required=False, max_length=20, label="Silent votes kept for")
    min_voters = forms.IntegerField(
        required=False, min_value=1, max_value=1000, label="Fewest voters to lower a state"
    )
    raise_voters = forms.IntegerField(
        required=False, min_value=1, max_value=1000, label="Fewest voters to raise it"
    )
    rule = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        strip=False,
        label="Changed keys, as TOML",
        widget=forms.Textarea(attrs={"rows": 9, "spellcheck": "false"}),
    )
    reason = forms.CharField(required=False, max_length=MAX_REASON, label="Why (optional)")

    def __init__(self, running: Scenario, now: int, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, initial=initial, auto_id="try-%s")
        self.running, self._now = running, now
        for number, spec in enumerate(running.states):
            field = forms.CharField(required=False, max_length=20, label=f"Hold: {spec.label}")
            field.widget.attrs["placeholder"] = _duration_text(running.hold(spec.name))
            self.fields[f"hold-{number}"] = field
        placeholders = {
            "vote_lifetime": _duration_text(running.vote_lifetime),
            "forget_after": _duration_text(running.forget_delay),
            "min_voters": str(running.min_voters),
            "raise_voters": str(running.raise_voters),
            "rule": 'holds = { clear = "10m" }\n\n[rule]\nkind = "latest"',
        }
        for name, text in placeholders.items():
            self.fields[name].widget.attrs["placeholder"] = text
        if running.life_cycle:  # nothing is raised or lowered, and nobody's last word is kept
            self.fields["min_voters"].label = "Fewest voters"
            del self.fields["raise_voters"], self.fields["forget_after"]

    @property
    def simple(self) -> list[Any]:
        """Return the fields that set one key each."""
        holds = [name for name in self.fields if name.startswith("hold-")]
        names = ("vote_lifetime", "forget_after", "min_voters", "raise_voters", *holds)
        return [self[name] for name in names if name in self.fields]

    def clean(self) -> dict[str, Any]:
        """Return the changed keys, and since when; what is wrong is said at its field."""
        data = super().clean() or self.cleaned_data
        if not self.errors:
            data["from"] = self._from(data)
        if not self.errors:
            data["keys"] = self._keys(data)
        return data

    def _from(self, data: dict[str, Any]) -> int:
        if data["back"] != "since":
            if data.get("since"):
                text = "Expected nothing here, or “since…” chosen under Replay."
                self.add_error("since", text)
            return self._now - int(data["back"]) * HOUR_MS
        when = data.get("since")
        if when is None:
            self.add_error("since", "Expected a time, for instance 2026-11-20T08:00.")
            return 0
        at = int(when.replace(tzinfo=UTC).timestamp() * 1000)
        if not self._now - LONGEST_MS <= at < self._now:
            self.add_error("since", "Expected a time of the last seven days.")
        return at

    def _keys(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return plain keys in which the proposal differs from the rule that is used."""
        try:
            keys = read_overlay(data["rule"])
        except ScenarioError as error:
            self.add_error("rule", str(error))
            return {}
        for name, value in self._simple_keys(data).items():
            if name in keys:
                self.add_error("rule", f"{name}: expected here or in its field, not in both")
                return {}
            keys[name] = value
        try:
            canonical_keys = canonical(self.running, keys)
            changed = differing(self.running, overlaid(self.running, canonical_keys))
        except ScenarioError as error:
            self.add_error(self._field_of(str(error), data), str(error))
            return {}
        if not changed:
            self.add_error(None, "Nothing is changed: this is the present rule.")
        return changed

    def _simple_keys(self, data: dict[str, Any]) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        for name in _SPANS:
            if data.get(name):
                keys[name] = data[name]
        lower, up = data["min_voters"], data.get("raise_voters")
        if lower is not None or up is not None:
            keys["min_voters"] = {
                "lower": lower or self.running.min_voters,
                "raise": up or self.running.raise_voters,
            }
        holds = {
            spec.name: data[f"hold-{number}"]
            for number, spec in enumerate(self.running.states)
            if data[f"hold-{number}"]
        }
        if holds:
            keys["holds"] = {**(self.running.holds or {}), **holds}
        return keys

    def _field_of(self, message: str, data: dict[str, Any]) -> str:
        """Return the field that a message about a key belongs to."""
        path = message.partition(":")[0]
        for number, spec in enumerate(self.running.states):
            if path.endswith(f".holds.{spec.name}") and data[f"hold-{number}"]:
                return f"hold-{number}"
        name = path.rpartition(".")[2]
        return name if name in _SPANS and data.get(name) else "rule"


def _duration_text(ms: int | None) -> str:
    """Return a duration as scenarios.toml has it."""
    return "none" if ms is None else duration_text(ms)


# ---- what if -------------------------------------------------------------------------------------
# What-if's pages: a rule is proposed, tried on the log, and shown.

TRIALS = Table(
    "trials", Column.time("When"), "Scenario", "Changed keys", Column.time("Since"), "By", "Why",
    "Outcome",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read", OPERATORS)
def trials(request: HttpRequest) -> HttpResponse:
    """Return what was tried; to admins, the form that tries another rule."""
    running = _running(request.GET.get("scenario", ""))
    text = request.GET.get("rule", "")[:MAX_TEXT]
    initial = {"scenario": running.name, "back": "6", "rule": text}
    return _list(request, TrialForm(running, now_ms(), initial=initial))


@form_of("what_if:trials")
@role_required("read", ADMINS)
def run(request: HttpRequest) -> HttpResponse:
    """Request of the job to try a rule; its page shows how far it has come. Raises Http404."""
    name = request.POST.get("scenario", "")
    if name not in scenarios():
        raise Http404
    now = now_ms()
    form = TrialForm(_running(name), now, request.POST)
    if not form.is_valid():
        return _list(request, form, 422)
    data = form.cleaned_data
    tried = Trial(
        id=uuid4(),
        scenario=name,
        since=data["from"],
        keys=overlay_text(data["keys"]),
        reason=data["reason"],
    )
    proposed = overlaid(form.running, data["keys"])
    begin = snapshots(form.running, proposed, tried.since)
    what_if = WhatIf(name, tried.since, data["keys"], begin)
    status = submit_form(form, "what-if", what_if, tried, user_of(request), now)
    if form.errors:
        return _list(request, form, status)
    apply_all(TRIALS_KEPT, now)
    record(
        Actor.of(request),
        "job.what-if",
        scenario=tried.scenario,
        keys=sorted(data["keys"]),
        since=tried.since,
        reason=tried.reason,
    )
    return redirect("what_if:trial", tried.pk)


def _running(name: str) -> Scenario:
    """Return a scenario with the rule that the job uses; the first one where none has the name."""
    return as_carried(scenario_or_first(name))


def _list(request: HttpRequest, form: TrialForm, status: int = 200) -> HttpResponse:
    now = now_ms()
    newest = list(Trial.objects.order_by("-asked_at")[:MOST_TRIALS])
    context = {
        "now": now,
        "form": form,
        "running": form.running,
        "choices": scenario_links(form.running),
        "admin": role_of(request.user) is Role.ADMIN,
        "table": TRIALS,
        "trials": [
            (each, progress, each.decoded_totals)
            for each, progress in zip(newest, progress_of_all(newest, now), strict=True)
        ],
        "earlier": earlier(form.running),
        "kept": MOST_TRIALS,
        "kept_days": TRIALS_KEPT_MS // DAY_MS,
    }
    return render(request, "what_if/trials.html", context, status=status)


@require_safe
@never_cache
@role_required("read", OPERATORS)
def trial(request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return one trial, its progress and its result; to a script, the part that renews itself.

    Raises Http404.
    """
    trial, now = get_object_or_404(Trial, pk=id), now_ms()
    known = scenarios().get(trial.scenario)
    admin = role_of(request.user) is Role.ADMIN
    context: dict[str, Any] = {
        "now": now,
        "trial": trial,
        "title": known.title if known else trial.scenario,
        "followed": progress_of(trial, now),
        "admin": admin,
        "back": request.path,
        "address": request.get_full_path(),
        "again": trial.again_url,
        "propose": trial.propose_url if admin and known else "",
    }
    totals = trial.decoded_totals
    if totals is not None:
        context |= _result(request, trial, totals, known)
    return render_page(request, "what_if/trial", context)


def _result(
    request: HttpRequest, trial: Trial, totals: Any, known: Scenario | None
) -> dict[str, Any]:
    scenario = proposed(totals, known or next(iter(scenarios().values())))
    rows = trial.results.order_by("place")
    q = request.GET.get("q", "").replace("\0", "")[:255]
    if q:
        rows = rows.filter(asset__contains=q)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    drawn, axis = rows_of(trial, page, scenario, totals)
    return {
        "totals": totals,
        "begin": begun_at(totals),
        "scenario": scenario,
        "began": began_of(totals),
        "state_table": STATES,
        "states": states_of(totals, scenario),
        "q": q,
        "pager": Pager.numbered(page, lambda at: f"?{urlencode({'q': q, 'page': str(at)})}"),
        "row_table": asset_table(axis, now_ms()),
        "rows": drawn,
        "moved": totals.earlier + totals.later,
        "mean_shift": totals.shift // max(1, totals.earlier + totals.later),
        "kept": trial.results.count(),
    }
