"""What the pages of the console share."""

from __future__ import annotations

from collections.abc import Collection

from django import template

from dashboard.scenarios import scenarios
from domain.scenario import Scenario

register = template.Library()


@register.simple_tag
def boards() -> Collection[Scenario]:
    """The scenarios, each of which has a board to go to."""
    return scenarios().values()
