"""What clients do at the login, as records of the security log, which the pipeline counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

import structlog
from django.http import HttpRequest

from config.logs import SECURITY
from dashboard.login_guard.client import client_of

Action = Literal["login", "login-throttled", "token-refused", "form-refused", "verified"]
"""All but `verified` count."""

log = structlog.get_logger(__name__)
security_log = logging.getLogger(SECURITY)


def log_action(request: HttpRequest, action: Action) -> None:
    """Log what the request's client did. Waits for nobody, and never raises."""
    client = client_of(request)
    security_log.info("%s: %s", client, action, extra={"client": client, "action": action})


def log_verified(request: HttpRequest) -> None:
    """Log that the request's client has solved a captcha, and have the log shipped at once.

    Each handler waits as long as it allows itself, Kafka's two seconds. Whatever fails, the client
    goes on.
    """
    log_action(request, "verified")
    for handler in _handlers():
        try:
            handler.flush()
        except Exception:  # the captcha is solved all the same
            log.exception("the security log could not be shipped")


def _handlers() -> Iterator[logging.Handler]:
    """Yield the handlers of the security log, those of its parents too."""
    logger: logging.Logger | None = security_log
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
