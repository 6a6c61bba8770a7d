"""The audit's page, and its entries as a file."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from django import forms
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db.models import QuerySet

from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.hash_chain import FIELDS, ChainCheck, verify
from dashboard.core.audit.models import KEPT_DAYS, AuditEntry
from dashboard.core.common.access import Role, is_fragment
from dashboard.core.common.exports import TIMES
from dashboard.core.common.forms import ListForm, PeriodForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.tables import Table
from dashboard.core.common.times import iso
from domain.names import MAX_NAME

# ---- audit ---------------------------------------------------------------------------------------
# Audit entries for a page or a file: newest first, filtered, paged.

CHECKED = 10_000
"""How many of the newest entries the page checks for an unbroken chain."""
CHECK_KEPT_S = 60
"""How long the result of the check is cached, s."""


class AuditRow(NamedTuple):
    """An audit entry for the page."""

    row: AuditEntry
    meaning: str
    facts: list[tuple[str, str]]


def _as_text(name: str, value: Any) -> str:
    if name in TIMES and isinstance(value, int):
        return iso(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def checked() -> ChainCheck:
    """Return whether the newest entries form an unbroken chain, by a recent check."""
    finding: ChainCheck | None = caches["figures"].get("audit-checked")
    if finding is None:
        finding = verify(CHECKED)
        caches["figures"].set("audit-checked", finding, CHECK_KEPT_S)
    return finding


COLUMNS = (*FIELDS, "digest")
ENTRY_TABLE = Table("", "At", "Who", "Did", "To", "Outcome", "From", css="audit")


# ---- audit ---------------------------------------------------------------------------------------
# Forms of the audit's page.


class AuditFilterForm(ListForm, PeriodForm):
    """The filter in the URL. Times in UTC."""

    user = forms.CharField(required=False, max_length=150, label="User")
    action = forms.ChoiceField(required=False)
    scenario = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of the target")
    outcome = forms.CharField(required=False, max_length=100)

    field_order = ("user", "action", "scenario", "q", "outcome")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", [("", "all"), *scenario_choices()])
        self.offer("action", [("", "all"), *_actions()])
        for name, known in (("user", "users-known"), ("outcome", "outcomes-known")):
            self.fields[name].widget.attrs = {"list": known, "autocomplete": "off"}

    def rows(self) -> QuerySet[AuditEntry]:
        """Return the entries that pass; an action may be a group such as `command.`."""
        data = self.criteria()
        conditions = {
            "name": data["user"],
            "action__startswith" if data["action"].endswith(".") else "action": data["action"],
            "scenario": data["scenario"],
            "target__icontains": data["q"],
            "outcome__icontains": data["outcome"],
            "at__gte": data["start"],
            "at__lt": data["end"],
        }
        return AuditEntry.objects.filter(
            **{name: value for name, value in conditions.items() if value not in ("", None)}
        )


def _actions() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the actions by first word; each group begins with a choice for the whole group."""
    groups = []
    for word, names in groupby(sorted(ACTIONS), key=lambda name: name.partition(".")[0]):
        group = list(names)
        every = [(f"{word}.", f"all of {word}")] if len(group) > 1 else []
        groups.append((word, [*every, *((name, ACTIONS[name]) for name in group)]))
    return groups


# ---- audit ---------------------------------------------------------------------------------------
# The audit's page, and its entries as a file.

MAX_OFFERED = 200
"""Most user names that the filter offers."""


class AuditList(ListPage):
    """The list of entries, newest first."""

    name = "audit"
    form_class = AuditFilterForm
    template = "audit/entries"
    table = ENTRY_TABLE
    roles = frozenset((Role.ADMIN,))
    fields = COLUMNS

    def entry(self, row: AuditEntry) -> AuditRow:
        """Return an entry for the page."""
        facts = {name: _as_text(name, value) for name, value in json.loads(row.facts).items()}
        return AuditRow(row, ACTIONS.get(row.action, ""), list(facts.items()))

    def plain(self, row: AuditEntry) -> dict[str, Any]:
        """Return an entry as an NDJSON object or a CSV line; its facts already are JSON."""
        return {**super().plain(row), "facts": msgspec.Raw(row.facts.encode())}

    def context(self) -> dict[str, Any]:
        """Return whether the chain is whole and which users to offer; scripts need neither."""
        if is_fragment(self.request):
            return {}
        return {"chain": checked(), "kept_days": KEPT_DAYS, "users": _names()}


def _names() -> list[str]:
    return list(User.objects.order_by("username").values_list("username", flat=True)[:MAX_OFFERED])
