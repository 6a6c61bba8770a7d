"""Every address of the product; each app keeps its own."""

from django.urls import include, path, register_converter

from dashboard.paths import AssetConverter

register_converter(AssetConverter, "asset")

urlpatterns = [
    path("account/2fa/", include("allauth.mfa.urls")),
    path("account/", include("allauth.account.urls")),
    path("", include("dashboard.accounts.urls")),
    path("", include("dashboard.commands.urls")),
    path("", include("dashboard.api.urls")),
    path("", include("dashboard.board.urls")),
]
