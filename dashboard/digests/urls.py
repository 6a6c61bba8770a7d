"""Digests: one's own subscriptions, and the links that end one."""

from django.urls import path

from dashboard.digests import views

app_name = "digests"

urlpatterns = [
    path("account/digests/", views.own, name="own"),
    path("account/digests/<slug:scenario>/", views.change, name="change"),
    path("digests/unsubscribe/<str:token>/", views.unsubscribe, name="unsubscribe"),
]
