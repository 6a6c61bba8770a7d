"""The materialiser app."""

from django.apps import AppConfig


class MaterialiserConfig(AppConfig):
    """The process that writes the sink topics into the database."""

    name = "dashboard.materialiser"
    label = "materialiser_process"
