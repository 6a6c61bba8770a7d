"""Pages of the accounts app."""

from django.urls import path

from dashboard.core.accounts import views

app_name = "accounts"

urlpatterns = [
    path("account/tokens/", views.tokens_page, name="tokens"),
    path("account/sessions/", views.own_sessions, name="sessions"),
    path("users/tokens/", views.all_tokens, name="all-tokens"),
]
