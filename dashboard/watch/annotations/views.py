"""Acknowledging, taking back, and notes: by forms without JavaScript, and by the board's keys."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.core.audit.log import Actor
from dashboard.core.audit.log import record as audit
from dashboard.core.common.access import TooMany, form_of, is_fragment, role_required
from dashboard.core.common.scenarios import scenario_or_404
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.acknowledgements import (
    AckOutcome,
    acknowledge,
    record_presence,
    shift_ends,
    take_back,
)
from dashboard.watch.annotations.forms import AckForm, NoteForm, assets_of
from dashboard.watch.annotations.models import Note
from domain.names import name_ok
from domain.scenario import Scenario

# Of more assets at once the audit has one entry.
LOGGED_EACH = 20


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    record_presence(request.user, now_ms())
    return request.user


# ---- acknowledgements ---------------------------------------------------------------------


@form_of("board:scenario", "scenario")
@role_required("command")
def acknowledge_many(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Acknowledge the named assets; to a script, return the result of each as JSON."""
    known, user, now = scenario_or_404(scenario), _user(request), now_ms()
    form = AckForm(now, shift_ends(user, now), request.POST)
    assets = _assets(form, request)
    if assets and form.is_valid():
        until, reason = form.cleaned_data["until"], form.cleaned_data["reason"]
        try:
            outcome = acknowledge(known, assets, user, reason, until, now)
        except TooMany as error:
            form.add_error(None, str(error))
            return _refused(request, known, assets, form, 429)
        facts = {"until": until, "reason": reason}
        _audited(request, "asset.acknowledged", scenario, outcome.taken, **facts)
        words = outcome.words(known, "Acknowledged {}", "Not acknowledged")
        return _outcome_response(request, known, assets, words, outcome)
    return _refused(request, known, assets, form, 422)


def _audited(
    request: HttpRequest, action: str, scenario: str, assets: list[str], **facts: Any
) -> None:
    """Log an entry of the audit for each asset; of very many, one for all."""
    actor = Actor.of(request)
    if len(assets) > LOGGED_EACH:
        words = f"{len(assets)} assets"
        audit(actor, action, scenario=scenario, target=words, assets=assets, **facts)
        return
    for asset in assets:
        audit(actor, action, scenario=scenario, target=asset, **facts)


def _assets(form: forms.Form, request: HttpRequest) -> list[str]:
    """Return the assets named; none where they cannot be read, which the form reports."""
    try:
        return assets_of(request.POST.getlist("asset"))
    except forms.ValidationError as error:
        form.full_clean()
        form.add_error(None, error)
        return []


@form_of("board:scenario", "scenario")
@role_required("command")
def take_back_many(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Take back the acknowledgements in force of the named assets."""
    known, user = scenario_or_404(scenario), _user(request)
    form = forms.Form(request.POST)
    assets = _assets(form, request)
    if not assets:
        return _refused(request, known, [], form, 422)
    try:
        ended = take_back(known, assets, user, now_ms())
    except TooMany as error:
        form.full_clean()
        form.add_error(None, str(error))
        return _refused(request, known, assets, form, 429)
    _audited(request, "asset.unacknowledged", scenario, ended)
    words = f"Taken back: {len(ended)}." if ended else "Nothing was left to acknowledge."
    return _outcome_response(request, known, assets, words, AckOutcome(ended, []))


def _outcome_response(
    request: HttpRequest, scenario: Scenario, assets: list[str], words: str, outcome: AckOutcome
) -> HttpResponseBase:
    if _is_script(request):
        return JsonResponse({"words": words, "taken": outcome.taken, "left": outcome.left})
    if is_fragment(request):
        return _forms(request, scenario, assets[0], words=words)
    messages.success(request, words)
    return redirect(_back(scenario, assets))


def _refused(
    request: HttpRequest, scenario: Scenario, assets: list[str], form: forms.Form, status: int
) -> HttpResponseBase:
    faults = {name: [str(each) for each in errors] for name, errors in form.errors.items()}
    if _is_script(request) or not assets:
        return JsonResponse({"errors": faults}, status=status)
    ack = form if isinstance(form, AckForm) else None
    note = form if isinstance(form, NoteForm) else None
    return _forms(request, scenario, assets[0], ack=ack, note=note, status=status)


def _is_script(request: HttpRequest) -> bool:
    return request.headers.get("Accept", "") == "application/json"


def _back(scenario: Scenario, assets: list[str]) -> str:
    if len(assets) == 1:
        return asset_path(scenario.name, assets[0])
    return f"{reverse('board:board')}?scenario={scenario.name}"


# ---- notes --------------------------------------------------------------------------------


@form_of("board:asset", "scenario", "asset")
@role_required("command")
def write_note(request: HttpRequest, scenario: str, asset: str) -> HttpResponseBase:
    """Add a note to an asset, whether it is on the board or not."""
    known, user = scenario_or_404(scenario), _user(request)
    if not name_ok(asset):
        raise Http404
    form = NoteForm(request.POST)
    if not form.is_valid():
        return _forms(request, known, asset, note=form, status=422)
    text = form.cleaned_data["text"]
    try:
        acknowledgements.write_note(scenario, asset, user, text, now_ms())
    except (acknowledgements.NoteRefused, TooMany) as error:
        form.add_error(None, str(error))
        status = 429 if isinstance(error, TooMany) else 409
        return _forms(request, known, asset, note=form, status=status)
    audit(Actor.of(request), "note.written", scenario=scenario, target=asset, text=text)
    return _after(request, known, asset, "Note written.")


@form_of("board:scenario", "scenario")
@role_required("command")
def write_note_of_many(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Add the same note to the named assets, and return to a script what became of each as JSON."""
    known, user = scenario_or_404(scenario), _user(request)
    form = NoteForm(request.POST)
    assets = _assets(form, request)
    if not assets or not form.is_valid():
        return _refused(request, known, assets, form, 422)
    text = form.cleaned_data["text"]
    try:
        outcome = acknowledgements.write_notes(scenario, assets, user, text, now_ms())
    except TooMany as error:
        form.add_error(None, str(error))
        return _refused(request, known, assets, form, 429)
    _audited(request, "note.written", scenario, outcome.taken, text=text)
    words = outcome.words(known, "Noted on {}", "Not noted")
    return _outcome_response(request, known, assets, words, outcome)


@require_http_methods(["GET", "POST"])
@role_required("command")
def edit_note(request: HttpRequest, number: int) -> HttpResponseBase:
    """Edit one's own note."""
    note, user, now = _note(number), _user(request), now_ms()
    known = scenario_or_404(note.scenario)
    if request.method == "GET":
        if not note.may_be_edited_by(user, now):
            return _after(request, known, note.asset, "It can no longer be edited.")
        return _forms(request, known, note.asset, note=NoteForm(text=note.text), edited=note)
    form = NoteForm(request.POST)
    if not form.is_valid():
        return _forms(request, known, note.asset, note=form, edited=note, status=422)
    before, text = note.text, form.cleaned_data["text"]
    try:
        acknowledgements.edit_note(note, user, text, now)
    except (acknowledgements.NoteRefused, TooMany) as error:
        form.add_error(None, str(error))
        status = 429 if isinstance(error, TooMany) else 403
        return _forms(request, known, note.asset, note=form, edited=note, status=status)
    audit(Actor.of(request), "note.written", scenario=note.scenario, target=note.asset,
          outcome="edited", text=text, before=before)  # fmt: skip
    return _after(request, known, note.asset, "Note changed.")


@form_of("annotations:edit-note", "number")
@role_required("command")
def delete_note(request: HttpRequest, number: int) -> HttpResponseBase:
    """Delete one's own note: it is kept, but no longer shown."""
    note, user = _note(number), _user(request)
    known = scenario_or_404(note.scenario)
    try:
        acknowledgements.delete_note(note, user, now_ms())
    except acknowledgements.NoteRefused as error:
        return _forms(request, known, note.asset, words=str(error), status=403)
    audit(Actor.of(request), "note.removed", scenario=note.scenario, target=note.asset,
          text=note.text)  # fmt: skip
    return _after(request, known, note.asset, "Note deleted.")


def _note(number: int) -> Note:
    return get_object_or_404(Note.objects.shown(), pk=number)


def _after(request: HttpRequest, scenario: Scenario, asset: str, words: str) -> HttpResponseBase:
    if is_fragment(request):
        return _forms(request, scenario, asset, words=words)
    messages.success(request, words)
    return redirect(asset_path(scenario.name, asset))


# ---- what comes back -----------------------------------------------------------------------


def _forms(
    request: HttpRequest, scenario: Scenario, asset: str, *, status: int = 200, **more: Any
) -> HttpResponse:
    """Return the forms of an asset again: a part of its page to htmx, else a page of their own."""
    context = forms_of(scenario, asset, _user(request), now_ms(), **more)
    if is_fragment(request):  # htmx swaps only what succeeds
        return render(request, "annotations/_forms.html", context)
    return render(request, "annotations/page.html", context, status=status)


def forms_of(
    scenario: Scenario,
    asset: str,
    user: User,
    now: int,
    *,
    ack: AckForm | None = None,
    note: NoteForm | None = None,
    edited: Note | None = None,
    words: str = "",
) -> dict[str, Any]:
    """Return the context of `annotations/_forms.html`. ack, note: the submitted form, if any;
    words: what was done."""
    return {
        "scenario": scenario,
        "asset": asset,
        "asset_url": asset_path(scenario.name, asset),
        "ack": ack or AckForm(now, shift_ends(user, now)),
        "ack_open": ack is not None,
        "note": note or NoteForm(),
        "note_open": note is not None,
        "edited": edited,
        "words": words,
        "may_annotate": True,
    }
