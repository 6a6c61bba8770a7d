"""The audit's page, and its entries as a file."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db.models import Q, QuerySet

from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.hash_chain import FIELDS, ChainCheck, verify
from dashboard.core.audit.models import KEPT_DAYS, AuditEntry
from dashboard.core.common.access import Role, is_fragment
from dashboard.core.common.exports import TIMES
from dashboard.core.common.lists import ListPage
from dashboard.core.common.tables import Table
from dashboard.core.common.times import iso
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.vocabularies import (
    ChoiceKey,
    TextKey,
    TimeKey,
    Vocabulary,
    period,
    scenario_key,
)

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
ENTRY_TABLE = Table("", "When", "Who", "Action", "Target", "Outcome", "From", css="audit")


# ---- audit ---------------------------------------------------------------------------------------
# Forms of the audit's page.


def _actions() -> dict[str, str]:
    """Return the actions with what they mean; each group begins with one for the whole group."""
    choices: dict[str, str] = {}
    for word, names in groupby(sorted(ACTIONS), key=lambda name: name.partition(".")[0]):
        group = list(names)
        choices |= {f"{word}.": f"all of {word}"} if len(group) > 1 else {}
        choices |= {name: ACTIONS[name] for name in group}
    return choices


def _of_action(name: str) -> Q:
    return Q(action__startswith=name) if name.endswith(".") else Q(action=name)


def _names() -> list[str]:
    return list(User.objects.order_by("username").values_list("username", flat=True)[:MAX_OFFERED])


MAX_OFFERED = 200
"""Most user names that the filter offers."""
AUDIT_VOCABULARY = Vocabulary(
    word=lambda text: Q(target__icontains=text),
    example="a target, user:ada, action:command.",
    keys=(
        TextKey("user", "who did it", "name", known=_names),
        ChoiceKey("action", "what was done", _actions, _of_action),
        scenario_key(),
        TextKey(
            "outcome", "a part of it", "outcome", part=True,
            known=lambda: ("done", "sent", "unsent", "refused"),
        ),
        TextKey("address", "from where", "address"),
        TimeKey("at", "when", "at"),
    ),
    links=period("at"),
)  # fmt: skip


class AuditFilterForm(VocabularyForm):
    """The filter in the URL."""

    vocabulary = AUDIT_VOCABULARY

    def every(self) -> QuerySet[AuditEntry]:
        """Return all entries."""
        return AuditEntry.objects.all()


# ---- audit ---------------------------------------------------------------------------------------
# The audit's page, and its entries as a file.


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
        """Return whether the chain is whole, which scripts do not need."""
        if is_fragment(self.request):
            return {}
        return {"chain": checked(), "kept_days": KEPT_DAYS}
