"""The console's page of replays."""

from django.urls import path

from dashboard.replays import views

app_name = "replays"

urlpatterns = [
    path("replay/", views.replay, name="replay"),
    path("replay/start/", views.start, name="start"),
]
