"""Pages of the accounts app."""

from django.urls import path

from dashboard.accounts import views

app_name = "accounts"

urlpatterns = [path("account/tokens/", views.tokens_page, name="tokens")]
