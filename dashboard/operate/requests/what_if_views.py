"""What-if pages: propose a rule, try it on the log, show the result."""

from __future__ import annotations

from datetime import UTC
from typing import Any
from uuid import uuid4

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.http import urlencode

from dashboard.core.common.access import ADMINS, OPERATORS, Role, role_of
from dashboard.core.common.forms import UtcTimeField, scenario_links
from dashboard.core.common.scenarios import scenario_or_404, scenario_or_first, scenarios
from dashboard.core.common.tables import Column, Pager, Table
from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.core.rules.models import as_carried
from dashboard.operate.requests.batch_queries import QueryDetail, QueryList
from dashboard.operate.requests.models import TRIALS_KEPT, Trial
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
# The trial form: the changed keys, as TOML or in fields of their own, and how far back to go.

HOURS = (1, 6, 24)
LONGEST_MS = 7 * 24 * HOUR_MS
"""The log holds no more than this."""
_SPANS = ("vote_lifetime", "forget_after")
"""Duration fields, each named after its key."""


class TrialForm(forms.Form):
    """A proposed rule for one scenario.

    rule: the changed keys, written as in scenarios.toml; each field next to it sets one key, so
    that nobody has to write TOML for a hold.
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
        if running.life_cycle:  # nothing is raised or lowered, and silent votes are not kept
            self.fields["min_voters"].label = "Fewest voters"
            del self.fields["raise_voters"], self.fields["forget_after"]

    @property
    def simple(self) -> list[Any]:
        """Return the fields that set one key each."""
        holds = [name for name in self.fields if name.startswith("hold-")]
        names = ("vote_lifetime", "forget_after", "min_voters", "raise_voters", *holds)
        return [self[name] for name in names if name in self.fields]

    def clean(self) -> dict[str, Any]:
        """Return the changed keys and the start time; errors are added to their fields."""
        data = super().clean() or self.cleaned_data
        if not self.errors:
            data["from"] = self._from(data)
        if not self.errors:
            data["keys"] = self._keys(data)
        return data

    def _from(self, data: dict[str, Any]) -> int:
        if data["back"] != "since":
            if data.get("since"):
                text = "Leave this empty, or choose “since…” under Replay."
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
        """Return, as plain keys, the differences between the proposal and the rule in use."""
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
        """Return the name of the field that a message about a key belongs to."""
        path = message.partition(":")[0]
        for number, spec in enumerate(self.running.states):
            if path.endswith(f".holds.{spec.name}") and data[f"hold-{number}"]:
                return f"hold-{number}"
        name = path.rpartition(".")[2]
        return name if name in _SPANS and data.get(name) else "rule"


def _duration_text(ms: int | None) -> str:
    """Return a duration in the form used in scenarios.toml."""
    return "none" if ms is None else duration_text(ms)


# ---- what if -------------------------------------------------------------------------------------
# What-if pages: propose a rule, try it on the log, show the result.

TRIALS = Table(
    "trials", Column.time("When"), "Scenario", "Changed keys", Column.time("Since"), "By", "Why",
    "Outcome",
)  # fmt: skip


class TrialList(QueryList):
    """Earlier trials and, for admins, the form that tries another rule."""

    template_name = "requests/what_if/trials.html"
    roles = OPERATORS
    kept = TRIALS_KEPT
    table = TRIALS
    parameters = ("scenario", "rule")

    @cached_property
    def running(self) -> Scenario:
        """The chosen scenario, or the first one, with the rule that the job uses."""
        return as_carried(scenario_or_first(self.request.GET.get("scenario", "")))

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the context with the form and the scenario it is for."""
        text = self.request.GET.get("rule", "")[:MAX_TEXT]
        initial = {"scenario": self.running.name, "back": "6", "rule": text}
        shown = {
            "form": TrialForm(self.running, self.now, initial=initial),
            "running": self.running,
            "choices": scenario_links(self.running),
            "admin": role_of(self.request.user) is Role.ADMIN,
            "earlier": earlier(self.running),
        }
        return super().get_context_data(**shown | context)


class TrialRequest(TrialList):
    """Request a trial of a rule from the job."""

    roles = ADMINS
    page = "what_if:trials"
    page_parts = ()
    form_class = TrialForm
    form_takes = ("running", "now")
    action = "what-if"
    detail = "what_if:trial"

    @cached_property
    def running(self) -> Scenario:
        """The form's scenario with the rule that the job uses. Raises Http404."""
        return as_carried(scenario_or_404(self.request.POST.get("scenario", "")))

    def query(self, form: TrialForm) -> tuple[WhatIf, Trial, dict[str, Any]]:
        """Return the trial that the form describes, and the facts for the audit."""
        data, since, name = form.cleaned_data, form.cleaned_data["from"], self.running.name
        keys, reason = data["keys"], data["reason"]
        row = Trial(id=uuid4(), scenario=name, since=since, keys=overlay_text(keys), reason=reason)
        begin = snapshots(self.running, overlaid(self.running, keys), since)
        facts = {"keys": sorted(keys), "since": since, "reason": reason}
        return WhatIf(name, since, keys, begin), row, facts


class TrialDetail(QueryDetail):
    """One trial of a rule."""

    queryset = Trial.objects.all()
    template_name = "requests/what_if/trial.html"
    roles = OPERATORS
    parameters = ("q", "page")

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the context with the trial and whatever result there is so far."""
        context = super().get_context_data(**context)
        trial, known = self.row, scenarios().get(self.row.scenario)
        context |= {
            "trial": trial,
            "title": known.title if known else trial.scenario,
            "again": trial.again_url,
            "propose": trial.propose_url if context["admin"] and known else "",
        }
        totals = trial.decoded_totals
        return context if totals is None else context | _result(self.request, trial, totals, known)


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
