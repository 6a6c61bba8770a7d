"""Many letters at once: review them, then redrive or discard them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.accounts import models
from dashboard.core.common.access import REPORTS, TooMany, form_of, role_required, takes, user_of
from dashboard.core.common.tables import Table
from dashboard.core.common.times import now_ms
from dashboard.operate.dead_letters.diagnosis import RecordFault
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.operate.dead_letters.queries import MAX_MANY, LetterFilterForm, ManyForm, WhyForm
from dashboard.operate.dead_letters.redrive import (
    RedriveOutcome,
    Sending,
    discard,
    log_discarded,
    log_redriven,
    redrive,
)
from dashboard.operate.dead_letters.validation import RecordVerdict, judge
from dashboard.operate.dead_letters.views import ADMINS

MAX_LISTED = 200
"""Most letters that a review lists; the rest are only counted."""
REFUSED = Table("", "Letter", "Asset", "Reason now", "What is wrong")
OUTCOMES = Table("", "Letter", "Asset", "Outcome", "New place")
NOTHING = "No letter is selected: select some in the list."


class LetterSelection(NamedTuple):
    """The open letters, how many other letters were named, and how many more the filter finds."""

    letters: list[DeadLetter]
    not_open: int = 0
    beyond: int = 0


class Reviewed(NamedTuple):
    """A letter, and what would happen if it were redriven unchanged."""

    letter: DeadLetter
    verdict: RecordVerdict


@require_http_methods(["GET", "HEAD", "POST"])
@role_required("report", ADMINS)
@takes("draft")
def review(request: HttpRequest) -> HttpResponse:
    """Store the selection, then show what would happen to each letter before anything is done."""
    if request.method == "POST":
        return _chosen_for_review(request)
    data = models.find_draft(request, "dead-letters")
    if data is None:
        return redirect("dead_letters:letters")
    do = data.get("do", "")
    chosen, _ = _chosen(data, every=do.endswith("-all"))
    if do.startswith("discard"):
        return _review_discard(request, chosen, WhyForm())
    return _review_redrive(request, chosen)


def _chosen_for_review(request: HttpRequest) -> HttpResponse:
    do = request.POST.get("do", "")
    chosen, fault = _chosen(request.POST, every=do.endswith("-all"))
    if fault or do.removesuffix("-all") not in ("redrive", "discard"):
        return _refused(request, fault or "do: expected redrive or discard")
    if not chosen.letters:
        return _refused(request, NOTHING)
    named = {key: request.POST.getlist(key) for key in ("do", "id", "ids", "filter")}
    draft = models.keep_draft(request, "dead-letters", named)
    return redirect(reverse("dead_letters:review") + draft)


def _review_redrive(request: HttpRequest, chosen: LetterSelection) -> HttpResponse:
    now = now_ms()
    reviewed = [Reviewed(letter, verdict_of(letter, now)) for letter in chosen.letters]
    good = [each.letter.pk for each in reviewed if each.verdict.taken]
    bad = [each for each in reviewed if not each.verdict.taken]
    doubtful = sum(each.verdict.taken and each.verdict.doubt for each in reviewed)
    context = {
        "chosen": chosen,
        "good": good,
        "doubtful": doubtful,
        "ids": ",".join(map(str, good)),
        "table": REFUSED,
        "bad": bad[:MAX_LISTED],
        "bad_count": len(bad),
        "bad_reasons": Counter(each.verdict.reason for each in bad).most_common(),
        "most": MAX_MANY,
    }
    return render(request, "dead_letters/review.html", context)


@form_of("dead_letters:letters")
@role_required("report", ADMINS)
def redrive_many(request: HttpRequest) -> HttpResponse:
    """Redrive the letters unchanged; each is judged again and has its own outcome."""
    chosen, fault = _chosen(request.POST)
    if fault or not (chosen.letters or chosen.not_open):
        return _refused(request, fault or NOTHING)
    user, now = user_of(request), now_ms()
    try:
        REPORTS.take(user.pk, now, max(1, len(chosen.letters)))
    except TooMany as error:
        return _refused(request, str(error), 429)
    sendings, outcomes = [], []
    for letter in chosen.letters:
        verdict = verdict_of(letter, now)
        sending = Sending(letter, letter.record_key, letter.record_value, verdict.partition)
        if verdict.taken:
            sendings.append(sending)
        else:
            text = f"still refused: {verdict.reason}"
            outcomes.append(RedriveOutcome(sending, "unsent", text))
    outcomes = redrive(sendings, user.username, now_ms) + outcomes
    log_redriven(request, outcomes)
    return _to_outcomes(request, _redriven(outcomes, chosen))


@form_of("dead_letters:letters")
@role_required("report", ADMINS)
def discard_many(request: HttpRequest) -> HttpResponse:
    """Discard the letters, all for the same reason."""
    chosen, fault = _chosen(request.POST)
    if fault or not (chosen.letters or chosen.not_open):
        return _refused(request, fault or NOTHING)
    form = WhyForm(request.POST)
    if not form.is_valid():
        return _review_discard(request, chosen, form, 422)
    ids = [letter.pk for letter in chosen.letters]
    done = discard(ids, request.user.get_username(), form.cleaned_data["why"], now_ms())
    log_discarded(request, ids, done, form.cleaned_data["why"])
    return _to_outcomes(request, {"discarded": done, "not_open": chosen.not_open + len(ids) - done})


@require_safe
@role_required("report", ADMINS)
@takes("draft")
def outcomes(request: HttpRequest) -> HttpResponse:
    """Show what became of letters that were redriven or discarded."""
    data = models.find_draft(request, "outcomes")
    if data is None:
        return redirect("dead_letters:letters")
    context = json.loads(data.get("context", "{}")) | {"table": OUTCOMES}
    return render(request, "dead_letters/outcomes.html", context)


def verdict_of(letter: DeadLetter, now: int) -> RecordVerdict:
    """Return what the job would make of the unchanged letter. now: Unix ms."""
    if not letter.whole:
        fault = RecordFault("only its beginning was stored: its producer must send it again")
        return RecordVerdict(None, reason="cut off", fault=fault)
    return judge(letter.topic, letter.record_key, letter.record_value, now)


def _chosen(data: QueryDict, *, every: bool = False) -> tuple[LetterSelection, str]:
    """Return the letters that a form names, and what is wrong with the form, or ""."""
    if every:
        return _filtered(data)
    named = ",".join(data.getlist("id")) or data.get("ids", "")
    form = ManyForm({"ids": named})
    if not form.is_valid():
        return LetterSelection([]), f"ids: expected at most {MAX_MANY:,} numbers"
    ids = form.cleaned_data["ids"]
    letters = list(DeadLetter.objects.open().filter(pk__in=ids).order_by("id"))
    return LetterSelection(letters, len(ids) - len(letters)), ""


def _filtered(data: QueryDict) -> tuple[LetterSelection, str]:
    """Return the oldest open letters that pass the filter, and what is wrong with it, or ""."""
    form = LetterFilterForm(QueryDict(data.get("filter", "")))
    if not form.is_valid():
        return LetterSelection([]), "filter: expected the list's own"
    rows = form.criteria().rows().open()
    letters = list(rows.order_by("appended_at", "id")[:MAX_MANY])
    beyond = rows.count() - len(letters) if len(letters) == MAX_MANY else 0
    return LetterSelection(letters, beyond=beyond), ""


def _review_discard(
    request: HttpRequest, chosen: LetterSelection, form: WhyForm, status: int = 200
) -> HttpResponse:
    context = {
        "chosen": chosen,
        "ids": ",".join(str(letter.pk) for letter in chosen.letters),
        "reasons": Counter(letter.reason for letter in chosen.letters).most_common(),
        "why_form": form,
        "most": MAX_MANY,
    }
    return render(request, "dead_letters/discard.html", context, status=status)


def _redriven(outcomes: list[RedriveOutcome], chosen: LetterSelection) -> dict[str, Any]:
    """Return what became of each letter, in the form stored for the outcomes page."""
    counts = Counter(outcome.became for outcome in outcomes)
    counts["taken"] += chosen.not_open
    return {"outcomes": [_plain(each) for each in outcomes], "counts": counts}


def _plain(outcome: RedriveOutcome) -> dict[str, Any]:
    letter, place = outcome.sending.letter, outcome.place
    where = f"{place.topic} {place.partition}/{place.offset}" if place else ""
    line = {"letter": letter.pk, "asset": letter.asset, "place": where}
    return line | {"became": outcome.became, "text": outcome.text}


def _to_outcomes(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    draft = models.keep_draft(request, "outcomes", {"context": json.dumps(context)})
    return redirect(reverse("dead_letters:outcomes") + draft)


def _refused(request: HttpRequest, fault: str, status: int = 422) -> HttpResponse:
    return render(request, "dead_letters/refused.html", {"fault": fault}, status=status)
