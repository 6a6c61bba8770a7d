"""Pages of the accounts app."""

from django.urls import path

from dashboard.accounts import session_views, token_views

app_name = "accounts"

urlpatterns = [
    path("account/tokens/", token_views.tokens_page, name="tokens"),
    path("account/sessions/", session_views.own_sessions, name="sessions"),
    path("users/tokens/", session_views.all_tokens, name="all-tokens"),
]
