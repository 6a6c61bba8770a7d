"""The pages of channels, which admins set up: they hold secrets."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts.encryption import seal
from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.navigation import ADMINS
from dashboard.core.rate_limits import TooMany
from dashboard.core.tables import Table
from dashboard.core.times import now_ms
from dashboard.notifications import trials
from dashboard.notifications.channel_forms import ChannelForm, kind_choices
from dashboard.notifications.channels import CHANNELS, Kind
from dashboard.notifications.models import Channel

CHANNEL_TABLE = Table("channels", "Channel", "Kind", "Status", "Address")
SERVICE_TABLE = Table("services", "Service", "URL", "Parameters")


@require_safe
@never_cache
@role_required("read", among=ADMINS)
def channels(request: HttpRequest) -> HttpResponse:
    """Return the page of channels."""
    rows = [(row, *_kind_of(row)) for row in _in_use().order_by("name")]
    context = {"rows": rows, "table": CHANNEL_TABLE, "kinds": kind_choices()}
    return render(request, "notifications/channels.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("command", among=ADMINS)
def new_channel(request: HttpRequest, kind: str) -> HttpResponse:
    """Return the form of a new channel; store it, and show its secret once if we make it."""
    if kind not in dict(kind_choices()):
        raise Http404
    form = ChannelForm(CHANNELS[kind], request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return _form_page(request, form, None)
    user = user_of(request)
    row = Channel(user=user, username=user.get_username(), kind=kind)
    secret = form.kind.new_secret()
    _store(request, form, row, secret, "notify.channel.created")
    if secret:
        return _shown_once(request, row, secret)
    messages.success(request, f"The channel {row.name} is stored.")
    return redirect("notifications:channels")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("command", among=ADMINS)
def edit_channel(request: HttpRequest, number: int) -> HttpResponse:
    """Return the form of a channel, and store its change."""
    row = _channel(number)
    if row.kind not in CHANNELS:
        raise Http404
    data = request.POST if request.method == "POST" else None
    form = ChannelForm(CHANNELS[row.kind], data, row)
    if data is None or not form.is_valid():
        return _form_page(request, form, row)
    _store(request, form, row, "", "notify.channel.changed")
    messages.success(request, f"The channel {row.name} is stored.")
    return redirect("notifications:channels")


@never_cache
@form_of("notifications:edit-channel", "number")
@role_required("command", among=ADMINS)
def act_on_channel(request: HttpRequest, number: int) -> HttpResponse:
    """Try a channel, give it a new secret, or retire it."""
    row, do = _channel(number), request.POST.get("do", "")
    if do == "test":
        return _tried(request, row)
    if do == "secret" and row.kind in CHANNELS and (secret := CHANNELS[row.kind].new_secret()):
        row.secret, row.changed_at = seal(secret), now_ms()
        row.save(update_fields=["secret", "changed_at"])
        note(Actor.of(request), "notify.channel.secret", target=row.name)
        return _shown_once(request, row, secret)
    if do == "retire":
        Channel.objects.filter(pk=row.pk).update(retired_at=now_ms(), enabled=False, secret="")
        note(Actor.of(request), "notify.channel.retired", target=row.name)
        messages.success(request, f"The channel {row.name} is retired.")
    return redirect("notifications:channels")


def _tried(request: HttpRequest, row: Channel) -> HttpResponse:
    user, now = user_of(request), now_ms()
    try:
        trials.LIMIT.take(user.pk, now)
    except TooMany as why:
        messages.error(request, str(why))
    else:
        sent = trials.send_to_channel(row, user.get_username(), now)
        note(Actor.of(request), "notify.tested", target=row.name, messages=len(sent))
        messages.success(request, "A test message is on its way: see Messages.")
    return redirect("notifications:edit-channel", row.pk)


def _store(request: HttpRequest, form: ChannelForm, row: Channel, made: str, action: str) -> None:
    data = form.cleaned_data
    secret = made or data.get("secret", "")
    if secret:
        row.secret = seal(secret)
    if secret or "address" in data:
        row.address = form.kind.shown(data.get("address", ""), secret)
    row.name, row.most, row.window_ms = data["name"], data["most"], data["window"]
    row.enabled, row.changed_at = data["enabled"], now_ms()
    row.save()
    note(Actor.of(request), action, target=row.name, kind=row.kind, address=row.address)


def _shown_once(request: HttpRequest, row: Channel, secret: str) -> HttpResponse:
    return render(request, "notifications/channel_secret.html", {"row": row, "secret": secret})


def _form_page(request: HttpRequest, form: ChannelForm, row: Channel | None) -> HttpResponse:
    signs = bool(form.kind.new_secret())
    context = {
        "form": form,
        "kind": form.kind,
        "row": row,
        "signs": signs,
        "refusal": _kind_of(row)[1] if row else "",
        "services": form.kind.services(),
        "service_table": SERVICE_TABLE,
    }
    return render(
        request, "notifications/channel_form.html", context, status=422 if form.errors else 200
    )


def _kind_of(row: Channel) -> tuple[Kind | None, str]:
    """Return a channel's kind, and why nothing is sent by the channel; empty if it is."""
    kind = CHANNELS.get(row.kind)
    return kind, kind.refusal(row) if kind else ""


def _in_use() -> QuerySet[Channel]:
    return Channel.objects.filter(retired_at=None)


def _channel(number: int) -> Channel:
    """Return a channel in use. Raises Http404."""
    return get_object_or_404(_in_use(), pk=number)
