"""The agents' app."""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """The app of agents."""

    name = "dashboard.watch.agents"

    def ready(self) -> None:
        """Register the findings about agents for the banner."""
        from dashboard.core.job.agent_findings import agent_news
        from dashboard.watch.agents.findings import news

        agent_news.register(news)
