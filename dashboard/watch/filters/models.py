"""Users' saved filters: private, shared, and the one a board opens with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.scenarios import scenarios
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError, board_url, parse
from dashboard.core.states.filter_terms import Filter, Term, Text
from domain.names import CONTROL
from domain.scenario import Scenario

# ---- filters -------------------------------------------------------------------------------------
# Users' saved filters. Times in Unix ms.

MAX_TITLE = 60
"""Longest name of a filter, characters."""
MOST_OWN = 50
"""Most filters that one user may have."""
MOST_SHARED = 50
"""Most of other users' filters that a board's menu lists, by name."""


class FilterRefused(Exception):
    """The request cannot be carried out; `field` names the part that is at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class Menu(NamedTuple):
    """A user's own filters for a scenario, and those that others share."""

    own: list[SavedFilter]
    shared: list[SavedFilter]


class SavedFilterQuerySet(models.QuerySet["SavedFilter"]):
    def visible_to(self, user: User) -> SavedFilterQuerySet:
        """Return the user's own filters and shared ones, for existing scenarios, by name."""
        seen = self.filter(Q(user=user) | Q(shared=True), scenario__in=list(scenarios()))
        return seen.select_related("user").order_by("scenario", "title", "pk")

    def menu(self, user: User, scenario: str) -> Menu:
        """Return the filters that a board's menu lists."""
        every = self.visible_to(user).filter(scenario=scenario)
        return Menu(list(every.filter(user=user)), list(every.exclude(user=user)[:MOST_SHARED]))

    def default_of(self, user: User, scenario: str) -> SavedFilter | None:
        """Return the filter that the user's board opens with, or None."""
        return self.filter(user=user, scenario=scenario, default=True).first()

    def keep(
        self, user: User, scenario: Scenario, title: str, text: str, now: int
    ) -> tuple[SavedFilter, str]:
        """Save a filter. One of the same name is replaced, and its text is returned too.

        text: in the filter language. Raises FilterRefused.
        """
        title = _title(title)
        with transaction.atomic():
            own = self.filter(user=user)
            known = own.filter(scenario=scenario.name, title=title).first()
            if known is None and own.count() >= MOST_OWN:
                raise FilterRefused("name", f"you have {MOST_OWN} filters, the maximum; delete one")
            saved = known or SavedFilter(user=user, scenario=scenario.name, title=title)
            before, saved.text, saved.at = saved.text, text, now
            saved.save()
        return saved, before


class SavedFilter(ScenarioRow):
    """A named filter of one user and one scenario.

    text: in the filter language, including the states of the board's buttons; shared: everybody
    sees it, with its owner's name; default: its owner's board opens with it.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="filters")
    title = models.CharField(max_length=MAX_TITLE)
    text = models.CharField(max_length=MAX_TEXT)
    shared = models.BooleanField(default=False)
    default = models.BooleanField(default=False)
    at = models.BigIntegerField()

    objects = SavedFilterQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["user", "scenario", "title"], name="one_filter_per_title"),
            UniqueConstraint(
                fields=["user", "scenario"], condition=Q(default=True), name="one_default_filter"
            ),
        )
        indexes = (
            Index(fields=["scenario", "title"], condition=Q(shared=True), name="shared_filters"),
        )

    def rename(self, title: str) -> None:
        """Rename it. Raises FilterRefused."""
        title = _title(title)
        others = SavedFilter.objects.filter(user=self.user, scenario=self.scenario, title=title)
        if others.exclude(pk=self.pk).exists():
            raise FilterRefused("name", f"you have another filter of the name {title}")
        self.title = title
        self.save(update_fields=["title"])

    def share(self, *, on: bool) -> None:
        """Share it with everybody, or stop sharing it."""
        self.shared = on
        self.save(update_fields=["shared"])

    def make_default(self, *, on: bool) -> None:
        """Make its owner's board of the scenario open with it, or with everything again."""
        with transaction.atomic():
            SavedFilter.objects.filter(user=self.user, scenario=self.scenario).update(default=False)
            self.default = on
            self.save(update_fields=["default"])

    def get_absolute_url(self) -> str:
        """Return the URL of the board with the filter."""
        return board_url(self.scenario, self.text)


def whole_filter(scenario: Scenario, states: Iterable[str], text: str, now: int) -> str:
    """Return what a board shows by its buttons and its filter, as one filter.

    Raises FilterRefused.
    """
    chosen = tuple(Text(name) for name in dict.fromkeys(states))
    try:
        wanted = parse(text, scenario, now)
        terms = (Term("state", chosen), *wanted.terms) if chosen else wanted.terms
        made = str(parse(str(Filter(terms)), scenario, now))
    except FilterError as error:
        raise FilterRefused("filter", str(error)) from error
    if not made:
        raise FilterRefused("filter", "expected a filter: the board shows everything now")
    if len(made) > MAX_TEXT:
        raise FilterRefused("filter", f"expected at most {MAX_TEXT} characters")
    return made


def _title(title: str) -> str:
    title = " ".join(title.split())
    if not title or len(title) > MAX_TITLE or CONTROL.search(title):
        raise FilterRefused("name", f"expected 1 to {MAX_TITLE} characters")
    return title
