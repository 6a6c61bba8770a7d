"""The page on which users set up their own notifications: mail address and browsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.accounts.sessions import device
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import TooMany, form_of, role_required, user_of
from dashboard.core.common.outbound import AddressRefused, check
from dashboard.core.common.tables import number_of
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications import push
from dashboard.notify.notifications.models import MAX_ENDPOINT, PushSubscription
from dashboard.notify.notifications.outbox import MessageDraft, put, targets_of_user
from dashboard.notify.notifications.push import TooManyBrowsers, key_is_one, public_key

# ---- push ----------------------------------------------------------------------------------------
# How a user is reached: by mail, or in browsers.


class MailForm(forms.Form):
    """The mail address at which a user is reached; empty for none."""

    email = forms.EmailField(
        required=False,
        max_length=254,
        label="Mail address",
        error_messages={"invalid": "Expected an address such as olga@example.org."},
    )


class PushSubscriptionForm(forms.Form):
    """A browser's subscription, filled in by its script."""

    endpoint = forms.CharField(max_length=MAX_ENDPOINT, widget=forms.HiddenInput)
    p256dh = forms.CharField(max_length=100, widget=forms.HiddenInput)
    auth = forms.CharField(max_length=40, widget=forms.HiddenInput)

    def clean_endpoint(self) -> str:
        """Return the push service's address. Raises ValidationError if it is not allowed."""
        endpoint = str(self.cleaned_data["endpoint"])
        try:
            check(endpoint)
        except AddressRefused as why:
            raise forms.ValidationError(str(why)) from None
        return endpoint

    def clean(self) -> dict[str, Any]:
        """Return the fields. Unusable encryption keys are an error of the form."""
        data = super().clean() or self.cleaned_data
        if not self.errors and not key_is_one(data["p256dh"], data["auth"]):
            raise forms.ValidationError("Expected the keys that the browser made.")
        return data


# ---- push ----------------------------------------------------------------------------------------
# Users' own page of notifications: subscribe, remove and test browsers; the service worker.

WORKER = Path(settings.BASE_DIR, "static", "js", "push-worker.js")


@require_safe
@login_not_required
def service_worker(_request: HttpRequest) -> HttpResponse:
    """Return the script that browsers run when a message arrives. It contains nothing personal."""
    content = WORKER.read_bytes()
    headers = {"Cache-Control": "no-cache", "Service-Worker-Allowed": "/"}
    return HttpResponse(content, content_type="text/javascript; charset=utf-8", headers=headers)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read")
def browsers(request: HttpRequest) -> HttpResponse:
    """Show the user's browsers; on POST, subscribe the browser that sends the form."""
    user = user_of(request)
    form = PushSubscriptionForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid() and _subscribe(request, user, form):
        messages.success(request, "This browser shows notifications from now on.")
        return redirect("push:browsers")
    return _page(request, form, MailForm({"email": user.email}))


def _page(request: HttpRequest, form: PushSubscriptionForm, mail_form: MailForm) -> HttpResponse:
    rows = PushSubscription.objects.of_user(user_of(request))
    context = {
        "form": form,
        "mail_form": mail_form,
        "now": now_ms(),
        "table": push.TABLE,
        "key": public_key(),
        "rows": [(row, device(row.agent)) for row in rows],
    }
    wrong = form.errors or mail_form.errors
    return render(
        request, "notifications/push/browsers.html", context, status=422 if wrong else 200
    )


@never_cache
@form_of("push:browsers")
@role_required("read")
def change_mail(request: HttpRequest) -> HttpResponse:
    """Change the user's mail address."""
    user, form = user_of(request), MailForm(request.POST)
    if not form.is_valid():
        return _page(request, PushSubscriptionForm(), form)
    user.email = form.cleaned_data["email"]
    user.save(update_fields=["email"])
    record(Actor.of(request), "mail.changed", target=user.username, address=user.email)
    messages.success(request, "The mail address is changed.")
    return redirect("push:browsers")


@never_cache
@form_of("push:browsers")
@role_required("read")
def remove(request: HttpRequest) -> HttpResponse:
    """Remove one of the user's browsers."""
    user, number = user_of(request), number_of(request.POST.get("browser", "")) or 0
    row = PushSubscription.objects.of_user(user).filter(pk=number).first()
    if row is not None:
        row.delete()
        record(Actor.of(request), "push.removed", target=user.username, browser=device(row.agent))
        messages.success(request, "The browser is removed.")
    return redirect("push:browsers")


@never_cache
@form_of("push:browsers")
@role_required("read")
def send_test(request: HttpRequest) -> HttpResponse:
    """Send the user a test notification."""
    user, now = user_of(request), now_ms()
    try:
        push.LIMIT.take(user.pk, now)
    except TooMany as why:
        messages.error(request, str(why))
        return redirect("push:browsers")
    draft = MessageDraft(
        "test", "Tallyboard: a test", "Notifications reach this browser.", why="a test"
    )
    sent = [put(target, draft, now) for target in targets_of_user(user, ["push"])]
    if sent:
        messages.success(request, "A test is on its way.")
    else:
        messages.error(request, "No browser is subscribed yet.")
    return redirect("push:browsers")


def _subscribe(request: HttpRequest, user: User, form: PushSubscriptionForm) -> bool:
    """Store a valid form's subscription. Return whether that was possible."""
    agent = request.headers.get("User-Agent", "")
    try:
        _, former = push.subscribe(user, **form.cleaned_data, agent=agent, now=now_ms())
    except (TooManyBrowsers, TooMany) as why:
        form.add_error(None, str(why))
        return False
    record(Actor.of(request), "push.subscribed", target=user.username, browser=device(agent))
    if former is not None:
        _announce_taken_over(request, user, former, device(agent))
    return True


def _announce_taken_over(request: HttpRequest, user: User, former: User, browser: str) -> None:
    """Record in the audit that a browser now belongs to another user, and tell the former one."""
    facts = {"target": former.username, "browser": browser, "now": user.username}
    record(Actor.of(request), "push.taken-over", **facts)
    text = (
        f"{browser} showed your notifications. {user.username} has subscribed it, so it now shows "
        "theirs, and no longer yours. If that is not a browser that you share, tell an admin."
    )
    subject = f"A browser of yours is {user.username}'s now"
    draft = MessageDraft("browser", subject, text, why="a browser that another user subscribed")
    for target in targets_of_user(former, ["mail", "push"]) if former.is_active else ():
        put(target, draft, now_ms())
