"""The list of dead letters, and the page of one: looked at, mended, sent again, discarded."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import form_of, is_fragment, role_required, user_of
from dashboard.core.kafka_gateway import NotSigned, gateway
from dashboard.core.rate_limits import REPORTS, TooMany
from dashboard.core.roles import Role
from dashboard.core.tables import Pager
from dashboard.core.times import DAY_MS, now_ms
from dashboard.dead_letters.detail import letter_context
from dashboard.dead_letters.forms import MAX_MANY, FilterForm, RecordForm, WhyForm
from dashboard.dead_letters.models import FATES, DeadLetter
from dashboard.dead_letters.queries import LETTERS, Wanted, figures, page
from dashboard.dead_letters.redrive import (
    Sending,
    discard,
    find_out,
    note_discarded,
    note_redriven,
    redrive,
)
from dashboard.dead_letters.retention import KEPT_MS, MAX_LETTERS, deleted_count
from dashboard.dead_letters.stored_records import key_of, value_of
from dashboard.dead_letters.validation import Verdict, judge
from domain.records import Command

ADMINS = frozenset((Role.ADMIN,))


@require_safe
@never_cache
@role_required("read", ADMINS)
def letters(request: HttpRequest) -> HttpResponse:
    """List the letters that pass the filter; for a script, the figures that refresh themselves."""
    form, now = FilterForm(request.GET), now_ms()
    valid = form.is_valid()
    wanted = form.wanted() if valid else Wanted()
    context = _list_context(request, wanted, now) | {"form": form}
    if is_fragment(request):
        return render(request, "dead_letters/_figures.html", context)
    found = page(wanted) if valid else None
    following = found.following if found else None
    context |= {
        "page": found,
        "table": LETTERS.ordered(wanted.sort, lambda order: f"?{wanted.query(sort=order)}"),
        "pager": Pager.by_key(wanted.query(), "after", wanted.after, following),
    }
    return render(request, "dead_letters/letters.html", context, status=200 if valid else 422)


def _list_context(request: HttpRequest, wanted: Wanted, now: int) -> dict[str, Any]:
    return {
        "figures": figures(wanted, now),
        "wanted": wanted,
        "now": now,
        "address": request.get_full_path(),
        "shown_up_to": request.GET.get("seen", ""),
        "fates": FATES,
        "most": MAX_MANY,
        "thinned": deleted_count(),
        "kept_days": KEPT_MS // DAY_MS,
        "kept_rows": MAX_LETTERS,
    }


@require_safe
@never_cache
@role_required("read", ADMINS)
def letter(request: HttpRequest, number: int) -> HttpResponse:
    """Render one letter: what is wrong with it, as it came, and what can be done."""
    return _letter_page(request, get_object_or_404(DeadLetter, pk=number))


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def redrive_one(request: HttpRequest, number: int) -> HttpResponse:
    """Send the record as the form has it, if the job would take it."""
    found, form = get_object_or_404(DeadLetter, pk=number), RecordForm(request.POST)
    if not form.is_valid():
        return _letter_page(request, found, form=form, status=422)
    key, value = form.record()
    edited = (key, value) != (key_of(found), value_of(found))
    user = user_of(request)
    verdict = judge(found.topic, key, value, now_ms(), user.username if edited else "")
    if not verdict.taken:
        return _letter_page(request, found, form=form, verdict=verdict, status=422)
    if edited and isinstance(verdict.record, Command):  # in the name of who words it
        try:
            value = gateway().signed(found.topic, key, value.strip())
        except NotSigned as problem:
            form.add_error(None, str(problem))
            return _letter_page(request, found, form=form, status=503)
    return _redrive(request, found, Sending(found, key, value, verdict.partition, edited), form)


def _redrive(
    request: HttpRequest, found: DeadLetter, sending: Sending, form: RecordForm
) -> HttpResponse:
    user = user_of(request)
    try:
        REPORTS.take(user.pk, now_ms())
    except TooMany as error:
        form.add_error(None, str(error))
        return _letter_page(request, found, form=form, status=429)
    (outcome,) = redrive([sending], user.username, now_ms)
    note_redriven(request, [outcome])
    if outcome.became in ("unsent", "taken"):
        form.add_error(None, outcome.text)
        status = 503 if outcome.became == "unsent" else 409
        found.refresh_from_db()
        return _letter_page(request, found, form=form, status=status)
    if outcome.place is None:
        messages.error(request, outcome.text)
    else:
        place = outcome.place
        text = f"Redriven: partition {place.partition}, offset {place.offset}."
        messages.success(request, text)
    return redirect("dead_letters:letter", found.pk)


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def discard_one(request: HttpRequest, number: int) -> HttpResponse:
    """Discard the letter, for a reason."""
    found, form = get_object_or_404(DeadLetter, pk=number), WhyForm(request.POST)
    if not form.is_valid():
        return _letter_page(request, found, why_form=form, status=422)
    done = discard([found.pk], user_of(request).username, form.cleaned_data["why"], now_ms())
    note_discarded(request, [found.pk], done, form.cleaned_data["why"])
    if not done:
        form.add_error(None, "Somebody has handled it already.")
        found.refresh_from_db()
        return _letter_page(request, found, why_form=form, status=409)
    messages.success(request, "Discarded.")
    return redirect("dead_letters:letter", found.pk)


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def find_out_one(request: HttpRequest, number: int) -> HttpResponse:
    """Look in the log for a record that Kafka has not confirmed."""
    found = get_object_or_404(DeadLetter, pk=number)
    messages.info(request, find_out(found, now_ms()))
    return redirect("dead_letters:letter", found.pk)


def _letter_page(
    request: HttpRequest,
    found: DeadLetter,
    *,
    form: RecordForm | None = None,
    why_form: WhyForm | None = None,
    verdict: Verdict | None = None,
    status: int = 200,
) -> HttpResponse:
    context = letter_context(found, now_ms(), form, why_form, verdict)
    return render(request, "dead_letters/letter.html", context, status=status)
