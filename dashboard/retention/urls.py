"""How long everything is kept."""

from django.urls import path

from dashboard.retention import views

app_name = "retention"

urlpatterns = [
    path("console/retention/", views.retention, name="retention"),
    path("console/retention/set/", views.change, name="change"),
]
