"""Addresses of commands and scheduled tasks. The asset comes last, as its name may hold any
character."""

from django.urls import include, path

from dashboard.watch.commands import views as command_views
from dashboard.watch.commands.schedules import TaskList, cancel

commands_urls = [
    path(
        "s/<str:scenario>/command/<str:kind>/<asset:asset>/",
        command_views.command,
        name="command",
    ),
    path("commands/<uuid:id>/", command_views.status, name="status"),
]

schedules_urls = [
    *TaskList.addresses("schedules/", "schedules"),
    path("s/<str:scenario>/schedules/cancel/<path:asset>/", cancel, name="cancel"),
]

urlpatterns = [
    path("", include((commands_urls, "commands"))),
    path("", include((schedules_urls, "schedules"))),
]
