"""Scheduled tasks."""

from django.urls import path

from dashboard.schedules import views

app_name = "schedules"

urlpatterns = [
    path("schedules/", views.task_list, name="schedules"),
    path("s/<str:scenario>/schedules/cancel/<path:asset>/", views.cancel, name="cancel"),
]
