"""One-time codes of second factors, each of which counts once (RFC 6238, 5.2).

A code is accepted for a while before and after its half minute. So the factor's row has the counter
of the newest code that was accepted, and neither it nor an older one is accepted again.
"""

from __future__ import annotations

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from allauth.mfa.utils import decrypt

NEWEST = "newest_counter"
"""Under this name a factor's data has the counter of the newest code that was accepted."""


def accepts(factor: Authenticator, code: str) -> bool:
    """Return whether a code of a factor counts now; it does not count again. Raises ValidationError
    where no key opens the factor's secret."""
    if factor.type != Authenticator.Type.TOTP:
        return bool(factor.wrap().validate_code(code))
    counter = counter_of(decrypt(factor.data["secret"]), code)
    return counter is not None and use(factor, counter)


def counter_of(secret: str, code: str) -> int | None:
    """Return the half minute, since 1970, whose code this is; None if it is not one of those that
    are accepted now."""
    counter: int
    for counter in auth.yield_hotp_counters_from_time():
        expected = auth.format_hotp_value(auth.hotp_value(secret, counter))
        if compare_user_code(actual=code, expected=expected):
            return counter
    return None


def use(factor: Authenticator, counter: int) -> bool:
    """Store that the code of a counter was used. Returns False where it, or a newer one, was."""
    if counter <= factor.data.get(NEWEST, -1):
        return False
    data = {**factor.data, NEWEST: counter}
    # Of two logins at once one changes the row; the other finds it changed.
    if Authenticator.objects.filter(pk=factor.pk, data=factor.data).update(data=data) != 1:
        return False
    factor.data = data
    return True
