"""Every address of the product; each app keeps its own."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path, register_converter

from dashboard.accounts.code_forms import SetUpView
from dashboard.core.glossary import glossary
from dashboard.core.paths import AssetConverter
from dashboard.core.short_addresses import first_page

register_converter(AssetConverter, "asset")

handler429 = "dashboard.accounts.token_views.too_many"
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
    path("", include("dashboard.accounts.urls")),
    path("", include("dashboard.accounts.user_urls")),
    path("", include("dashboard.audit.urls")),
    path("", include("dashboard.console.urls")),
    path("", include("dashboard.mail_catcher.urls")),
    path("", include("dashboard.topic_views.urls")),
    path("", include("dashboard.notifications.urls")),
    path("", include("dashboard.push.urls")),
    path("", include("dashboard.dead_letters.urls")),
    path("", include("dashboard.rules.urls")),
    path("", include("dashboard.batch_queries.urls")),
    path("", include("dashboard.state_store.urls")),
    path("", include("dashboard.what_if.urls")),
    path("", include("dashboard.annotations.urls")),
    path("", include("dashboard.handover.urls")),
    path("", include("dashboard.incidents.urls")),
    path("", include("dashboard.summaries.urls")),
    path("", include("dashboard.maintenance.urls")),
    path("", include("dashboard.schedules.urls")),
    path("", include("dashboard.orders.urls")),
    path("", include("dashboard.invoices.urls")),
    path("", include("dashboard.commands.urls")),
    path("", include("dashboard.bulk.urls")),
    path("", include("dashboard.agents.urls")),
    path("", include("dashboard.replays.urls")),
    path("", include("dashboard.retention.urls")),
    path("", include("dashboard.digests.urls")),
    path("", include("dashboard.api.urls")),
    path("", include("dashboard.filters.urls")),
    path("", include("dashboard.labels.urls")),
    path("", include("dashboard.board.urls")),
]
