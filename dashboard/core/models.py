"""What rows of several tables have in common, as abstract models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import models

from domain.names import MAX_NAME


class ScenarioRow(models.Model):
    """A row about a scenario."""

    scenario = models.CharField(max_length=40)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.scenario}: {self.pk}"


class AssetRow(ScenarioRow):
    """A row about an asset of a scenario."""

    asset = models.CharField(max_length=MAX_NAME)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.scenario}/{self.asset}"


class AgentRow(ScenarioRow):
    """A row about an agent of a scenario."""

    agent = models.CharField(max_length=MAX_NAME)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.scenario}/{self.agent}"


class AuthoredRow(models.Model):
    """A row that a user wrote. username: as it was then, for when the user is gone."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    username = models.CharField(max_length=150)

    class Meta:
        abstract = True


def named_fields(source: object, names: Sequence[str]) -> dict[str, Any]:
    """Return the attributes of a record that are fields of a row under the same names."""
    return {name: getattr(source, name) for name in names}
