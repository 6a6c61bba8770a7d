"""Who sends a request, as the guard tells clients apart."""

from __future__ import annotations

from allauth.core.internal.ratelimit import truncate_ip
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from dashboard.audit.log import address_of

# Of 64 characters of the hash: enough to tell clients apart, too few to be worth a guess.
HASH_LENGTH = 16


def client_of(request: HttpRequest) -> str:
    """Return the request's client as `client-<16 hex digits>`.

    It is a keyed hash of the address, as the login's limits see it (of IPv6 the network), and of
    the User-Agent: whoever reads it learns neither.
    """
    address = truncate_ip(address_of(request))
    agent = request.headers.get("User-Agent", "")
    keyed = salted_hmac("tallyboard.login-guard.client", f"{address}\0{agent}", algorithm="sha256")
    return f"client-{keyed.hexdigest()[:HASH_LENGTH]}"
