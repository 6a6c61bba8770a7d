"""Many letters at once: reviewed first, then sent again as they are, or discarded."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_POST

from dashboard.accounts.access import role_required
from dashboard.commands.limits import REPORTS, TooMany
from dashboard.commands.sending import now_ms
from dashboard.deadletters.fates import Outcome, Sending, discard, redrive
from dashboard.deadletters.faults import Fault
from dashboard.deadletters.forms import MAX_MANY, FilterForm, ManyForm, WhyForm
from dashboard.deadletters.judging import Verdict, judge
from dashboard.deadletters.models import OPEN, DeadLetter
from dashboard.deadletters.noting import note_discarded, note_redriven
from dashboard.deadletters.stored import key_of, value_of
from dashboard.deadletters.views import ADMINS

MAX_LISTED = 200
"""Most letters that a review lists; the others are counted."""
NOTHING = "Nothing is chosen: choose letters in the list."


class Chosen(NamedTuple):
    """Letters that are open, how many others were named, and how many more a filter finds."""

    letters: list[DeadLetter]
    not_open: int = 0
    beyond: int = 0


class Reviewed(NamedTuple):
    """A letter, and what would become of it as it is."""

    letter: DeadLetter
    verdict: Verdict


@require_POST
@role_required("report", ADMINS)
def review(request: HttpRequest) -> HttpResponse:
    """Show what would become of the chosen letters, before anything does."""
    do = request.POST.get("do", "")
    chosen, fault = _chosen(request.POST, every=do.endswith("-all"))
    if fault or do.removesuffix("-all") not in ("redrive", "discard"):
        return _refused(request, fault or "do: expected redrive or discard")
    if not chosen.letters:
        return _refused(request, NOTHING)
    if do.startswith("discard"):
        return _review_discard(request, chosen, WhyForm())
    now = now_ms()
    reviewed = [Reviewed(letter, verdict_of(letter, now)) for letter in chosen.letters]
    good = [each.letter.pk for each in reviewed if each.verdict.taken]
    bad = [each for each in reviewed if not each.verdict.taken]
    context = {
        "chosen": chosen,
        "good": good,
        "ids": ",".join(map(str, good)),
        "bad": bad[:MAX_LISTED],
        "bad_count": len(bad),
        "bad_reasons": Counter(each.verdict.reason for each in bad).most_common(),
        "most": MAX_MANY,
    }
    return render(request, "deadletters/review.html", context)


@require_POST
@role_required("report", ADMINS)
def redrive_many(request: HttpRequest) -> HttpResponse:
    """Redrive the letters as they are; each is looked at once more, and told of by itself."""
    chosen, fault = _chosen(request.POST)
    if fault or not (chosen.letters or chosen.not_open):
        return _refused(request, fault or NOTHING)
    user, now = request.user, now_ms()
    assert isinstance(user, User)
    try:
        REPORTS.take(user.pk, now, max(1, len(chosen.letters)))
    except TooMany as error:
        return _refused(request, str(error), 429)
    sendings, outcomes = [], []
    for letter in chosen.letters:
        verdict = verdict_of(letter, now)
        sending = Sending(letter, key_of(letter), value_of(letter), verdict.partition)
        if verdict.taken:
            sendings.append(sending)
        else:
            text = f"still refused: {verdict.reason}"
            outcomes.append(Outcome(sending, "unsent", text))
    outcomes = redrive(sendings, user.username, now_ms) + outcomes
    note_redriven(request, outcomes)
    return render(request, "deadletters/outcomes.html", _told(outcomes, chosen))


@require_POST
@role_required("report", ADMINS)
def discard_many(request: HttpRequest) -> HttpResponse:
    """Discard the letters, for one reason."""
    chosen, fault = _chosen(request.POST)
    if fault or not (chosen.letters or chosen.not_open):
        return _refused(request, fault or NOTHING)
    form = WhyForm(request.POST)
    if not form.is_valid():
        return _review_discard(request, chosen, form, 422)
    ids = [letter.pk for letter in chosen.letters]
    done = discard(ids, request.user.get_username(), form.cleaned_data["why"], now_ms())
    note_discarded(request, ids, done, form.cleaned_data["why"])
    context = {"discarded": done, "not_open": chosen.not_open + len(ids) - done}
    return render(request, "deadletters/outcomes.html", context)


def verdict_of(letter: DeadLetter, now: int) -> Verdict:
    """What the job would make of the letter as it is."""
    if not letter.whole:
        fault = Fault("only its beginning was kept: its producer must send it again")
        return Verdict(None, reason="cut off", fault=fault)
    return judge(letter.topic, key_of(letter), value_of(letter), now)


def _chosen(data: QueryDict, *, every: bool = False) -> tuple[Chosen, str]:
    """The letters that a form names, or what is wrong with it."""
    if every:
        return _all_found(data)
    named = ",".join(data.getlist("id")) or data.get("ids", "")
    form = ManyForm({"ids": named})
    if not form.is_valid():
        return Chosen([]), f"ids: expected at most {MAX_MANY:,} numbers"
    ids = form.cleaned_data["ids"]
    found = list(DeadLetter.objects.filter(pk__in=ids, fate=OPEN).order_by("id"))
    return Chosen(found, len(ids) - len(found)), ""


def _all_found(data: QueryDict) -> tuple[Chosen, str]:
    """The oldest letters among those that are open and pass the filter."""
    form = FilterForm(QueryDict(data.get("filter", "")[:4_000]))
    if not form.is_valid():
        return Chosen([]), "filter: expected the list's own"
    rows = form.wanted().rows().filter(fate=OPEN)
    found = list(rows.order_by("appended_at", "id")[:MAX_MANY])
    beyond = rows.count() - len(found) if len(found) == MAX_MANY else 0
    return Chosen(found, beyond=beyond), ""


def _review_discard(
    request: HttpRequest, chosen: Chosen, form: WhyForm, status: int = 200
) -> HttpResponse:
    context = {
        "chosen": chosen,
        "ids": ",".join(str(letter.pk) for letter in chosen.letters),
        "reasons": Counter(letter.reason for letter in chosen.letters).most_common(),
        "why_form": form,
        "most": MAX_MANY,
    }
    return render(request, "deadletters/discard.html", context, status=status)


def _told(outcomes: list[Outcome], chosen: Chosen) -> dict[str, Any]:
    counts = Counter(outcome.became for outcome in outcomes)
    counts["taken"] += chosen.not_open
    return {"outcomes": outcomes, "counts": counts}


def _refused(request: HttpRequest, fault: str, status: int = 422) -> HttpResponse:
    return render(request, "deadletters/refused.html", {"fault": fault}, status=status)
