"""A batch query requested of the job that carries its scenario."""

from __future__ import annotations

from typing import Any

import msgspec
from django.contrib.auth.models import User
from django.forms import Form

from dashboard.core.rate_limits import TooMany
from dashboard.job.models import BucketStatus
from dashboard.job.requests import send
from wire.job import Action


class NoQuery(Exception):
    """The job has not reported that it carries the scenario."""

    def __init__(self) -> None:
        super().__init__("The job has not reported this scenario yet. Is it running?")


def submit(
    action: Action, parameters: msgspec.Struct, detail: Any, user: User, now: int, reason: str = ""
) -> None:
    """Request a batch query. `detail`, a new row of the page that shows its result, names the
    scenario; it is saved with the request, and has its id.

    Raises NoQuery and rate_limits.TooMany, and then nothing was saved or sent.
    """
    query = query_of(detail.scenario)
    if query is None:
        raise NoQuery
    detail.query, detail.username, detail.asked_at = query, user.get_username(), now
    plain = msgspec.to_builtins(parameters)
    send(query, action, user, now, reason=reason, id_=detail.pk, parameters=plain, detail=detail)


def submit_form(
    form: Form, action: Action, parameters: msgspec.Struct, detail: Any, user: User, now: int
) -> int:
    """Request the batch query of a valid form, with its reason where it has one.

    Return the HTTP status: 302, or 409 and 429 with an error of the form where nothing was sent.
    """
    try:
        submit(action, parameters, detail, user, now, form.cleaned_data.get("reason", ""))
    except (NoQuery, TooMany) as error:
        form.add_error(None, str(error))
        return 409 if isinstance(error, NoQuery) else 429
    return 302


def query_of(scenario: str) -> str | None:
    """Return the query that carries a scenario, as its buckets last reported; None if none did."""
    beats = BucketStatus.objects.filter(scenario=scenario).order_by("-epoch", "-at")
    return beats.values_list("engine", flat=True).first()
