"""The addresses of commands; Scheduled tasks."""

from django.urls import include, path

from dashboard.watch.commands import schedules
from dashboard.watch.commands import views as command_views

commands_urls = [
    path(
        "s/<str:scenario>/command/<str:kind>/<asset:asset>/",
        command_views.command,
        name="command",
    ),
    path("commands/<uuid:id>/", command_views.status, name="status"),
]

schedules_urls = [
    path("schedules/", schedules.task_list, name="schedules"),
    path("s/<str:scenario>/schedules/cancel/<path:asset>/", schedules.cancel, name="cancel"),
]

urlpatterns = [
    path("", include((commands_urls, "commands"))),
    path("", include((schedules_urls, "schedules"))),
]
