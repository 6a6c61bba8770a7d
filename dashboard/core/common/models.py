"""Abstract models for rows of several tables, and finding the rows that are ongoing at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Case, F, GeneratedField, Index, Q, SmallIntegerField, When
from django.db.models.expressions import CombinedExpression
from django.db.models.lookups import GreaterThan, LessThan

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS
from domain.names import MAX_NAME
from domain.scenario import Scenario

# ---- core ----------------------------------------------------------------------------------------
# Abstract models for what rows of several tables have in common.


class ScenarioRow(models.Model):
    """A row about a scenario."""

    scenario = models.CharField(max_length=40)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.scenario}: {self.pk}"

    @property
    def configured_scenario(self) -> Scenario | None:
        """Return its scenario, or None if that is no longer configured."""
        return scenarios().get(self.scenario)


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
    """A row that a user wrote. username: the name at that time, in case the user is deleted."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    username = models.CharField(max_length=150)

    class Meta:
        abstract = True


def named_fields(source: object, names: Sequence[str]) -> dict[str, Any]:
    """Return the attributes of a record that are row fields of the same names."""
    return {name: getattr(source, name) for name in names}


# ---- overlap -------------------------------------------------------------------------------------
# Rows that begin and end, and how to find those that are ongoing at a time.
#
# With an index on beginnings alone, finding them means reading history from one of its ends. So
# each row that lasts longer than an hour has a length class, which is indexed: rows of a class that
# are ongoing at a time began no longer before it than the class's limit.

LENGTHS_MS = tuple(8**n * HOUR_MS for n in range(4))
"""Longest rows of each length class: of none, the first, the second and the third.

Those of the fourth are longer.
"""


def length_class(begin: str, end: str) -> GeneratedField:
    """Return the column of a row's length class: null up to an hour, and without an end."""
    longest_first = reversed(list(enumerate(LENGTHS_MS, start=1)))
    return GeneratedField(
        expression=Case(
            *(When(**{f"{end}__gt": F(begin) + ms}, then=n) for n, ms in longest_first),
            default=None,
        ),
        output_field=SmallIntegerField(null=True),
        db_persist=True,
    )


def length_index(begin: str, end: str, name: str) -> Index:
    """Return the index of a scenario's rows that have a length class."""
    return Index(
        fields=["scenario", "length_class", begin, end],
        condition=Q(length_class__isnull=False),
        name=name,
    )


def ongoing(at: int, begin: str, end: str) -> list[Q]:
    """Return conditions that together match the rows ongoing at a time (Unix ms).

    These began before it, and end after it or have no end yet. An index answers each condition.
    """
    open_ = Q(LessThan(_unindexed(begin), at), **{end: None})
    ended = {f"{begin}__lt": at, f"{end}__gt": at}
    lengths = enumerate(LENGTHS_MS)
    bounded = (Q(**ended, **{f"{begin}__gt": at - ms}, length_class=n or None) for n, ms in lengths)
    return [open_, *bounded, Q(**ended, length_class=len(LENGTHS_MS))]


def overlap(since: int, until: int, begin: str, end: str) -> Q:
    """Return the condition that a row overlaps a period (Unix ms).

    For queries that another index narrows to few rows, such as that of the assets.
    """
    lasted = Q(**{end: None}) | Q(GreaterThan(_unindexed(end), since))
    return Q(LessThan(_unindexed(begin), until)) & lasted


def _unindexed(column: str) -> CombinedExpression:
    """Return a number column in a form that no index has.

    A planner without statistics would use the index of all beginnings where another has far fewer
    rows.
    """
    return F(column) + 0
