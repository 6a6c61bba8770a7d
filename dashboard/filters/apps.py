"""The Django app of filters."""

from django.apps import AppConfig


class FiltersConfig(AppConfig):
    """See the package."""

    name = "dashboard.filters"
    label = "filters"
    default_auto_field = "django.db.models.BigAutoField"
