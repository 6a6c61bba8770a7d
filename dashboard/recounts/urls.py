"""Recounts' pages."""

from django.urls import path

from dashboard.recounts import views

app_name = "recounts"

urlpatterns = [
    path("summary/recounts/", views.recounts, name="recounts"),
    path("summary/recounts/run/", views.run, name="run"),
    path("summary/recounts/<uuid:id>/", views.recount, name="recount"),
]
