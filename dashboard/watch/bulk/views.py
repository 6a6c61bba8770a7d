"""The pages of bulk: a command and its assets, one run with its progress, and the list of stale
assets.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    QueryDict,
)
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.accounts import models as account_models
from dashboard.core.audit.log import Actor
from dashboard.core.common.access import (
    OPERATORS,
    Limit,
    TooMany,
    form_of,
    is_fragment,
    may,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.forms import Choice, scenario_links
from dashboard.core.common.navigation import render_page
from dashboard.core.common.resumable import start_task
from dashboard.core.common.scenarios import scenario_or_404, scenario_or_first, scenarios
from dashboard.core.common.tables import Column, ListOrder, PagePosition, Pager, Table, TableFile
from dashboard.core.common.times import exact_span, now_ms
from dashboard.core.states.filter_parser import FilterError
from dashboard.watch.bulk import forms
from dashboard.watch.bulk.forms import REASONS, BulkForm, StaleForm
from dashboard.watch.bulk.models import (
    MOST_REVIEWS,
    OUTCOMES,
    REFUSED,
    REVIEW,
    SKIPPED,
    Item,
    ItemQuerySet,
    Run,
)
from dashboard.watch.bulk.progress import log_run
from dashboard.watch.bulk.review import MOST, TargetAsset, by_names, hiding, keep
from dashboard.watch.bulk.tasks import carry_on
from domain.scenario import Scenario
from domain.version import Version

# ---- run views -----------------------------------------------------------------------------------
# The page of one run: its review, its progress, what became of each asset; and its file.

PAGE = 100
"""Assets of one page."""
ASK_ABOVE = 1_000
"""For more assets their number must be typed."""
PINS_ONLY = "replace: expected the tick, as each of these is pinned by a colleague"
PINNED = "pinned"
"""Shows the assets that colleagues had pinned at the review."""
ITEMS = Table("bulk-items", "Asset", "Was at the review", "Outcome", "Why", "In the log")
PURGED_ITEMS = Table(
    "bulk-items",
    *ITEMS.columns[:-1],
    Column.time("Last report", "age of the newest live vote of an agent at the review"),
    ITEMS.columns[-1],
)
FIELDS = (
    "asset", "was", "outcome", "why", "command", "partition", "offset", "version", "answered_at",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read")
@takes("show", "page")
def run(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return the page of a run; to a script, the part of the page that renews itself."""
    return run_page(request, _known(id))


@form_of("bulk:run", "id")
@role_required("command")
def start(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Have the worker carry out what was reviewed, in the name of who starts it, once.

    Pins of colleagues are left as they are without `replace`.
    """
    known, replace = _known(id), "replace" in request.POST
    fault = _start_fault(request, known, replace) if known.status == REVIEW else ""
    if fault:
        return run_page(request, known, fault, 422)
    if _started(request, known, replace):
        start_task(carry_on)
    return redirect("bulk:run", known.pk)


def _start_fault(request: HttpRequest, known: Run, replace: bool) -> str:
    """Return why a review cannot be started so; empty where it can."""
    name = request.user.get_username()
    colleagues = known.items.ready().pinned_by_others(name).count()
    will = known.to_send - (0 if replace else colleagues)
    if not known.matched or not will:
        return PINS_ONLY if colleagues else "Nothing of this would change."
    typed = "".join(request.POST.get("confirm", "").split()).replace(",", "")[:20]
    if will > ASK_ABOVE and typed != str(will):
        return f"confirm: expected {will}, the number of assets"
    return ""


def _started(request: HttpRequest, known: Run, replace: bool) -> bool:
    user = user_of(request)
    name = user.get_username()
    ended = known.pins(name) if replace else None
    with transaction.atomic():
        if not known.start(user, now_ms()):
            return False
        left = known.leave_new_pins(name) + (0 if replace else known.leave_pins(name))
    known.refresh_from_db()
    facts = {"pins_left": left or None, "pins_ended": dict(ended.by) if ended else None}
    log_run(Actor.of(request), known, "bulk.started", "started", **facts)
    return True


@form_of("bulk:run", "id")
@role_required("command")
def ask(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Pause a run, go on with it in one's own name, cancel it; or throw a review away."""
    known, do = _known(id), request.POST.get("do", "")
    if do == "discard" and known.status == REVIEW:
        Run.objects.reviews().filter(pk=known.pk).delete_with_items()
        return redirect("bulk:bulk")
    if do not in ("pause", "resume", "cancel", "discard"):
        fault = "do: expected pause, resume, cancel or discard"
        return run_page(request, known, fault, 422)
    if _asked(known, do, user_of(request)):
        before = known.sender_name
        known.refresh_from_db()
        action = "bulk.started" if do == "resume" else "bulk.stopped"
        taken = before if known.sender_name != before else None
        log_run(Actor.of(request), known, action, do, taken_over_from=taken)
        start_task(carry_on)
    return redirect("bulk:run", known.pk)


def _asked(known: Run, do: str, user: User) -> bool:
    """Request this of the run, if it can be requested now. Returns whether it could."""
    match do:
        case "pause":
            return known.pause(user)
        case "resume":
            return known.resume(user, now_ms())
        case "cancel":
            return known.cancel(user)
        case _:
            return False


@require_safe
@never_cache
@role_required("read")
@takes(blank=False)
def outcomes(request: HttpRequest, id: uuid.UUID) -> HttpResponseBase:  # noqa: A002 - as in the URL
    """Return the outcome of each asset as CSV."""
    known = _known(id)
    oldest_first = ListOrder("number", down=False)
    name = f"bulk-{str(known.pk)[:8]}"
    file = TableFile(name, FIELDS, partial(_plain, known), order=oldest_first)
    return file.response(request, "csv", known.items.all())


def _plain(run: Run, item: Item) -> dict[str, Any]:
    version = str(Version.parse(item.answered_version)) if item.answered_version else ""
    where = (item.partition, item.offset, version, item.answered_at)
    cells = (item.asset, item.was, run.outcome_text(item.outcome), item.text, item.command, *where)
    return dict(zip(FIELDS, cells, strict=True))


def _known(id: uuid.UUID) -> Run:  # noqa: A002 - as in the URL
    return get_object_or_404(Run, pk=id)


def _address(request: HttpRequest, known: Run) -> str:
    """Return the address from which the page renews itself: also a page that answered a form."""
    return (
        request.get_full_path() if request.method == "GET" else reverse("bulk:run", args=[known.pk])
    )


def run_page(request: HttpRequest, known: Run, fault: str = "", status: int = 200) -> HttpResponse:
    """Return the page of a run, or its part that renews itself. Raises Http404.

    fault: why a form of it was refused.
    """
    show = request.GET.get("show", "")
    if show not in ("", PINNED, *OUTCOMES):
        raise Http404
    name = request.user.get_username()
    items = Paginator(_shown(known, show, name), PAGE).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "run": known,
        "scenario": known.configured_scenario,
        "show": show,
        "table": PURGED_ITEMS if known.kind == "purge" else ITEMS,
        "items": items,
        "pager": Pager.numbered(items, f"?show={show}&page={{}}".format),
        "skipped": known.items.reasons(SKIPPED),
        "refused": known.items.reasons(REFUSED),
        "moved_on": known.items.refused_as_moved_on().count() if known.is_over else 0,
        "fault": fault,
        "ask_above": ASK_ABOVE,
        "mine": known.sender_id == request.user.pk,
        "viewer": name,
        "may_command": may(request.user, "command"),
        "address": _address(request, known),
        "now": now_ms(),
    }
    context["choices"] = _choices(known, show)
    if known.status == REVIEW:
        context["moved"] = known.moved_on() if known.unchanged else 0
        context["back"] = known.purge_returns() if known.kind == "purge" else None
        context["hiding"] = hiding(known, known.configured_scenario)
        pins = known.pins(name)
        context |= {"pins": pins, "without": known.ready - pins.n}
        if pins.n:
            title = f"Pinned by a colleague {pins.n:,}"
            context["choices"].append(Choice(title, f"?show={PINNED}", show == PINNED))
    return render_page(request, "bulk/run", context, status=status)


def _choices(run: Run, show: str) -> list[Choice]:
    lines = [("", "All", run.matched), *run.lines]
    return [
        Choice(f"{word} {n:,}", f"?show={outcome}" if outcome else "?", outcome == show)
        for outcome, word, n in lines
    ]


def _shown(known: Run, show: str, name: str) -> ItemQuerySet:
    """Return the assets that the page shows: those of a outcome, or pinned by others than this
    user."""
    items = known.items.order_by("number")
    if show == PINNED:
        return items.pinned_by_others(name)
    return items.filter(outcome=show) if show else items


# ---- bulk ----------------------------------------------------------------------------------------
# The pages of bulk: a command, the assets that it is for, and the list of runs.

LISTED = 50
"""Runs of one page of the list."""
RUNS = Table(
    "bulk-runs", "What", "Status", Column.time("Done"), Column.number("Assets"),
    Column.number("Applied"), Column.number("Refused"), "By", "Why", Column.time("Started"),
)  # fmt: skip
REVIEWS = Limit("reviews", 20)
FILLS = ("by", "q", "kind", "to", "reason", "why", "n", "unit")
"""Fields that an address or another page may fill."""
BEGINS = (*FILLS, "scenario", "asset", "state")
"""What is kept of another page's choice."""


@require_safe
@never_cache
@role_required("read")
@takes(*BEGINS, "page", "draft")
def bulk(request: HttpRequest) -> HttpResponse:
    """Return the form, as the address fills it, and the runs, the newest first."""
    form = None
    if may(request.user, "command"):
        data = account_models.find_draft(request, "bulk") or request.GET
        form = _begun(scenario_or_first(data.get("scenario", "")), data)
    return _page(request, form)


@require_safe
@never_cache
@role_required("command")
@takes("scenario", "q", "state")
def names(request: HttpRequest) -> HttpResponse:
    """Return the names that a board's filter finds as JSON, as many as a form can name.

    more: whether there are others.
    """
    scenario = scenario_or_first(request.GET.get("scenario", ""))
    text, states = request.GET.get("q", ""), request.GET.getlist("state")
    try:
        asset_names, more = forms.names_of_filter(scenario, text, states, now_ms())
    except FilterError as error:
        return JsonResponse({"problem": str(error)}, status=422)
    return JsonResponse({"names": asset_names, "more": more})


@form_of("bulk:bulk")
@role_required("command")
def review(request: HttpRequest) -> HttpResponse:
    """Keep a review of what would happen to each asset, and redirect to it.

    A choice made on another page comes without a command, or with `begin`: then the redirect leads
    to the form, filled with it.
    """
    scenario = scenario_or_404(request.POST.get("scenario", ""))
    if "kind" not in request.POST or "begin" in request.POST:
        chosen = {key: request.POST.getlist(key) for key in request.POST if key in BEGINS}
        return redirect(reverse("bulk:bulk") + account_models.keep_draft(request, "bulk", chosen))
    data = request.POST.copy()
    data.setdefault("id", str(uuid.uuid4()))  # another page's form has none
    form = BulkForm(scenario, data, request.FILES)
    if not form.is_valid():
        return _page(request, form, 422)
    try:
        return redirect("bulk:run", _review(request, form).pk)
    except TooMany as error:
        form.add_error(None, str(error))
        return _page(request, form, 429)


@form_of("bulk:run", "id")
@role_required("command")
def review_again(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Keep a review of a run's command for the assets whose state had moved on, and redirect to it.

    The new run has the condition if the form has `unchanged`.
    """
    run, user, now = get_object_or_404(Run, pk=id), user_of(request), now_ms()
    scenario = scenario_or_404(run.scenario)
    if fault := run.renewal_fault(now):
        return run_page(request, run, fault, 422)
    names = list(run.items.refused_as_moved_on().values_list("asset", flat=True))
    renewal = run.renewal(user, now, unchanged="unchanged" in request.POST)
    renewal.pk = uuid.uuid4()
    try:
        REVIEWS.take(user.pk, now)
    except TooMany as error:
        return run_page(request, run, str(error), 429)
    return redirect("bulk:run", _kept(renewal, scenario, by_names(scenario.name, names), now).pk)


def _review(request: HttpRequest, form: BulkForm) -> Run:
    """Return the review of a valid form; sent twice, the same one. Raises TooMany."""
    user, now = user_of(request), now_ms()
    known = Run.objects.filter(pk=form.cleaned_data["id"], user=user).first()
    if known is not None:
        return known
    REVIEWS.take(user.pk, now)
    chosen = form.chosen(now)
    run = form.run(user, chosen.words, now)
    run.beyond, run.repeated = chosen.beyond, chosen.repeated
    return _kept(run, form.scenario, chosen.assets, now)


def _kept(run: Run, scenario: Scenario, assets: Iterable[list[TargetAsset]], now: int) -> Run:
    """Store a review of what would become of these assets, and return it."""
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:  # sent twice at once, or another user's
        return get_object_or_404(Run, pk=run.pk, user=run.user)
    keep(run, scenario, assets, now)
    Run.objects.delete_surplus_reviews(run.username)
    return run


def _begun(scenario: Scenario, data: QueryDict) -> BulkForm:
    """Return the form as an address or another page fills it."""
    initial: dict[str, Any] = {name: data[name][:1_000] for name in FILLS if data.get(name)}
    if assets := data.getlist("asset"):
        initial |= {"names": "\n".join(assets), "by": "names"}
    elif data.get("why"):
        initial["by"] = "stale"
    return BulkForm(scenario, initial=initial, states=data.getlist("state"))


def _page(request: HttpRequest, form: BulkForm | None, status: int = 200) -> HttpResponse:
    runs = Run.objects.started().newest()
    pages = Paginator(runs, LISTED)
    shown = pages.get_page(request.GET.get("page"))
    mine = Run.objects.reviews().filter(username=request.user.get_username())
    context = {
        "form": form,
        "scenario": form.scenario if form else None,
        "states": _state_boxes(form) if form else [],
        "runs": shown,
        "table": RUNS,
        "pager": Pager.numbered(shown, "?page={}".format),
        "reviews": mine.newest()[:MOST_REVIEWS],
        "now": now_ms(),
        "most": MOST,
        "address": request.get_full_path() if request.method == "GET" else reverse("bulk:bulk"),
        "choices": scenario_links(form.scenario, reverse("bulk:bulk")) if form else [],
    }
    name = "_runs" if is_fragment(request) else "bulk"
    return render(request, f"bulk/{name}.html", context, status=status)


def _state_boxes(form: BulkForm) -> list[dict[str, Any]]:
    """Return the states that the filter offers, and those that it has."""
    named = [spec.name for spec in form.scenario.states]
    names = [*named, *(state for state in form.states if state not in named)]
    return [{"spec": form.scenario.spec(n), "on": n in form.states} for n in names]


# ---- stale views ---------------------------------------------------------------------------------
# The list of stale assets.


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes(*StaleForm.base_fields, "scenario", "after")
def stale_list(request: HttpRequest) -> HttpResponse:
    """Return the page of how many assets of each scenario are stale, and of those of one."""
    form, now = StaleForm(request.GET), now_ms()
    may_command = may(request.user, "command")
    context: dict[str, Any] = {
        "form": form,
        "now": now,
        "may_command": may_command,
        "most_counted": forms.MOST_COUNTED,
    }
    if form.is_valid():
        context |= _listed(request, form, now)
        if may_command:
            context["table"] = context["table"].with_choice("Select all on this page")
    return render(request, "bulk/stale.html", context, status=200 if form.is_valid() else 422)


def _listed(request: HttpRequest, form: StaleForm, now: int) -> dict[str, Any]:
    after = PagePosition.parse(request.GET.get("after", "")[:60])
    scenario = scenario_or_first(request.GET.get("scenario", ""))
    page = forms.stale_page(scenario, form.reason, form.age, now, after)
    return {
        "scenario": scenario,
        "reason": form.reason,
        "words": form.words(),
        "count_table": _count_table(form),
        "counts": [_counts(each, form, now) for each in scenarios().values()],
        "total": forms.count_stale(scenario, form.reason, form.age, now),
        "table": forms.STALE_TABLE,
        "lines": page.rows,
        "pager": Pager.by_key(_query(scenario, form), "after", after, page.following),
        "lifetime": exact_span(scenario.lifetime) if scenario.lifetime else "",
        "n": form.cleaned_data["n"] or 7,
        "unit": form.cleaned_data["unit"] or "days",
    }


def _count_table(form: StaleForm) -> Table:
    """Return the table above the list: a column for each reason, with how long."""
    long = form.long()
    heads = (f"No report for {long}", REASONS["voteless"], f"Pinned for over {long}")
    return Table("", "Scenario", *map(Column.number, heads), narrow=True)


def _counts(scenario: Scenario, form: StaleForm, now: int) -> dict[str, Any]:
    """Return a line of the table above: the scenario, and each reason's count with its address."""
    cells = [
        {
            "reason": reason,
            "count": forms.count_stale(scenario, reason, form.age, now),
            "address": f"?{_query(scenario, form, why=reason)}",
        }
        for reason in REASONS
    ]
    return {"scenario": scenario, "cells": cells}


def _query(scenario: Scenario, form: StaleForm, **more: str) -> str:
    query = {
        "scenario": scenario.name,
        "why": form.reason,
        "n": form.cleaned_data["n"] or 7,
        "unit": form.cleaned_data["unit"] or "days",
    }
    return urlencode(query | more)
