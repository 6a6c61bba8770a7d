"""The server app."""

from django.apps import AppConfig


class ServerConfig(AppConfig):
    """The web process: what a connection may do, and daphne with a tailer beside it."""

    name = "dashboard.server"
    label = "server"
