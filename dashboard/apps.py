"""The apps whose label is not their package's name: tables and migrations are named by it.

Any other app needs a configuration only for what it does when Django starts, in its own `apps.py`.
"""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name, label = "dashboard.agents", "agentry"

    def ready(self) -> None:
        """Offer what there is to say of agents to the banner."""
        from dashboard.agents.findings import news
        from dashboard.job.agent_findings import agent_news

        agent_news.register(news)


class BoardConfig(AppConfig):
    name, label = "dashboard.board", "board_pages"


class CheckpointsConfig(AppConfig):
    name, label = "dashboard.checkpoints", "materialiser"


class MaterialiserConfig(AppConfig):
    name, label = "dashboard.materialiser", "materialiser_process"


class ReplaysConfig(AppConfig):
    name, label = "dashboard.replays", "replay"


class RulesConfig(AppConfig):
    name, label = "dashboard.rules", "rulebook"


class StateStoreConfig(AppConfig):
    name, label = "dashboard.state_store", "statestore"


class StatesConfig(AppConfig):
    name, label = "dashboard.states", "board"


class WhatIfConfig(AppConfig):
    name, label = "dashboard.what_if", "whatif"
