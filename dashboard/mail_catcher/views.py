"""The pages of the mail catcher: its mails, one of them, and the page that a mail may contain."""

from __future__ import annotations

from functools import wraps
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from csp.decorators import csp
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import View, role_required
from dashboard.core.listing import number_of
from dashboard.core.navigation import OPERATORS
from dashboard.core.pages import render_page
from dashboard.core.tables import Pager
from dashboard.core.times import now_ms
from dashboard.mail_catcher.mails import MAIL_TABLE, Mail, page_of_mails, read_mail

LOCKED = {
    "default-src": [NONE],
    "style-src": [UNSAFE_INLINE],
    "img-src": ["data:"],
    "base-uri": [NONE],
    "form-action": [NONE],
    "frame-ancestors": [SELF],
    "sandbox": True,
}
"""What the page of a mail may do: be shown, by us alone."""


def where_mail_is_caught(view: View) -> View:
    """Raise Http404 where the product has a mail server, or none at all."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.TALLYBOARD.catches_mail:
            raise Http404
        return view(request, *args, **kwargs)

    return guarded


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
@where_mail_is_caught
def mail_list(request: HttpRequest) -> HttpResponse:
    """Return the page of mails, the newest first; to a script, the part that renews itself."""
    before = number_of(request.GET.get("before", "")) or None
    found = page_of_mails(before)
    pager = Pager.by_key("", "before", before, found.following, ("The newest", "Older"))
    context = {
        "now": now_ms(),
        "found": found,
        "first": not before,
        "table": MAIL_TABLE,
        "pager": pager,
        "address": request.get_full_path(),
    }
    return render_page(request, "mail_catcher/mails", context)


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
@where_mail_is_caught
def mail(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of one mail."""
    return render(request, "mail_catcher/mail.html", {"now": now_ms(), "mail": _mail(number)})


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
@where_mail_is_caught
@csp(LOCKED)  # type: ignore[arg-type] # the library knows no views with arguments
def mail_html(_request: HttpRequest, number: int) -> HttpResponse:
    """Return the page that a mail contains, which may neither run nor load anything."""
    if not (html := _mail(number).body.html):
        raise Http404
    return HttpResponse(html, headers={"X-Frame-Options": "SAMEORIGIN"})


def _mail(number: int) -> Mail:
    """Return a mail. Raises Http404."""
    found = read_mail(number)
    if found is None:
        raise Http404
    return found
