"""Links that end a subscription without a login: who has the mail may end it, and do nothing else.

RFC 8058: a mail program ends it by a POST that no form of ours has sent.
"""

from __future__ import annotations

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.urls import reverse

from dashboard.digests.models import Subscription

_SALT = "dashboard.digests.unsubscribe"


def token_of(subscription: Subscription) -> str:
    """Return the name of a subscription that nobody guesses."""
    return Signer(salt=_SALT).sign(str(subscription.pk))


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
    """Return the subscription of a token, None where there is none any more. Raises BadSignature
    for what is no token."""
    number = Signer(salt=_SALT).unsign(token)
    if not number.isdigit():
        raise BadSignature
    return Subscription.objects.filter(pk=int(number)).select_related("user").first()
