"""The list of dead letters, and the page of one: looked at, mended, sent again, discarded."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import form_of, is_fragment, role_required
from dashboard.core.kafka import NotSigned, gateway
from dashboard.core.rate_limits import REPORTS, TooMany
from dashboard.core.roles import Role
from dashboard.core.times import DAY_MS, now_ms
from dashboard.dead_letters.audit_entries import note_discarded, note_redriven
from dashboard.dead_letters.detail import letter_context
from dashboard.dead_letters.forms import MAX_MANY, FilterForm, RecordForm, WhyForm
from dashboard.dead_letters.models import FATES, DeadLetter
from dashboard.dead_letters.queries import PAGE, Wanted, figures, page
from dashboard.dead_letters.redrive import Sending, discard, find_out, redrive
from dashboard.dead_letters.retention import KEPT_MS, MAX_LETTERS, deleted_count
from dashboard.dead_letters.stored_records import key_of, value_of
from dashboard.dead_letters.validation import Verdict, judge
from domain.records import Command

ADMINS = frozenset((Role.ADMIN,))


@require_safe
@never_cache
@role_required("read", ADMINS)
def letters(request: HttpRequest) -> HttpResponse:
    """The letters that pass the filter; to a script, the figures, which renew themselves."""
    form, now = FilterForm(request.GET), now_ms()
    valid = form.is_valid()
    wanted = form.wanted() if valid else Wanted()
    context = _list_context(request, wanted, now) | {"form": form}
    if is_fragment(request):
        return render(request, "dead_letters/_figures.html", context)
    found = page(wanted) if valid else None
    context["page"] = found
    if found and found.following:
        context["next"] = wanted.query(after=found.following)
    return render(request, "dead_letters/letters.html", context, status=200 if valid else 422)


def _list_context(request: HttpRequest, wanted: Wanted, now: int) -> dict[str, Any]:
    return {
        "figures": figures(wanted, now),
        "wanted": wanted,
        "now": now,
        "address": request.get_full_path(),
        "shown_up_to": request.GET.get("seen", ""),
        "fates": FATES,
        "page_size": PAGE,
        "most": MAX_MANY,
        "thinned": deleted_count(),
        "kept_days": KEPT_MS // DAY_MS,
        "kept_rows": MAX_LETTERS,
    }


@require_safe
@never_cache
@role_required("read", ADMINS)
def letter(request: HttpRequest, number: int) -> HttpResponse:
    """One letter: what is wrong with it, as it came, and what can be done."""
    return _letter_page(request, _found(number))


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def redrive_one(request: HttpRequest, number: int) -> HttpResponse:
    """Send the record as the form has it, if the job would take it."""
    found, form = _found(number), RecordForm(request.POST)
    if not form.is_valid():
        return _letter_page(request, found, form=form, status=422)
    key, value = form.record()
    edited = (key, value) != (key_of(found), value_of(found))
    user = _user(request)
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
    user = _user(request)
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
        return _letter_page(request, _found(found.pk), form=form, status=status)
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
    found, form = _found(number), WhyForm(request.POST)
    if not form.is_valid():
        return _letter_page(request, found, why_form=form, status=422)
    done = discard([found.pk], _user(request).username, form.cleaned_data["why"], now_ms())
    note_discarded(request, [found.pk], done, form.cleaned_data["why"])
    if not done:
        form.add_error(None, "Somebody has dealt with it already.")
        return _letter_page(request, _found(number), why_form=form, status=409)
    messages.success(request, "Discarded.")
    return redirect("dead_letters:letter", found.pk)


@form_of("dead_letters:letter", "number")
@role_required("report", ADMINS)
def find_out_one(request: HttpRequest, number: int) -> HttpResponse:
    """Look in the log for a record that Kafka has not confirmed."""
    found = _found(number)
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


def _found(number: int) -> DeadLetter:
    found = DeadLetter.objects.filter(pk=number).first()
    if found is None:
        raise Http404
    return found


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
