"""Acknowledgements and notes of assets, and shifts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.cache import caches
from django.db.models import Count

from dashboard.core.common.access import Limit
from dashboard.core.common.times import DAY_MS, MINUTE_MS
from dashboard.core.states.ingestion import BatchChanges, StateChange, by_asset
from dashboard.core.states.queries import listed
from dashboard.core.states.rows import place_of
from dashboard.core.states.stores import newest_states
from dashboard.watch.annotations.models import SHIFT_MS, Acknowledgement, Note, Presence, Shift
from dashboard.watch.annotations.row_marks import alone, calm_of, changing, renew
from domain.scenario import Scenario

# ---- acknowledgements ----------------------------------------------------------------------------
# Acknowledgements: somebody has an asset in hand until a time, unless its state ends it before.
#
# What ends with a state does so in the transaction that writes that state.

MOST = 900
"""Most assets that are acknowledged at once: a form has a thousand fields at the most."""
LONGEST_MS = 7 * DAY_MS
"""Furthest end."""
LIMIT = Limit("acknowledgements", 3_000)
ABSENT = "it is not on the board"
"""Why what is not there is not acknowledged."""


NAMED = 5
"""Most assets that a sentence names."""


class AckOutcome(NamedTuple):
    """The assets that were acknowledged or noted on, and why others were not."""

    taken: list[str]
    left: list[tuple[str, str]]

    def words(self, scenario: Scenario, done: str, undone: str) -> str:
        """Return the outcome in sentences. done: with a place for `5 sites`."""
        n, sentences = len(self.taken), []
        if n:
            sentences.append(f"{done.format(f'{n} {scenario.noun}' + 's' * (n > 1))}.")
        if self.left:
            named = [f"{asset}, {why}" for asset, why in self.left[:NAMED]]
            more = len(self.left) - len(named)
            rest = f"; and {more} more" if more else ""
            sentences.append(f"{undone}: {'; '.join(named)}{rest}.")
        return " ".join(sentences)


def acknowledge(
    scenario: Scenario, assets: Collection[str], user: User, reason: str, until: int, now: int
) -> AckOutcome:
    """Acknowledge those that are on the board and not calm. Times in Unix ms. Raises TooMany."""
    LIMIT.take(user.pk, now, len(assets))
    outcome = AckOutcome([], [])
    with changing(scenario.name, now) as changed:
        states = newest_states(scenario.name, assets)
        rows = []
        for asset in assets:
            version, state = states.get(asset, ("", ""))
            why = why_not(scenario, state)
            if why:
                outcome.left.append((asset, why))
                continue
            outcome.taken.append(asset)
            rows.append(
                Acknowledgement(
                    scenario=scenario.name,
                    asset=asset,
                    user=user,
                    username=user.get_username(),
                    reason=reason,
                    at=now,
                    until=until,
                    state=state,
                    severity=scenario.severity(state),
                    place=place_of(version),
                )
            )
        _close(scenario.name, outcome.taken, "replaced", user, now)
        Acknowledgement.objects.bulk_create(rows)
        changed.extend(outcome.taken)
    return outcome


def take_back(scenario: Scenario, assets: Collection[str], user: User, now: int) -> list[str]:
    """End the acknowledgements in force of these assets, whosever they are.

    Returns the assets that had one.
    """
    LIMIT.take(user.pk, now, len(assets))
    with changing(scenario.name, now) as changed:
        ended = _close(scenario.name, assets, "taken back", user, now)
        changed.extend(ended)
    return ended


def why_not(scenario: Scenario, state: str) -> str:
    """Return why a state is not to be acknowledged; empty where it is."""
    if not state:
        return ABSENT
    if scenario.severity(state) >= calm_of(scenario):
        return f"it is {scenario.spec(state).label} already"
    return ""


def _close(scenario: str, assets: Collection[str], why: str, user: User, now: int) -> list[str]:
    """End the acknowledgements in force of these assets. Returns the assets that had one."""
    held = Acknowledgement.objects.of_assets(scenario, assets).in_force(now)
    names = sorted(set(held.values_list("asset", flat=True)))
    held.update(ended_at=now, ended_why=why, ended_by=user.get_username())
    return names


# ---- ended by a change of state ----------------------------------------------------------------


def ingest_changes(changes: BatchChanges) -> None:
    """End what the changes of a batch end."""
    end_by(changes.moves, changes.scenarios, changes.now)


def end_by(moves: Iterable[StateChange], scenarios: dict[str, Scenario], now: int) -> None:
    """End what these changes end. Call it after they are written, within their transaction."""
    for name, of_assets in sorted(by_asset(moves).items()):
        alone(name)
        ended = [
            ack.asset
            for ack in Acknowledgement.objects.of_assets(name, of_assets).in_force(now)
            if _end(ack, of_assets[ack.asset], scenarios[name])
        ]
        if ended:
            renew(name, ended, now)


def _end(ack: Acknowledgement, moves: list[StateChange], scenario: Scenario) -> bool:
    """Store the first change after it was given that ends it. Returns whether there is one."""
    for move in sorted(moves, key=lambda move: move.place):
        why = ack.why_ended_by(move.place, move.state, scenario)
        if why:
            ack.ended_at, ack.ended_why = move.at, why
            ack.save(update_fields=["ended_at", "ended_why"])
            return True
    return False


# ---- notes ---------------------------------------------------------------------------------------
# Notes on assets: written, edited for some minutes and deleted by who wrote them.

MOST_NOTES = 500
"""Most notes of one asset."""
NOTE_LIMIT = Limit("notes", 60)
FULL = f"{MOST_NOTES} notes on it already"
"""Why an asset takes no further note."""


class NoteRefused(ValueError):
    """An attempt to write, edit or delete a note that is refused; says why."""


def write_note(scenario: str, asset: str, user: User, text: str, now: int) -> Note:
    """Add a note to an asset. Raises NoteRefused where the asset has too many, TooMany."""
    outcome = write_notes(scenario, [asset], user, text, now)
    if outcome.left:
        raise NoteRefused(f"There are {FULL}: delete some first.")
    return Note.objects.of_asset(scenario, asset).filter(user=user, at=now).latest("pk")


def write_notes(
    scenario: str, assets: Collection[str], user: User, text: str, now: int
) -> AckOutcome:
    """Add the same note to each of these assets that has not too many. Raises TooMany."""
    NOTE_LIMIT.take(user.pk, now)
    outcome, name = AckOutcome([], []), user.get_username()
    with changing(scenario, now) as changed:
        notes = Note.objects.shown().filter(scenario=scenario, asset__in=listed(assets))
        counts = dict(notes.values_list("asset").annotate(Count("pk")).order_by())
        for asset in assets:
            if counts.get(asset, 0) >= MOST_NOTES:
                outcome.left.append((asset, FULL))
            else:
                outcome.taken.append(asset)
        changed.extend(outcome.taken)
        Note.objects.bulk_create(
            Note(scenario=scenario, asset=asset, user=user, username=name, text=text, at=now)
            for asset in outcome.taken
        )
    return outcome


def edit_note(note: Note, user: User, text: str, now: int) -> None:
    """Edit one's own note. Raises NoteRefused, TooMany."""
    NOTE_LIMIT.take(user.pk, now)
    if not note.may_be_edited_by(user, now):
        raise NoteRefused("Only its author may edit a note, for 15 minutes.")
    with changing(note.scenario, now) as changed:
        note.text, note.edited_at = text, now
        note.save(update_fields=["text", "edited_at"])
        changed.append(note.asset)


def delete_note(note: Note, user: User, now: int) -> None:
    """Delete one's own note. Raises NoteRefused."""
    if not note.may_be_deleted_by(user):
        raise NoteRefused("Only its author may delete a note.")
    with changing(note.scenario, now) as changed:
        Note.objects.shown().filter(pk=note.pk).update(deleted_at=now)
        changed.append(note.asset)


# ---- shifts --------------------------------------------------------------------------------------
# Shifts, and since when somebody was away. Times in Unix ms.

# A mark of a shift's end is gone by for so long, as some do not set it each time.
MARKED_MS = 7 * DAY_MS
# How exactly it is kept when somebody last did something.
ACTIVITY_STEP_MS = MINUTE_MS


def record_presence(user: AbstractBaseUser | AnonymousUser, now: int) -> None:
    """Store that the user does something; a pause of hours before it is remembered."""
    assert isinstance(user, User)
    if not caches["figures"].add(f"here:{user.pk}", True, timeout=ACTIVITY_STEP_MS // 1000):
        return
    known, made = Presence.objects.get_or_create(user=user, defaults={"last_at": now})
    if not made:
        known.renew(now)


class Since(NamedTuple):
    """The time from which on the handover lists changes, and why from there."""

    at: int
    why: str


def last_shift(user: User, now: int) -> Since:
    """Return when the user's last shift ended, else since when they were away."""
    ended = (
        Shift.objects.filter(user=user, ended_at__isnull=False).order_by("-ended_at", "-pk").first()
    )
    if ended is not None and ended.ended_at and now - ended.ended_at < MARKED_MS:
        return Since(ended.ended_at, "your last shift ended then")
    presence = Presence.objects.filter(user=user).first()
    if presence is not None and presence.away_from is not None:
        return Since(presence.away_from, "you were here then, and not in the 4 hours after it")
    return Since(now - SHIFT_MS, "no shift of yours is known: the last 8 hours")


def shift_ends(user: User, now: int) -> int:
    """Return when the user's shift ends: eight hours after it began, or from now."""
    shift = Shift.objects.current(user, now)
    at = shift.began_at + SHIFT_MS if shift else 0
    return at if at > now + ACTIVITY_STEP_MS else now + SHIFT_MS
