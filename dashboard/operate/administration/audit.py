"""The page of the audit, and the same as a file."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from django import forms
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.hash_chain import FIELDS, KEPT_DAYS, ChainCheck, verify
from dashboard.core.audit.log import export
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.access import Role, is_fragment, role_required
from dashboard.core.common.exports import TIMES
from dashboard.core.common.forms import PeriodForm, scenario_choices
from dashboard.core.common.tables import Listing, Table, TableFile
from dashboard.core.common.times import iso, now_ms, unix_ms
from domain.names import MAX_NAME

# ---- audit ---------------------------------------------------------------------------------------
# Entries of the audit for a page or a file: newest first, filtered, page by page.

CHECKED = 10_000
"""So many of the newest entries the page looks along for whether their chain is whole."""
CHECK_KEPT_S = 60
"""How long what was found stands."""


class AuditFilter(NamedTuple):
    """A filter of entries. user: the whole name; action: one, or a group such as `command.`; q,
    outcome: a part of the text; start, end: Unix ms."""

    user: str = ""
    action: str = ""
    scenario: str = ""
    q: str = ""
    outcome: str = ""
    start: int | None = None
    end: int | None = None

    def rows(self) -> QuerySet[AuditEntry]:
        """Return the entries that pass."""
        conditions = {
            "name": self.user,
            "action__startswith" if self.action.endswith(".") else "action": self.action,
            "scenario": self.scenario,
            "target__icontains": self.q,
            "outcome__icontains": self.outcome,
            "at__gte": self.start,
            "at__lt": self.end,
        }
        return AuditEntry.objects.filter(
            **{name: value for name, value in conditions.items() if value not in ("", None)}
        )


class AuditRow(NamedTuple):
    """An entry as the page shows it."""

    row: AuditEntry
    meaning: str
    facts: list[tuple[str, str]]


def _entry(row: AuditEntry) -> AuditRow:
    facts = {name: _as_text(name, value) for name, value in json.loads(row.facts).items()}
    return AuditRow(row, ACTIONS.get(row.action, ""), list(facts.items()))


def _as_text(name: str, value: Any) -> str:
    if name in TIMES and isinstance(value, int):
        return iso(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def checked() -> ChainCheck:
    """Return whether the newest entries hang together, as checked a moment ago."""
    finding: ChainCheck | None = caches["figures"].get("audit-checked")
    if finding is None:
        finding = verify(CHECKED)
        caches["figures"].set("audit-checked", finding, CHECK_KEPT_S)
    return finding


COLUMNS = (*FIELDS, "digest")


def plain(row: AuditEntry) -> dict[str, Any]:
    """Return an entry as an object of NDJSON, or a line of CSV; its facts are an object already."""
    values = {name: getattr(row, name) for name in COLUMNS}
    return values | {"facts": msgspec.Raw(row.facts.encode())}


ENTRY_TABLE = Table("", "At", "Who", "Did", "To", "Outcome", "From", css="audit")
ENTRIES = Listing(_entry)
ENTRY_FILE = TableFile("audit", COLUMNS, plain)


# ---- audit ---------------------------------------------------------------------------------------
# Forms of the audit's page.

MAX_NUMBER = 2**63 - 1


class AuditFilterForm(PeriodForm):
    """The filter in the address. Times in UTC."""

    user = forms.CharField(required=False, max_length=150, label="User")
    action = forms.ChoiceField(required=False)
    scenario = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of the target")
    outcome = forms.CharField(required=False, max_length=100)
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_NUMBER, widget=forms.HiddenInput
    )

    PLACES = ("before",)
    field_order = ("user", "action", "scenario", "q", "outcome")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", [("", "all"), *scenario_choices()])
        self.offer("action", [("", "all"), *_actions()])
        for name, known in (("user", "users-known"), ("outcome", "outcomes-known")):
            self.fields[name].widget.attrs = {"list": known, "autocomplete": "off"}

    def wanted(self) -> AuditFilter:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return AuditFilter(
            user=data["user"],
            action=data["action"],
            scenario=data["scenario"],
            q=data["q"],
            outcome=data["outcome"],
            start=unix_ms(data["start"]),
            end=unix_ms(data["end"]),
        )


def _actions() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the actions by their first word; a word's first choice is all of its actions."""
    groups = []
    for word, names in groupby(sorted(ACTIONS), key=lambda name: name.partition(".")[0]):
        group = list(names)
        every = [(f"{word}.", f"all of {word}")] if len(group) > 1 else []
        groups.append((word, [*every, *((name, ACTIONS[name]) for name in group)]))
    return groups


# ---- audit ---------------------------------------------------------------------------------------
# The page of the audit, and the same as a file.

ADMINS = frozenset((Role.ADMIN,))
MAX_OFFERED = 200
"""Most names that the filter offers."""


@require_safe
@never_cache
@role_required("read", ADMINS)
def entries(request: HttpRequest) -> HttpResponse:
    """Return the page of entries, newest first; to a script, the part of it that renews itself."""
    form = AuditFilterForm(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    wanted = form.wanted() if valid else AuditFilter()
    context: dict[str, Any] = {
        "now": now_ms(),
        "table": ENTRY_TABLE,
        "narrowed": wanted != AuditFilter(),
        "address": request.get_full_path(),
        **ENTRIES.context(wanted.rows() if valid else None, before, form.query()),
    }
    if is_fragment(request):
        return render(request, "audit/_entries.html", context, status=200 if valid else 422)
    context |= {"form": form, "chain": checked(), "kept_days": KEPT_DAYS, "users": _names()}
    return render(request, "audit/entries.html", context, status=200 if valid else 422)


def _names() -> list[str]:
    return list(User.objects.order_by("username").values_list("username", flat=True)[:MAX_OFFERED])


@require_safe
@never_cache
@role_required("read", ADMINS)
def entry_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the entries that pass the filter as CSV or NDJSON, newest first."""
    filter_form = AuditFilterForm(request.GET)
    return export(request, ENTRY_FILE, form, filter_form, lambda: filter_form.wanted().rows())
