"""The handover: its page, the same as text, and the marks of a shift's begin and end."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.handover.summary import INCIDENTS, MOVES, PINS, Situation, situation
from dashboard.board.handover.text import as_markdown
from dashboard.core.audit.log import Actor
from dashboard.core.audit.log import record as audit
from dashboard.core.common.access import (
    OPERATORS,
    Limit,
    TooMany,
    form_of,
    is_fragment,
    may,
    role_required,
    user_of,
)
from dashboard.core.common.exports import faults_of, unprocessable
from dashboard.core.common.forms import FilterForm, scenario_choices, typed_end
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.core.job.status import problems
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.acknowledgements import Since
from dashboard.watch.annotations.forms import HandoverForm
from dashboard.watch.annotations.models import SHIFT_MS, Handover, Shift
from domain.scenario import Scenario

OLDEST_MS = 30 * DAY_MS
"""Furthest back that changes are told."""
HOURS = (1, 4, 8, 12, 24, 72)
FEW = 10
"""Of more assets that changed the list is folded, so that what follows is not far."""
LIMIT = Limit("handovers", 30)


class SinceForm(FilterForm):
    """The form for a time to look back to, and for a scenario."""

    scenario = forms.ChoiceField(required=False)
    hours = forms.ChoiceField(required=False, label="Changes of")
    at = forms.IntegerField(required=False, min_value=0, widget=forms.HiddenInput)
    since = forms.CharField(
        required=False,
        max_length=40,
        label="or since",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
    )
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: Any, now: int) -> None:
        super().__init__(data, auto_id="since_%s")
        self.now = now
        hours = [(str(n), f"the last {n} hours" if n > 1 else "the last hour") for n in HOURS]
        self.offer("scenario", [("", "All scenarios"), *scenario_choices()])
        self.offer("hours", [("", "my last shift"), *hours])

    def clean_since(self) -> int | None:
        """Return the typed time, Unix ms. Raises ValidationError."""
        typed = self.cleaned_data["since"]
        if not typed:
            return None
        at = typed_end(typed, str(self.data.get("zone", ""))[:64], 0)
        if at > self.now:
            raise forms.ValidationError("This time is in the future; expected a past one.")
        if at < self.now - OLDEST_MS:
            raise forms.ValidationError("Expected a time of the last 30 days.")
        return at

    def chosen(self, user: User) -> Since:
        """Return the time to look back to, of a valid form: typed, chosen, or of the user's last
        shift."""
        data, oldest = self.cleaned_data, self.now - OLDEST_MS
        at = data["since"] or data["at"]
        if at is not None:
            return Since(min(max(at, oldest), self.now), "as chosen")
        if data["hours"]:
            return Since(self.now - int(data["hours"]) * HOUR_MS, "as chosen")
        last = acknowledgements.last_shift(user, self.now)
        return Since(max(last.at, oldest), last.why)


def _known(form: SinceForm) -> dict[str, Scenario]:
    name = form.cleaned_data["scenario"]
    return {name: scenarios()[name]} if name else dict(scenarios())


@require_safe
@never_cache
@role_required("read", OPERATORS)
def handover(request: HttpRequest) -> HttpResponse:
    """Return the page; to a script, the part of it that renews itself."""
    if not is_fragment(request):
        acknowledgements.record_presence(user_of(request), now_ms())
    form = SinceForm(request.GET, now_ms())
    return _page(request, form, HandoverForm(), 200 if form.is_valid() else 422)


def _page(request: HttpRequest, form: SinceForm, text: HandoverForm, status: int) -> HttpResponse:
    user, now = user_of(request), form.now
    context: dict[str, Any] = {"now": now, "form": form, "text": text}
    if form.is_valid():
        since = form.chosen(user)
        known = _known(form)
        query = urlencode({"scenario": form.cleaned_data["scenario"], "at": since.at})
        context |= {
            "found": situation(known, user.get_username(), since.at, now),
            "incident_table": INCIDENTS,
            "pin_table": PINS,
            "move_table": MOVES,
            "troubles": problems(now),
            "since": since,
            "query": query,
            "address": f"{reverse('handover:handover')}?{query}",
        }
    context |= {
        "may_hand_over": may(user, "command"),
        "shift": Shift.objects.current(user, now),
        "shift_ms": SHIFT_MS,
        "few": FEW,
    }
    return render_page(request, "handover/handover", context, status=status)


@require_safe
@never_cache
@role_required("read", OPERATORS)
def as_text(request: HttpRequest) -> HttpResponse:
    """Return the page as Markdown."""
    form = SinceForm(request.GET, now_ms())
    if not form.is_valid():
        return unprocessable(faults_of(form))
    current = _found(form, user_of(request))
    return HttpResponse(as_markdown(current), content_type="text/markdown; charset=utf-8")


def _found(form: SinceForm, user: User) -> Situation:
    return situation(_known(form), user.get_username(), form.chosen(user).at, form.now)


# ---- the marks of a shift -------------------------------------------------------------------


@form_of("handover:handover")
@role_required("command")
def shift(request: HttpRequest, step: str) -> HttpResponseBase:
    """Begin a shift, end it, or store its text, and redirect to the page.

    step: `begin`, `end`, or `text`: what was written for the next shift, which `end` keeps too.
    Raises Http404.
    """
    user, now = user_of(request), now_ms()
    if step not in ("begin", "end", "text"):
        raise Http404
    form = HandoverForm(request.POST)
    try:
        LIMIT.take(user.pk, now)
    except TooMany as error:
        form.is_valid()
        form.add_error(None, str(error))
        return _again(request, form, 429)
    if step == "begin":
        return _begin(request, user, now)
    written = bool(request.POST.get("text", "").strip())
    if (written or step == "text") and not form.is_valid():
        return _again(request, form, 422)
    if written:
        if Handover.objects.leave(user, form.cleaned_data["text"], now):
            audit(Actor.of(request), "handover.written", text=form.cleaned_data["text"])
        messages.success(request, "The text is saved for the next shift.")
    if step == "end":
        Shift.objects.end(user, now)
        audit(Actor.of(request), "shift.ended")
        messages.success(request, "Your shift has ended. The next handover begins here.")
    return redirect("handover:handover")


def _begin(request: HttpRequest, user: User, now: int) -> HttpResponseBase:
    Shift.objects.take_over(user, now)
    audit(Actor.of(request), "shift.began")
    messages.success(request, "Your shift has begun.")
    return redirect("handover:handover")


def _again(request: HttpRequest, form: HandoverForm, status: int) -> HttpResponseBase:
    return _page(request, SinceForm({}, now_ms()), form, status)
