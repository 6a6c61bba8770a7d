"""Cancelling an errand, whichever page asked for it."""

from __future__ import annotations

from uuid import UUID, uuid4

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.core.access import form_of, role_required
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import Role
from dashboard.core.times import now_ms
from dashboard.job.ingestion import SETTLED
from dashboard.job.models import JobAsk
from dashboard.job.requests import send

ERRANDS = ("read-state", "what-if")


@form_of("console:job")
@role_required("read", (Role.ADMIN,))
def cancel(request: HttpRequest, ask: UUID) -> HttpResponse:
    """Ask the job to end an errand; its page tells when it has."""
    found = JobAsk.objects.filter(pk=ask, action__in=ERRANDS).first()
    if found is None:
        raise Http404
    assert isinstance(request.user, User)
    if found.status in SETTLED:
        messages.info(request, "It had ended already.")
    else:
        try:
            send(found.query, "cancel", "", uuid4(), request.user, now_ms(), {"ask": str(found.pk)})
            messages.info(request, "The job was asked to cancel it.")
        except TooMany as error:
            messages.error(request, str(error))
    back = request.POST.get("back", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, None) else "/")
