"""What people work on: incidents that belong together, and what is done to them as one.

Incidents are found again by a rebuild under the place at which they began, and keep the case that
they have. A new one joins a case by when it began, not by when it is read: so a replay, or a crash
before the commit, gives the same cases.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from dashboard.core.audit.log import Actor
from dashboard.core.audit.log import record as audit
from dashboard.core.common.access import OPERATORS, Limit
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import LONG, chunks, lock_until_commit
from dashboard.core.common.times import SECOND_MS, now_ms
from dashboard.core.states.queries import fetched, listed
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.annotations.row_marks import RowMark, alone, renumber
from dashboard.watch.incidents.models import (
    ACKNOWLEDGED,
    RESOLVED,
    Case,
    CaseEntry,
    Incident,
    case_facts,
    later_end,
)

# ---- membership ----------------------------------------------------------------------------------
# Which case an incident belongs to.

_BEGAN = attrgetter("began_at")


class Wave:
    """The cases that incidents of a scenario may join, in the order in which they began.

    held: by asset, the newest case that has an incident of it; ends: by case, when its last
    incident ended (Unix ms), None while one goes on.
    """

    def __init__(
        self,
        scenario: str,
        cases: Iterable[Case],
        held: dict[str, Case],
        ends: dict[int, int | None],
    ) -> None:
        self.scenario, self.held, self.ends = scenario, held, ends
        self.window_ms = settings.TALLYBOARD.incident_window_s * SECOND_MS
        self.by_label: dict[str, list[Case]] = {}
        for case in cases:
            self._add(case)

    def case_for(self, incident: Incident, label: str) -> Case:
        """Return the case of an incident, a new one if it can join none. label: its asset's."""
        at = incident.began_at
        own = self.held.get(incident.asset)
        if own is None or not self._lasts(own, at):
            own = next(self._near(label, at), None) or self._begin(label, at)
        own = own.merged_into or own
        self.held[incident.asset] = own
        self.ends[own.pk] = later_end(self.ends.get(own.pk, at), incident.ended_at)
        return own

    def _begin(self, label: str, at: int) -> Case:
        case = Case.objects.create(scenario=self.scenario, label=label, began_at=at)
        self._add(case)
        return case

    def _add(self, case: Case) -> None:
        insort(self.by_label.setdefault(case.label, []), case, key=_BEGAN)

    def _near(self, label: str, at: int) -> Iterator[Case]:
        """Yield the cases whose window holds a time, those that began last before it first."""
        cases = self.by_label.get(label, [])
        edge = bisect_right(cases, at, key=_BEGAN)
        before = takewhile(lambda case: at - case.began_at <= self.window_ms, cases[:edge][::-1])
        after = takewhile(lambda case: case.began_at - at <= self.window_ms, cases[edge:])
        return (case for case in (*before, *after) if not _closed(case.merged_into or case, at))

    def _lasts(self, case: Case, at: int) -> bool:
        """Return whether an asset of the case that is in trouble again at a time is still of it.

        It is while another one's trouble goes on, or somebody has the case in hand.
        """
        if case.began_at - at > self.window_ms or _closed(case, at):
            return False
        end = self.ends.get(case.pk, 0)
        return end is None or at < end or bool(case.owner)


def _closed(case: Case, at: int) -> bool:
    """Return whether somebody had resolved the case before a time, so that nothing joins it."""
    return bool(case.resolved_by) and case.resolved_at is not None and case.resolved_at < at


def join(scenario: str, touched: Iterable[tuple[str, str]]) -> None:
    """Give incidents of a scenario their cases, and settle these.

    Call it in the transaction that writes the incidents. touched: the asset and place of each that
    began, ended or was withdrawn.
    """
    _only_here(scenario)
    for portion in chunks(sorted(set(touched)), LONG):
        _join(scenario, dict.fromkeys(portion))


def _join(scenario: str, touched: Collection[tuple[str, str]]) -> None:
    assets, places = ({each[at] for each in touched} for at in (0, 1))
    of_assets = Incident.objects.filter(
        scenario=scenario, asset__in=listed(assets), place__in=listed(places)
    )
    rows = [row for row in of_assets if (row.asset, row.place) in touched]
    new = [row for row in rows if row.case_id is None and row.ended_at != row.began_at]
    if new:
        _assign(scenario, sorted(new, key=lambda row: (row.began_at, row.asset)))
    numbers = {row.case_id for row in rows if row.case_id is not None}
    Case.objects.filter(pk__in=listed(numbers)).settle()
    renumber(scenario, assets, now_ms())


def numbers_of(scenario: str, assets: Collection[str]) -> dict[str, int]:
    """Return the number of the case of each of these assets that is in trouble."""
    return {asset: case for asset, case in fetched(_NUMBERS, scenario, assets) if case is not None}


_NUMBERS = """\
SELECT asset, case_id FROM incidents_incident WHERE ended_at IS NULL AND scenario = %s"""


def _only_here(scenario: str) -> None:
    """Lock the membership of a scenario's cases, and the marks that show it, to the commit.

    All take these two locks in this order.
    """
    alone(scenario)
    lock_until_commit("incidents", scenario)


def _assign(scenario: str, rows: list[Incident]) -> None:
    """Store the cases of incidents, which are in the order in which they began."""
    key = settings.TALLYBOARD.incident_label
    labels = labels_of(scenario, [row.asset for row in rows]) if key else {}
    wave = _wave(scenario, rows)
    members: dict[int, list[int]] = {}
    for row in rows:
        row.case = wave.case_for(row, labels.get(row.asset, {}).get(key, ""))
        members.setdefault(row.case.pk, []).append(row.pk)
    for number, incidents in members.items():
        Incident.objects.filter(pk__in=listed(incidents)).update(case=number)


def _wave(scenario: str, rows: list[Incident]) -> Wave:
    first, last = rows[0].began_at, rows[-1].began_at
    window_ms = settings.TALLYBOARD.incident_window_s * SECOND_MS
    around = Case.objects.select_related("merged_into").filter(
        scenario=scenario, began_at__gte=first - window_ms, began_at__lte=last + window_ms
    )
    lasting = Q(case__resolved_at=None) | Q(case__resolved_at__gte=first)
    known = Incident.objects.real().filter(
        lasting, scenario=scenario, asset__in=listed({row.asset for row in rows})
    )
    rejoining = known.filter(case__isnull=False).select_related("case").order_by("began_at", "pk")
    held = {row.asset: row.case for row in rejoining if row.case is not None}
    facts = case_facts({case.pk for case in held.values()})
    return Wave(scenario, around, held, {number: each.ended_at for number, each in facts.items()})


# ---- acknowledgements ----------------------------------------------------------------------------


def record_acknowledgements(scenario: str, marks: Iterable[RowMark], **_: Any) -> None:
    """Record who first acknowledged the open incidents of marked assets, and their cases."""
    assets: dict[tuple[str, int], list[str]] = {}
    for mark in marks:
        if mark.ack is not None:
            assets.setdefault((mark.ack.by, mark.ack.since), []).append(mark.asset)
    for (by, since), names in assets.items():
        rows = Incident.objects.open().filter(scenario=scenario, asset__in=listed(names))
        rows.acknowledge(by, since)
        Case.objects.filter(pk__in=rows.values("case")).acknowledge(by, since)


# ---- acts ----------------------------------------------------------------------------------------
# What people do to a case. Each is one transaction, with its entry on the timeline. Times in Unix
# ms. All raise TooMany.

LIMIT = Limit("incident-changes", 300)
MOST_ENTRIES = 2_000
"""Most entries on the timeline of a case that people may write."""


class CaseRefused(ValueError):
    """The change is refused; the message says why."""


def colleagues() -> QuerySet[User]:
    """Return the users who may own an incident, by name: those who operate the board."""
    roles = Q(groups__name__in=[role.value for role in OPERATORS]) | Q(is_superuser=True)
    return User.objects.filter(roles, is_active=True).order_by("username").distinct()


def acknowledge(case: Case, user: User, reason: str, until: int, now: int) -> int:
    """Acknowledge all assets of a case that are in trouble. Returns how many.

    Raises CaseRefused if the case is resolved.
    """
    _begin(case, user, now)
    if case.resolved_at is not None:
        raise CaseRefused(_over(case))
    scenario = scenarios()[case.scenario]
    assets = sorted(set(case.members.open().values_list("asset", flat=True)))
    taken = [
        asset
        for portion in chunks(assets, acknowledgements.MOST)
        for asset in acknowledgements.acknowledge(scenario, portion, user, reason, until, now).taken
    ]
    with transaction.atomic():
        Case.objects.filter(pk=case.pk).acknowledge(user.get_username(), now)
        case.write(ACKNOWLEDGED, user, now, reason)
    return len(taken)


@transaction.atomic
def hand_over(
    case: Case, user: User, owner: str, text: str, now: int, seen: str | None = None
) -> None:
    """Give a case to a colleague, or to nobody: it is then open again.

    owner: a name, or ""; seen: the owner until now, as the user saw it. Raises CaseRefused if the
    case is resolved, another owns it meanwhile, or the new owner may not work on it.
    """
    _begin(case, user, now)
    if owner and not colleagues().filter(username=owner).exists():
        raise CaseRefused(f"{owner} may not work on incidents.")
    fields = {"owner": owner} if owner else {"owner": "", **UNACKNOWLEDGED}
    same = Case.objects.unresolved().filter(pk=case.pk)
    if not (same if seen is None else same.filter(owner=seen)).update(**fields):
        case.refresh_from_db()
        meanwhile = f"Its owner is {case.owner or 'nobody'} by now. Look at it, and try again."
        raise CaseRefused(_over(case) if case.resolved_at else meanwhile)
    case.write("owner", user, now, f"{owner or 'nobody'}{f': {text}' if text else ''}")
    Case.objects.filter(pk=case.pk).settle()
    case.refresh_from_db()


@transaction.atomic
def write_note(case: Case, user: User, text: str, now: int) -> None:
    """Add a note to a case. Raises CaseRefused if it has too many entries."""
    _begin(case, user, now)
    case.write("note", user, now, text)


@transaction.atomic
def set_ticket(case: Case, user: User, ticket: str, now: int) -> None:
    """Set the reference of the ticket of a case, or take it away with "". Raises CaseRefused."""
    _begin(case, user, now)
    Case.objects.filter(pk=case.pk).update(ticket=ticket)
    case.write("ticket", user, now, ticket or "none")
    case.refresh_from_db()


@transaction.atomic
def resolve(case: Case, user: User, text: str, now: int) -> None:
    """Resolve a case, whatever state its assets are in. Raises CaseRefused if it is resolved."""
    _begin(case, user, now)
    fields = {"resolved_at": now, "resolved_by": user.get_username()}
    if not Case.objects.unresolved().filter(pk=case.pk).update(**fields):
        raise CaseRefused(f"{case.number} is resolved already.")
    case.write(RESOLVED, user, now, text)
    case.refresh_from_db()


@transaction.atomic
def reopen(case: Case, user: User, text: str, now: int) -> None:
    """Open a resolved case again, for its owner, else for the user. One that is not stays as it is.

    Raises CaseRefused if it has too many entries.
    """
    _begin(case, user, now)
    fields = {"resolved_at": None, "resolved_by": "", "owner": case.owner or user.get_username()}
    if Case.objects.filter(pk=case.pk, resolved_at__isnull=False).update(**fields):
        case.write("reopened", user, now, text)
    case.refresh_from_db()


@transaction.atomic
def note_closed_ticket(ticket: str, user: User, text: str, now: int) -> list[Case]:
    """Note on each case with a ticket that this was closed elsewhere. Returns the cases.

    A call that is repeated is noted once. Raises CaseRefused if a case has too many entries.
    """
    rows = list(Case.objects.shown().filter(ticket=ticket).order_by("-pk")[:MOST_OF_TICKET])
    words = f"{ticket}: {text}" if text else ticket
    for case in rows:
        _begin(case, user, now)
        newest = case.entries.order_by("-at", "-pk").filter(kind__in=("closed", "ticket")).first()
        if newest is None or (newest.kind, newest.text) != ("closed", words):
            case.write("closed", user, now, words)
    return rows


@transaction.atomic
def merge(case: Case, user: User, into: Case, now: int) -> None:
    """Make a case a part of another one, which gets its incidents, entries and number.

    The other keeps its owner and ticket, and takes this one's where it has none. Raises CaseRefused
    if they are the same, or of two scenarios.
    """
    _begin(case, user, now)
    if into.pk == case.pk:
        raise CaseRefused("An incident cannot be merged with itself.")
    if into.scenario != case.scenario:
        raise CaseRefused(f"{into.number} is of another scenario.")
    _only_here(case.scenario)
    into.owner, into.ticket = into.owner or case.owner, into.ticket or case.ticket
    if into.acknowledged_at is None:
        into.acknowledged_at, into.acknowledged_by = case.acknowledged_at, case.acknowledged_by
    # What begins with either of them later still finds its wave, under the one or the other.
    begun = sorted((case.began_at, into.began_at))
    into.began_at = begun[0]
    into.save(update_fields=["began_at", "owner", "ticket", *UNACKNOWLEDGED])
    Incident.objects.filter(case=case.pk).update(case=into.pk)
    CaseEntry.objects.filter(case=case.pk).update(case=into.pk)
    Case.objects.filter(merged_into=case.pk).update(merged_into=into.pk)
    gone = {"began_at": begun[1], "merged_into": into, "owner": "", "resolved_at": now}
    Case.objects.filter(pk=case.pk).update(**gone)
    into.write("merged", user, now, f"{case.number} into {into.number}")
    Case.objects.filter(pk=into.pk).settle()
    _renumber(into, now)


@transaction.atomic
def split(case: Case, user: User, assets: Collection[str], now: int) -> Case:
    """Make some assets of a case an incident of their own, of the same owner. Returns it.

    Raises CaseRefused if these are none of its assets, or all of them.
    """
    _begin(case, user, now)
    _only_here(case.scenario)
    members = case.members.filter(asset__in=listed(list(assets)))
    first = members.first()
    if first is None:
        raise CaseRefused(f"These are no assets of {case.number}.")
    if not case.members.exclude(asset__in=listed(list(assets))).exists():
        raise CaseRefused(f"These are all assets of {case.number}.")
    own = Case.objects.create(
        scenario=case.scenario, label=case.label, began_at=first.began_at, owner=case.owner,
        acknowledged_at=case.acknowledged_at, acknowledged_by=case.acknowledged_by,
    )  # fmt: skip
    Incident.objects.filter(pk__in=members.values("pk")).update(case=own.pk)
    for each in (case, own):
        each.write("split", user, now, f"{own.number} off {case.number}")
    Case.objects.filter(pk__in=[case.pk, own.pk]).settle()
    _renumber(own, now)
    return own


def _renumber(case: Case, now: int) -> None:
    """Mark the rows of a case's assets that are in trouble with its number."""
    assets = set(case.members.open().values_list("asset", flat=True))
    for portion in chunks(sorted(assets), LONG):
        renumber(case.scenario, portion, now)


MOST_OF_TICKET = 20
"""Most cases with the same ticket that are looked at, the newest."""
UNACKNOWLEDGED: dict[str, Any] = {"acknowledged_at": None, "acknowledged_by": ""}


def _begin(case: Case, user: User, now: int) -> None:
    """Count a change by the user. Raises CaseRefused if the case has too many entries."""
    LIMIT.take(user.pk, now)
    if case.entries.count() >= MOST_ENTRIES:
        raise CaseRefused(f"{case.number} has {MOST_ENTRIES} entries already.")


def _over(case: Case) -> str:
    return f"{case.number} is resolved: reopen it first."


def log(case: Case, actor: Actor, action: str, **facts: Any) -> None:
    """Record in the audit what somebody did to a case."""
    audit(actor, f"incident.{action}", scenario=case.scenario, target=case.number, **facts)
