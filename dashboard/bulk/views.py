"""The pages of bulk: a command, the assets that it is for, and the list of runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.accounts import drafts
from dashboard.bulk import retention
from dashboard.bulk.forms import BulkForm
from dashboard.bulk.models import REVIEW, Run
from dashboard.bulk.renewals import moved_on_meanwhile, renewal_fault, renewal_of
from dashboard.bulk.review import keep
from dashboard.bulk.run_progress import progress_of
from dashboard.bulk.run_views import run_page
from dashboard.bulk.targets import MOST, Found, by_names
from dashboard.core.access import form_of, is_fragment, role_required, user_of
from dashboard.core.filter_forms import scenario_links
from dashboard.core.rate_limits import Limit, TooMany
from dashboard.core.roles import may
from dashboard.core.scenarios import scenario_or_404, scenarios
from dashboard.core.tables import Column, Pager, Table
from dashboard.core.times import now_ms
from domain.scenario import Scenario

LISTED = 50
"""Runs of one page of the list."""
RUNS = Table(
    "bulk-runs", "What", "Status", Column.time("Done"), Column.number("Assets"),
    Column.number("Applied"), Column.number("Refused"), "By", "Why", Column.time("Started"),
)  # fmt: skip
REVIEWS = Limit("reviews", 20)
FILLS = ("q", "kind", "to", "reason", "why", "n", "unit")
"""Fields that an address or another page may fill."""
BEGINS = (*FILLS, "scenario", "asset", "state")
"""What is kept of another page's choice."""


@require_safe
@never_cache
@role_required("read")
def bulk(request: HttpRequest) -> HttpResponse:
    """Return the form, as the address fills it, and the runs, the newest first."""
    form = None
    if may(request.user, "command"):
        data = drafts.found(request, "bulk") or request.GET
        form = _begun(scenario_or_404(data.get("scenario") or next(iter(scenarios()))), data)
    return _page(request, form)


@form_of("bulk:bulk")
@role_required("command")
def review(request: HttpRequest) -> HttpResponse:
    """Keep a review of what would become of each asset, and redirect to it.

    A choice made on another page comes without a command, or with `begin`: then the redirect leads
    to the form, filled with it.
    """
    scenario = scenario_or_404(request.POST.get("scenario") or next(iter(scenarios())))
    if "kind" not in request.POST or "begin" in request.POST:
        chosen = {key: request.POST.getlist(key) for key in request.POST if key in BEGINS}
        return redirect(reverse("bulk:bulk") + drafts.keep(request, "bulk", chosen))
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
    if fault := renewal_fault(run, now):
        return run_page(request, run, fault, 422)
    names = list(moved_on_meanwhile(run).values_list("asset", flat=True))
    renewal = renewal_of(run, user, now, unchanged="unchanged" in request.POST)
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


def _kept(run: Run, scenario: Scenario, assets: Iterable[list[Found]], now: int) -> Run:
    """Store a review of what would become of these assets, and return it."""
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:  # sent twice at once, or another user's
        return get_object_or_404(Run, pk=run.pk, user=run.user)
    keep(run, scenario, assets, now)
    retention.delete_surplus_reviews(run.username)
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
    runs = Run.objects.exclude(status=REVIEW).order_by("-created_at")
    pages = Paginator(runs, LISTED)
    shown = pages.get_page(request.GET.get("page"))
    mine = Run.objects.filter(status=REVIEW, username=request.user.get_username())
    context = {
        "form": form,
        "scenario": form.scenario if form else None,
        "states": _state_boxes(form) if form else [],
        "runs": [progress_of(run) for run in shown],
        "table": RUNS,
        "pager": Pager.numbered(shown, "?page={}".format),
        "reviews": mine.order_by("-created_at")[: retention.MOST_REVIEWS],
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
