"""Links that end a subscription without a login: who has the mail may end it, and do nothing else.

RFC 8058: a mail program ends it by a POST that no form of ours has sent.
"""

from __future__ import annotations

import re

from django.conf import settings
from django.urls import reverse
from django.utils.crypto import constant_time_compare

from dashboard.digests.models import Subscription

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
