"""Cancelling a batch query, whichever page requested it."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import Role
from dashboard.core.times import now_ms
from dashboard.job.models import SETTLED, JobRequest
from dashboard.job.requests import send

ACTIONS = ("read-state", "what-if")


@form_of("console:job")
@role_required("read", (Role.ADMIN,))
def cancel(request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Request of the job that it ends a batch query; the query's page shows when it has."""
    query = get_object_or_404(JobRequest, pk=id, action__in=ACTIONS)
    if query.status in SETTLED:
        messages.info(request, "It had ended already.")
    else:
        try:
            send(
                query.query, "cancel", user_of(request), now_ms(), parameters={"ask": str(query.pk)}
            )
            messages.info(request, "The request to cancel it is sent.")
        except TooMany as error:
            messages.error(request, str(error))
    back = request.POST.get("back", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, None) else "/")
