"""The demo's rule: made once, where the mail catcher is; its channel is off where it is not."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.core.management import call_command

from dashboard.notifications.models import Channel, Rule
from dashboard.notifications.rule_changes import checked

pytestmark = pytest.mark.django_db


def test_it_is_made_once_and_is_not_made_again():
    for _ in range(2):
        call_command("demo_notifications")
    rule = checked(Rule.objects.get().definition)
    assert rule.stages[0].channels == (Channel.objects.get().pk,)
    Rule.objects.all().delete()
    call_command("demo_notifications")
    assert not Rule.objects.exists()


def test_without_the_catcher_its_channel_is_off(monkeypatch: pytest.MonkeyPatch):
    call_command("demo_notifications")
    own = Channel.objects.create(name="SOC", kind="mail", address="a@example.org", changed_at=1)
    given = settings.TALLYBOARD.model_copy(update={"smtp_host": "mail.example.org"})
    monkeypatch.setattr(settings, "TALLYBOARD", given)
    call_command("demo_notifications")
    assert list(Channel.objects.filter(enabled=True)) == [own]


def test_an_address_that_somebody_gave_it_is_their_own(monkeypatch: pytest.MonkeyPatch):
    call_command("demo_notifications")
    Channel.objects.update(address="soc@example.org")
    given = settings.TALLYBOARD.model_copy(update={"demo": False})
    monkeypatch.setattr(settings, "TALLYBOARD", given)
    call_command("demo_notifications")
    assert Channel.objects.get().enabled
