"""The audit: who did what, logins, lists downloaded as files, and the pruning of old entries."""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, Literal

import structlog
from allauth.account.adapter import get_adapter
from allauth.account.signals import password_changed
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import (
    authentication_failed,
    authenticator_added,
    authenticator_removed,
    authenticator_reset,
)
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.signals import user_logged_out
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest

from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.hash_chain import append
from dashboard.core.audit.models import KEPT_DAYS, KEPT_MS, AuditEntry
from dashboard.core.common.access import role_of
from dashboard.core.common.metrics import AUDITED
from dashboard.core.common.times import HOUR_MS, now_ms

# ---- log -----------------------------------------------------------------------------------------
# The log of who did what. Call `record` once the work is done, outside of its transaction.

log = structlog.get_logger(__name__)

Source = Literal["page", "token", "system", "command line"]

# Longest text in the facts, in characters.
MAX_TEXT = 500
# Most items in a list or an object in the facts.
MAX_ITEMS = 50
# Longest facts as JSON, in characters; longer ones are reduced to their names.
MAX_FACTS = 4_000


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of an action: a user, through a page or a token, or the product itself."""

    user_id: int | None
    name: str
    role: str
    source: Source
    address: str = ""
    token: str = ""

    @classmethod
    def of(cls, request: HttpRequest, user: User | None = None) -> Actor:
        """Return who sent the request; the name is empty if nobody is logged in.

        user: given if the request does not hold the user yet, or no longer does.
        """
        known = user or getattr(request, "auth", None)
        who = known if isinstance(known, User) else request.user
        prefix: str = getattr(request, "token_prefix", "")
        return cls(
            who.pk,
            who.get_username(),
            _role_of(who),
            "token" if prefix else "page",
            address_of(request),
            prefix,
        )

    @classmethod
    def system(cls, name: str) -> Actor:
        """Return the actor for a part of the product, such as `worker`."""
        return cls(None, name, "", "system")

    @classmethod
    def shell(cls) -> Actor:
        """Return the actor of a management command: the user of the operating system."""
        try:
            name = getpass.getuser()
        except (OSError, KeyError):
            name = "?"
        return cls(None, name, "", "command line")


def _role_of(user: AbstractBaseUser | AnonymousUser) -> str:
    try:
        return role_of(user) or ""
    except DatabaseError:  # the entry must not undo what has already been done
        return "?"


def address_of(request: HttpRequest) -> str:
    """Return the client's address as the login's rate limits see it; empty if there is none."""
    try:
        return str(get_adapter().get_client_ip(request))
    except PermissionDenied:
        return ""


def record(
    actor: Actor,
    action: str,
    *,
    scenario: str = "",
    target: str = "",
    outcome: str = "done",
    **facts: Any,
) -> None:
    """Write an entry: `actor` did `action` (from ACTIONS) to `target`, with this outcome.

    Never raises: an entry that cannot be written is counted, and logged in full.
    """
    fields = {
        "user_id": actor.user_id,
        "name": _text(actor.name, 150),
        "role": _text(actor.role, 20),
        "source": actor.source,
        "token": _text(actor.token, 8),
        "address": _text(actor.address, 45),
        "action": _text(action, 40),
        "scenario": _text(scenario, 40),
        "target": _text(target, 255),
        "outcome": _text(outcome, 100),
    }
    try:
        if action not in ACTIONS:
            log.error("an action that the audit does not list", action=fields["action"])
        at = now_ms()
        entry = append({**fields, "at": at, "facts": bounded_facts(facts)})
    except Exception:  # the caller's work is done, whatever happens to its entry
        AUDITED.labels("lost").inc()
        log.exception(
            "an audit entry could not be written", **fields, facts=repr(facts)[:MAX_FACTS]
        )
    else:
        AUDITED.labels("written").inc()
        log.info("audit", number=entry.number, digest=entry.digest, **fields)


def bounded_facts(facts: dict[str, Any]) -> str:
    """Return the facts as a JSON object of limited length; facts that are None are left out."""
    kept = {name: _bounded(value) for name, value in facts.items() if value is not None}
    text = json.dumps(kept, separators=(",", ":"))
    if len(text) > MAX_FACTS:
        names = [_text(name, 40) for name in list(kept)[:MAX_ITEMS]]
        return json.dumps({"too_long": names}, separators=(",", ":"))
    return text


def _bounded(value: Any, depth: int = 3) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, dict) and depth:
        items = list(value.items())[:MAX_ITEMS]
        return {_text(name, 100): _bounded(each, depth - 1) for name, each in items}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return [_bounded(each, depth - 1) for each in list(value)[:MAX_ITEMS]]
    return _text(value, MAX_TEXT)


def _text(value: Any, most: int) -> str:
    """Return a text that any database can store, of at most `most` characters."""
    text = str(value).replace("\0", "\ufffd")
    text = text.encode(errors="replace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ---- exports -------------------------------------------------------------------------------------
# Audit entries for lists downloaded as files.


def record_export(request: HttpRequest, listed: str, file: str, query: str) -> None:
    """Record that the sender of a request downloads a list as a file.

    query: the filter, as a query string.
    """
    facts = {"form": file.rpartition(".")[2], "filter": query}
    record(Actor.of(request), f"export.{listed}", target=file, **facts)


# ---- audit ---------------------------------------------------------------------------------------
# Pruning of entries past their time: always the oldest, never one in between.

# The clock of the database decides, and it may be behind ours.
MARGIN_MS = HOUR_MS


def prune(now: int) -> int:
    """Delete the entries older than KEPT_DAYS at `now` (Unix ms), and return how many.

    This is recorded first, with the digest that the first remaining entry follows, so that the
    chain can be checked from there.
    """
    before = now - KEPT_MS - MARGIN_MS
    kept = AuditEntry.objects.filter(at__gte=before).order_by("number").first()
    if kept is None:
        return 0
    old = AuditEntry.objects.filter(number__lt=kept.number)
    number = old.count()
    if not number:
        return 0
    record(
        Actor.system("worker"),
        "audit.pruned",
        target=f"{number} entries",
        last=kept.number - 1,
        digest=kept.previous,
        days=KEPT_DAYS,
    )
    old.delete()  # in one statement, so that the chain never has a gap
    return number


# ---- logins --------------------------------------------------------------------------------------
# Receivers of the login library's signals: logins, logouts, passwords, second factors.

LIMITED_EVERY_S = 60
"""Refusals of one name from one address are recorded once in this time, however many there are."""


def connect() -> None:
    """Connect the receivers."""
    user_logged_out.connect(_logged_out, dispatch_uid="audit")
    password_changed.connect(_password_changed, dispatch_uid="audit")
    for signal, action in (
        (authenticator_added, "factor.added"),
        (authenticator_removed, "factor.removed"),
        (authenticator_reset, "factor.renewed"),
    ):
        signal.connect(partial(_factor_changed, action), weak=False, dispatch_uid="audit")
    authentication_failed.connect(_code_failed, dispatch_uid="audit")


def login_ok(request: HttpRequest, user: User) -> None:
    """Record that a user has passed every step of a login."""
    record(Actor.of(request, user), "login.ok", target=user.get_username())


def login_failed(request: HttpRequest, name: str, what: str = "password") -> None:
    """Record a wrong name or password, at a login or on reauthentication."""
    record(Actor.of(request), "login.failed", target=name, outcome="refused", what=what)


def login_limited(request: HttpRequest, name: str) -> None:
    """Record that a login was refused after too many failed ones."""
    key = f"audit-limited:{address_of(request)}:{hash(name)}"
    if cache.add(key, True, LIMITED_EVERY_S):
        record(Actor.of(request), "login.limited", target=name, outcome="refused")


def _logged_out(request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        record(Actor.of(request, user), "logout", target=user.get_username())


def _password_changed(request: HttpRequest, user: User, **_: Any) -> None:
    record(Actor.of(request, user), "password.changed", target=user.get_username())


def _factor_changed(
    action: str, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any
) -> None:
    factor = str(authenticator.type)
    record(Actor.of(request, user), action, target=user.get_username(), factor=factor)


def _code_failed(request: HttpRequest, user: User, **_: Any) -> None:
    actor, name = Actor.of(request), user.get_username()
    record(actor, "login.failed", target=name, outcome="refused", what="code")
