"""The addresses of commands. The asset comes last, as its name may hold any character."""

from django.urls import path

from dashboard.commands import views

app_name = "commands"

urlpatterns = [
    path(
        "s/<str:scenario>/command/<str:kind>/<asset:asset>/",
        views.command,
        name="command",
    ),
    path("commands/<uuid:id>/", views.status, name="status"),
]
