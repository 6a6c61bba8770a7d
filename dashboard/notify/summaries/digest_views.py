"""One's own digests, and the links that end a subscription without a login."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import form_of, role_required, user_of
from dashboard.core.common.scenarios import scenario_or_404, scenarios
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.outbox import targets_of_user
from dashboard.notify.summaries.figures import reporting_zone
from dashboard.notify.summaries.forms import SubscriptionForm
from dashboard.notify.summaries.models import Issue, Subscription

# ---- subscriptions -------------------------------------------------------------------------------
# Subscribing, and ending a subscription. Times in Unix ms.


@transaction.atomic
def subscribe(user: User, scenario: str, plan: dict[str, Any], now: int) -> Subscription:
    """Subscribe a user to a scenario's digest, or change when it comes. Returns the subscription.

    A change from days to weeks, or back, begins anew: nothing that was due before comes.
    """
    known = Subscription.objects.filter(user=user, scenario=scenario).first()
    since = known.since if known and known.every == plan["every"] else now
    row, _ = Subscription.objects.update_or_create(
        user=user, scenario=scenario, defaults={**plan, "since": since}
    )
    return row


def end(user: User, scenario: str) -> bool:
    """End a user's subscription to a scenario. Returns whether there was one."""
    return bool(Subscription.objects.filter(user=user, scenario=scenario).delete()[0])


# ---- unsubscribe ---------------------------------------------------------------------------------
# Links that end a subscription without a login: who has the mail may end it, and do nothing else.
#
# RFC 8058: a mail program ends it by a POST that no form of ours has sent.

# A subscription's number and its token. Older mails have a signature instead, which ends none.
_LINK = re.compile(r"([0-9]{1,18})\.([A-Za-z0-9_-]+)")


def token_of(subscription: Subscription) -> str:
    """Return the name of a subscription that nobody guesses."""
    return f"{subscription.pk}.{subscription.token}"


def url_of(subscription: Subscription) -> str:
    """Return the address at which a subscription ends."""
    path = reverse("digests:unsubscribe", args=[token_of(subscription)])
    return f"{settings.TALLYBOARD.own_url}{path}"


def headers_of(subscription: Subscription) -> dict[str, str]:
    """Return the headers by which a mail program offers to end a subscription."""
    return {
        "List-Unsubscribe": f"<{url_of(subscription)}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def subscription_of(token: str) -> Subscription | None:
    """Return the subscription of a link's token; None where no subscription has it, or not any
    more."""
    link = _LINK.fullmatch(token)
    if link is None:
        return None
    row = Subscription.objects.filter(pk=int(link[1])).select_related("user").first()
    return row if row and constant_time_compare(row.token, link[2]) else None


# ---- digests -------------------------------------------------------------------------------------
# The page of one's own digests, and the one that ends a subscription without a login.


@require_safe
@never_cache
@role_required("read")
def own(request: HttpRequest) -> HttpResponse:
    """Return the page of the user's digests."""
    return _page(request)


@form_of("digests:own")
@role_required("read")
def change(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Subscribe to the digest of a scenario, change when it comes, or end it."""
    known, user = scenario_or_404(scenario), user_of(request)
    form = SubscriptionForm(known.name, request.POST)
    if not form.is_valid():
        return _page(request, known.name, form, 422)
    plan = form.plan()
    if plan is None:
        if end(user, known.name):
            _log_end(request, user, known.name)
        messages.success(request, f"No digest of {known.title} is sent to you.")
    else:
        subscribe(user, known.name, plan, now_ms())
        record(Actor.of(request), "digest.subscribed", scenario=known.name, **plan)
        messages.success(request, f"The digest of {known.title} comes to you.")
    return redirect("digests:own")


@csrf_exempt  # a mail program posts without our form; the address alone says what it may do
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Return the page that asks whether to end a subscription; end it by what that sends, or what a
    mail program does."""
    subscription = subscription_of(token)
    if subscription is None:
        return render(request, "digests/unsubscribe.html", {"wrong": True}, status=404)
    known = scenarios().get(subscription.scenario)
    title = known.title if known else subscription.scenario
    if request.method == "POST":
        subscription.delete()
        _log_end(request, subscription.user, subscription.scenario)
    context = {"title": title, "ended": request.method == "POST"}
    return render(request, "digests/unsubscribe.html", context)


def _log_end(request: HttpRequest, user: User, scenario: str) -> None:
    record(Actor.of(request, user), "digest.unsubscribed", scenario=scenario)


def _page(
    request: HttpRequest,
    chosen: str = "",
    form: SubscriptionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Return the page. chosen, form: a scenario's form as it was sent."""
    user = user_of(request)
    mine = {row.scenario: row for row in Subscription.objects.filter(user=user)}
    lines = [
        {
            "scenario": each,
            "form": form if name == chosen else SubscriptionForm(name, known=mine.get(name)),
            "last": _last(mine.get(name)),
        }
        for name, each in scenarios().items()
    ]
    context = {
        "now": now_ms(),
        "lines": lines,
        "zone": reporting_zone().key,
        "reached": bool(targets_of_user(user, ["mail"])),
        "address": user.email,
    }
    return render(request, "digests/own.html", context, status=status)


def _last(subscription: Subscription | None) -> Issue | None:
    return subscription.issues.order_by("-at").first() if subscription else None
