"""The app of the agents."""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """The app of agents: their figures, their page, muting them."""

    name = "dashboard.agents"
    label = "agentry"
    default_auto_field = "django.db.models.BigAutoField"
