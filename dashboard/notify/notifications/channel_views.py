"""The pages on which admins set up channels: forms and test messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import cached_property
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.accounts.encryption import seal
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import ADMINS, Limit, TooMany, form_of, role_required, user_of
from dashboard.core.common.forms import FormPage, SpanField
from dashboard.core.common.tables import Table
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.channels import CHANNELS, ChannelKind
from dashboard.notify.notifications.models import MAX_TITLE, Channel, Message, Rule
from dashboard.notify.notifications.on_call import reach
from dashboard.notify.notifications.outbox import MessageDraft, Recipient, put, targets_of_channel


def resting_channels(_request: HttpRequest) -> dict[str, Callable[[], int]]:
    """Return `resting_channels` for templates; it is counted only when a page shows it, to
    admins."""
    return {"resting_channels": Channel.objects.count_resting}


# ---- channel forms -------------------------------------------------------------------------------
# The form of a channel.


def kind_choices() -> list[tuple[str, str]]:
    """Return the kinds that a channel can have: those with an address, or a secret with one."""
    offered = (kind for kind in CHANNELS.values() if kind.address_label or kind.secret_label)
    return [(kind.name, kind.label) for kind in offered]


class ChannelForm(forms.Form):
    """A channel of a kind. If the secret is left empty, it stays as it is."""

    name = forms.CharField(max_length=MAX_TITLE, label="Name")
    address = forms.CharField(max_length=2_000, label="Address")
    secret = forms.CharField(
        max_length=2_000,
        required=False,
        label="Secret",
        # What was typed is shown again in the form; the stored secret is never shown.
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}, render_value=True),
    )
    most = forms.IntegerField(min_value=1, max_value=10_000, label="Messages at most", initial=60)
    window = SpanField(label="Per", initial="1h")
    changes = forms.BooleanField(
        required=False,
        label="Changes of incidents",
        help_text="What people do to any incident: acknowledge, hand over, note, resolve, merge…",
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    last_resort = forms.BooleanField(
        required=False,
        label="Last resort",
        help_text="Used when a rule's message has reached nobody.",
    )

    def __init__(self, kind: ChannelKind, data: Any = None, row: Channel | None = None) -> None:
        super().__init__(data, initial=_initial(row) if row else None)
        self.kind, self.row = kind, row
        for name, label in (("address", kind.address_label), ("secret", kind.secret_label)):
            if label:
                self.fields[name].label = label
            else:
                del self.fields[name]
        if row and "secret" in self.fields:
            self.fields["secret"].help_text = f"Saved: {row.address}. Leave empty to keep it."
        elif "secret" in self.fields:
            self.fields["secret"].required = True

    def clean_name(self) -> str:
        """Return the name. Raises ValidationError if another channel has it."""
        name = str(self.cleaned_data["name"])
        others = Channel.objects.in_use().filter(name=name)
        if others.exclude(pk=self.row.pk if self.row else 0).exists():
            raise forms.ValidationError("Expected a name that no other channel has.")
        return name

    def clean(self) -> dict[str, Any]:
        """Return the fields. What the kind rejects is an error of its field."""
        data = super().clean() or self.cleaned_data
        address, secret = data.get("address", ""), data.get("secret", "")
        unchanged = self.row is not None and not secret and "address" not in self.fields
        if self.errors or unchanged:
            return data
        if problem := self.kind.problem(address, secret or self.kind.new_secret()):
            field = "address" if "address" in self.fields else "secret"
            self.add_error(field, f"{problem[:1].upper()}{problem[1:]}")
        return data


def _initial(row: Channel) -> dict[str, Any]:
    names = ("name", "address", "most", "changes", "enabled", "last_resort")
    return {name: getattr(row, name) for name in names} | {"window": row.window_ms}


# ---- trials --------------------------------------------------------------------------------------
# Test messages: to a channel, or to all recipients of a rule's first stage.

TEST_LIMIT = Limit("trials", 20)


def send_test_to_channel(channel: Channel, by: str, now: int) -> list[Message]:
    """Store a test message to every recipient of a channel, and return the messages."""
    return _send(targets_of_channel(channel), _draft(f"the channel {channel.name}", by), now)


def send_test_by_rule(rule: Rule, by: str, now: int) -> list[Message]:
    """Store a test message to everybody a rule's first stage reaches, and return the messages."""
    first = rule.parsed().stages[0]
    targets = [target for _, target in reach([(0, first)], now).targets]
    draft = _draft(f"the rule {rule.name}", by, rule)
    return _send(targets, draft, now)


def _draft(what: str, by: str, rule: Rule | None = None) -> MessageDraft:
    text = f"{by} is testing {what}. Nothing has happened."
    return MessageDraft("test", f"Test of {what}", text, why=f"a test by {by}", rule=rule)


def _send(targets: list[Recipient], draft: MessageDraft, now: int) -> list[Message]:
    return [put(target, draft, now) for target in targets]


# ---- channel views -------------------------------------------------------------------------------
# The pages of channels, which only admins can use, as channels hold secrets.

CHANNEL_TABLE = Table("channels", "Channel", "Kind", "Status", "Address")
SERVICE_TABLE = Table("services", "Service", "URL", "Parameters")


@require_safe
@never_cache
@role_required("read", among=ADMINS)
def channels(request: HttpRequest) -> HttpResponse:
    """Show the list of channels."""
    rows = [(row, *_kind_of(row)) for row in Channel.objects.in_use()]
    context = {
        "rows": rows,
        "now": now_ms(),
        "table": CHANNEL_TABLE,
        "kinds": kind_choices(),
        "without_last_resort": rows and not Channel.objects.last_resorts().exists(),
    }
    return render(request, "notifications/channels.html", context)


class ChannelPage(FormPage):
    """The form for a new channel or one in use. A generated secret is shown once."""

    queryset = Channel.objects.in_use()
    template_name = "notifications/channel_form.html"
    form_class = ChannelForm
    permission = "command"
    roles = ADMINS

    form_takes = ("kind", "row")

    @cached_property
    def kind(self) -> ChannelKind:
        """The channel's kind. Raises Http404 if there is no such kind."""
        name = self.row.kind if self.row else self.kwargs["kind"]
        if name not in (CHANNELS if self.row else dict(kind_choices())):
            raise Http404
        return CHANNELS[name]

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Add what the page shows about the channel's kind."""
        shown = {
            "kind": self.kind,
            "signs": bool(self.kind.new_secret()),
            "refusal": _kind_of(self.row)[1] if self.row else "",
            "services": self.kind.services(),
            "service_table": SERVICE_TABLE,
        }
        return super().get_context_data(**shown | context)

    def form_valid(self, form: ChannelForm) -> HttpResponse:
        """Store the channel; a new one whose kind signs gets a generated secret."""
        user, row, secret, action = user_of(self.request), self.row, "", "changed"
        if row is None:
            row = Channel(user=user, username=user.get_username(), kind=self.kind.name)
            secret, action = self.kind.new_secret(), "created"
        _store(self.request, form, row, secret, f"notify.channel.{action}")
        if secret:
            return _shown_once(self.request, row, secret)
        return self.done(f"The channel {row.name} is saved.", "notifications:channels")


@never_cache
@form_of("notifications:edit-channel", "number")
@role_required("command", among=ADMINS)
def act_on_channel(request: HttpRequest, number: int) -> HttpResponse:
    """Test a channel, give it a new secret, or retire it."""
    row = get_object_or_404(Channel.objects.in_use(), pk=number)
    do = request.POST.get("do", "")
    if do == "test":
        row.end_rest()
        return _tried(request, row)
    if do == "secret" and row.kind in CHANNELS and (secret := CHANNELS[row.kind].new_secret()):
        row.secret, row.changed_at = seal(secret), now_ms()
        row.save(update_fields=["secret", "changed_at"])
        record(Actor.of(request), "notify.channel.secret", target=row.name)
        return _shown_once(request, row, secret)
    if do == "retire":
        row.retire(now_ms())
        record(Actor.of(request), "notify.channel.retired", target=row.name)
        messages.success(request, f"The channel {row.name} is retired.")
    return redirect("notifications:channels")


def _tried(request: HttpRequest, row: Channel) -> HttpResponse:
    user, now = user_of(request), now_ms()
    try:
        TEST_LIMIT.take(user.pk, now)
    except TooMany as why:
        messages.error(request, str(why))
    else:
        sent = send_test_to_channel(row, user.get_username(), now)
        record(Actor.of(request), "notify.tested", target=row.name, messages=len(sent))
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
    row.changes, row.enabled, row.last_resort = (
        data["changes"],
        data["enabled"],
        data["last_resort"],
    )
    row.changed_at = now_ms()
    row.save()
    row.end_rest()
    record(
        Actor.of(request), action, target=row.name, kind=row.kind, address=row.address,
        changes=row.changes, last_resort=row.last_resort,
    )  # fmt: skip


def _shown_once(request: HttpRequest, row: Channel, secret: str) -> HttpResponse:
    return render(request, "notifications/channel_secret.html", {"row": row, "secret": secret})


def _kind_of(row: Channel) -> tuple[ChannelKind | None, str]:
    """Return a channel's kind, and why the channel may not be used; empty if it may."""
    kind = CHANNELS.get(row.kind)
    return kind, kind.refusal(row) if kind else ""
