"""Users' saved filters: private, shared, tabs of everybody's, and what a board opens with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import Index, Q, UniqueConstraint
from django.urls import reverse

from dashboard.core.common.access import ADMINS, role_of
from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import lock_until_commit
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
MOST_TABS = 12
"""Most filters that are tabs beside the boards."""
IS_TAB = "it is everybody's tab"


class FilterRefused(Exception):
    """The request cannot be carried out. field: the part that is at fault; message: why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


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

    def tabs(self) -> list[SavedFilter]:
        """Return the filters that are tabs, in the order of the boards and by name."""
        order = list(scenarios())
        rows = self.filter(tab=True, scenario__in=order)
        return sorted(rows, key=lambda each: (order.index(each.scenario), each.title, each.pk))

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
            if known is not None:
                known.check_changeable_by(user)
            saved = known or SavedFilter(user=user, scenario=scenario.name, title=title)
            before, saved.text, saved.at = saved.text, text, now
            # A tab that is withdrawn meanwhile stays so.
            saved.save(update_fields=["text", "at"] if known else None)
        return saved, before


class SavedFilter(ScenarioRow):
    """A named filter of one user and one scenario.

    text: in the filter language, including the states of the board's buttons; shared: everybody
    sees it, with its owner's name; tab: everybody has it as a tab beside the boards, with what is
    unhandled there; default: its owner's board opens with it.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="filters")
    title = models.CharField(max_length=MAX_TITLE)
    text = models.CharField(max_length=MAX_TEXT)
    shared = models.BooleanField(default=False)
    tab = models.BooleanField(default=False)
    default = models.BooleanField(default=False)
    at = models.BigIntegerField()

    objects = SavedFilterQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["user", "scenario", "title"], name="one_filter_per_title"),
            UniqueConstraint(
                fields=["user", "scenario"], condition=Q(default=True), name="one_default_filter"
            ),
            UniqueConstraint(
                fields=["scenario", "title"], condition=Q(tab=True), name="one_tab_per_title"
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
            raise FilterRefused("name", f"you already have a filter named {title}")
        with transaction.atomic():
            if self.tab:
                lock_until_commit("filters", "tabs")
                self._check_title(title)
            self.title = title
            self.save(update_fields=["title"])

    def check_changeable_by(self, user: User) -> None:
        """Raise FilterRefused if the user may not change it: admins alone change a tab."""
        if self.tab and role_of(user) not in ADMINS:
            raise FilterRefused("name", f"{IS_TAB}, which only admins can change")

    def publish(self) -> None:
        """Make it a tab of everybody's. Raises FilterRefused."""
        with transaction.atomic():
            lock_until_commit("filters", "tabs")
            self._check_title(self.title)
            if not self.tab and len(SavedFilter.objects.tabs()) >= MOST_TABS:
                raise FilterRefused("name", f"there are {MOST_TABS} tabs, the maximum")
            self.tab = self.shared = True
            self.save(update_fields=["tab", "shared"])

    def withdraw(self) -> None:
        """Make it no tab any more; it stays shared."""
        self.tab = False
        self.save(update_fields=["tab"])

    def _check_title(self, title: str) -> None:
        """Raise FilterRefused if another tab of the scenario has this title."""
        tabs = SavedFilter.objects.filter(tab=True, scenario=self.scenario, title=title)
        if tabs.exclude(pk=self.pk).exists():
            raise FilterRefused("name", f"another tab is named {title}")

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete it. Raises FilterRefused if it is a tab."""
        self._check_no_tab()
        return super().delete(*args, **kwargs)

    def _check_no_tab(self) -> None:
        if self.tab:
            raise FilterRefused("filter", f"{IS_TAB}; withdraw it first")

    def share(self, *, on: bool) -> None:
        """Share it with everybody, or stop sharing it. Raises FilterRefused for a tab."""
        if not on:
            self._check_no_tab()
        self.shared = on
        self.save(update_fields=["shared"])

    def make_default(self, *, on: bool) -> None:
        """Make its owner's board of the scenario open with it, or with everything again."""
        with transaction.atomic():
            SavedFilter.objects.filter(user=self.user, scenario=self.scenario).update(default=False)
            self.default = on
            self.save(update_fields=["default"])

    @property
    def full_title(self) -> str:
        """Return its name behind that of its board: `Attacks: EU`."""
        known = self.configured_scenario
        return f"{known.title if known else self.scenario}: {self.title}"

    def get_absolute_url(self) -> str:
        """Return the URL of the board with the filter."""
        return board_url(self.scenario, self.text)


class FirstBoardQuerySet(models.QuerySet["FirstBoard"]):
    def of(self, user: User) -> FirstBoard | None:
        """Return the board that a user begins with, or None where none is chosen."""
        return self.filter(user=user, scenario__in=list(scenarios())).select_related("user").first()

    def address_of(self, user: User) -> str:
        """Return the address of the board that a user begins with, "" where none is chosen."""
        row = self.of(user)
        return row.get_absolute_url() if row else ""

    def choose(self, user: User, scenario: str, saved: SavedFilter | None) -> None:
        """Have a user begin with a board, filtered or not; with none if `scenario` is empty."""
        if scenario:
            fields = {"scenario": scenario, "saved": saved}
            self.update_or_create(user=user, defaults=fields)
        else:
            self.filter(user=user).delete()


class FirstBoard(ScenarioRow):
    """The board that a user begins with. saved: the filter that it has, None: what it opens
    with."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    saved = models.ForeignKey(SavedFilter, models.SET_NULL, null=True, related_name="+")

    objects = FirstBoardQuerySet.as_manager()

    @property
    def visible_filter(self) -> SavedFilter | None:
        """Return its filter, or None if it has none that the user still sees."""
        if self.saved_id is None:
            return None
        return SavedFilter.objects.visible_to(self.user).filter(pk=self.saved_id).first()

    @property
    def value(self) -> str:
        """Return what the form calls it: the number of a filter, or the name of a scenario."""
        saved = self.visible_filter
        return str(saved.pk) if saved else self.scenario

    def get_absolute_url(self) -> str:
        """Return the address of the board."""
        if saved := self.visible_filter:
            return saved.get_absolute_url()
        return f"{reverse('board:board')}?{urlencode({'scenario': self.scenario})}"


def whole_filter(scenario: Scenario, states: Iterable[str], text: str, now: int) -> str:
    """Return what a board shows by its buttons and its filter, as one filter.

    Raises FilterRefused.
    """
    chosen = tuple(Text(name) for name in dict.fromkeys(states))
    try:
        criteria = parse(text, scenario, now)
        terms = (Term("state", chosen), *criteria.terms) if chosen else criteria.terms
        made = str(parse(str(Filter(terms)), scenario, now))
    except FilterError as error:
        raise FilterRefused("filter", str(error)) from error
    if not made:
        raise FilterRefused("filter", "type a filter first: the board shows everything now")
    if len(made) > MAX_TEXT:
        raise FilterRefused("filter", f"expected at most {MAX_TEXT} characters")
    return made


def _title(title: str) -> str:
    title = " ".join(title.split())
    if not title or len(title) > MAX_TITLE or CONTROL.search(title):
        raise FilterRefused("name", f"expected 1 to {MAX_TITLE} characters")
    return title
