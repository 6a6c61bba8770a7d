"""Every address of the product; each app keeps its own."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path, register_converter

from dashboard.core.accounts.forms import SetUpView
from dashboard.core.common.navigation import AssetConverter, first_page, glossary

register_converter(AssetConverter, "asset")

handler429 = "dashboard.core.accounts.views.too_many"
"""What the login library shows when one of its limits is reached."""


def not_offered(_request: HttpRequest, **_parts: str) -> HttpResponse:
    """Raise Http404 for a page of the login library that this product does without.

    No mail is sent from here.
    """
    raise Http404


urlpatterns = [
    path("console/", first_page, {"name": "console"}),
    path("notifications/", first_page, {"name": "notifications"}),
    path("mail/", first_page, {"name": "mail"}),
    path("retention/", first_page, {"name": "retention"}),
    path("glossary/", glossary, name="glossary"),
    path("account/password/reset/", not_offered),
    path("account/password/reset/<path:rest>", not_offered),
    path("account/password/set/", not_offered),
    path("account/email/", not_offered),
    path("account/confirm-email/", not_offered),
    path("account/confirm-email/<path:rest>", not_offered),
    path("account/2fa/totp/activate/", SetUpView.as_view(), name="mfa_activate_totp"),
    path("account/2fa/", include("allauth.mfa.urls")),
    path("account/", include("allauth.account.urls")),
    path("", include("dashboard.core.accounts.urls")),
    path("", include("dashboard.operate.administration.urls")),
    path("", include("dashboard.operate.console.urls")),
    path("", include("dashboard.notify.notifications.urls")),
    path("", include("dashboard.operate.dead_letters.urls")),
    path("", include("dashboard.operate.scenarios.urls")),
    path("", include("dashboard.operate.requests.urls")),
    path("", include("dashboard.watch.annotations.urls")),
    path("", include("dashboard.board.handover.urls")),
    path("", include("dashboard.watch.incidents.urls")),
    path("", include("dashboard.notify.summaries.urls")),
    path("", include("dashboard.watch.commands.urls")),
    path("", include("dashboard.retail.urls")),
    path("", include("dashboard.watch.bulk.urls")),
    path("", include("dashboard.watch.agents.urls")),
    path("", include("dashboard.serve.api.urls")),
    path("", include("dashboard.watch.filters.urls")),
    path("", include("dashboard.board.assets.urls")),
]
