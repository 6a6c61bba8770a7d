"""Users' own digests, and the links that end a subscription without a login."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import form_of, role_required, user_of
from dashboard.core.common.scenarios import scenario_or_404, scenarios
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.outbox import targets_of_user
from dashboard.notify.summaries.forms import SubscriptionForm
from dashboard.notify.summaries.models import ReportingZone, Subscription

# ---- digests -------------------------------------------------------------------------------------
# The page of users' own digests, and the one that ends a subscription without a login.


@require_safe
@never_cache
@role_required("read")
def own(request: HttpRequest) -> HttpResponse:
    """Show the user's digests."""
    return _page(request)


@form_of("digests:own")
@role_required("read")
def change(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Subscribe to the digest of a scenario, change its schedule, or end it."""
    known, user = scenario_or_404(scenario), user_of(request)
    form = SubscriptionForm(known.name, request.POST)
    if not form.is_valid():
        return _page(request, known.name, form, 422)
    plan = form.plan()
    if plan is None:
        if Subscription.objects.unsubscribe(user, known.name):
            _log_end(request, user, known.name)
        messages.success(request, f"No digest of {known.title} is sent to you.")
    else:
        Subscription.objects.subscribe(user, known.name, plan, now_ms())
        record(Actor.of(request), "digest.subscribed", scenario=known.name, **plan)
        messages.success(request, f"The digest of {known.title} comes to you.")
    return redirect("digests:own")


@csrf_exempt  # mail programs post without our form; the address alone grants permission
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Show a page that asks whether to end a subscription; on POST, from it or from a mail program,
    end the subscription."""
    subscription = Subscription.objects.of_link(token)
    if subscription is None:
        return render(request, "summaries/digests/unsubscribe.html", {"wrong": True}, status=404)
    known = subscription.configured_scenario
    title = known.title if known else subscription.scenario
    if request.method == "POST":
        subscription.delete()
        _log_end(request, subscription.user, subscription.scenario)
    context = {"title": title, "ended": request.method == "POST"}
    return render(request, "summaries/digests/unsubscribe.html", context)


def _log_end(request: HttpRequest, user: User, scenario: str) -> None:
    record(Actor.of(request, user), "digest.unsubscribed", scenario=scenario)


def _page(
    request: HttpRequest,
    chosen: str = "",
    form: SubscriptionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Show the page. chosen, form: a scenario, and its form as it was sent."""
    user = user_of(request)
    mine = {row.scenario: row for row in Subscription.objects.filter(user=user)}
    lines = [
        {
            "scenario": each,
            "form": form if name == chosen else SubscriptionForm(name, known=mine.get(name)),
            "last": mine[name].newest_issue if name in mine else None,
        }
        for name, each in scenarios().items()
    ]
    context = {
        "now": now_ms(),
        "lines": lines,
        "zone": ReportingZone.objects.current().key,
        "reached": bool(targets_of_user(user, ["mail"])),
        "address": user.email,
    }
    return render(request, "summaries/digests/own.html", context, status=status)
