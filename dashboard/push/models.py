"""The browsers in which users want notifications. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models

MAX_ENDPOINT = 1_000
"""Longest address of a push service, characters."""
MAX_AGENT = 200
"""Longest name of a browser that is kept, characters."""


class PushSubscription(models.Model):
    """A browser that a user's notifications go to.

    endpoint: the address at its push service, by which nobody but us may send; p256dh, auth: with
    which a message is encrypted for it, in base64url; agent: what the browser calls itself;
    failures: how many tries have failed since the last one that did not.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="push_subscriptions"
    )
    endpoint = models.CharField(max_length=MAX_ENDPOINT, unique=True)
    p256dh = models.CharField(max_length=100)
    auth = models.CharField(max_length=40)
    agent = models.CharField(max_length=MAX_AGENT, blank=True)
    failures = models.IntegerField(default=0)
    created_at = models.BigIntegerField()
    reached_at = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.user_id}: {self.agent}"
