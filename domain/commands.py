"""What commands do to an asset and its override. The fold itself handles votes."""

from __future__ import annotations

from domain import transitions
from domain.asset import Asset
from domain.names import USER_PREFIX
from domain.records import APPLIED, NO_CHANGE, Command, Kind, Override
from domain.scenario import Scenario


def refusal(scenario: Scenario, command: Command, asset: Asset, clock: int) -> str | None:
    """Return why a command cannot be carried out at `clock` ms, or None if it can."""
    if command.if_version is not None:
        if asset.shown is None:
            return "no such asset any more"
        if asset.changed > command.if_version.in_log():
            return "the state has moved on"
    if command.kind in ("set", "vote") and not scenario.knows(command.state or ""):
        return "unknown state"
    if command.kind == "set" and command.until is not None and command.until <= clock:
        return "the end is in the past"
    return None


def cause_of(kind: Kind) -> str:
    """Return the type of a command's cause. The type `schedule` belongs to the run of a task."""
    return {"schedule": "scheduled", "cancel": "cancelled"}.get(kind, kind)


def pin(command: Command, asset: Asset, clock: int) -> str:
    """Set an override that begins at `clock` ms, and return the outcome."""
    pinned = Override(
        state=command.state or "",
        until=command.until,
        user=command.user,
        reason=command.reason,
        command=command.id,
        since=clock,
    )
    if asset.override is not None and asset.override.same_pin(pinned):
        return NO_CHANGE
    asset.override = pinned
    return APPLIED


def release(scenario: Scenario, asset: Asset, user: str, clock: int) -> str:
    """End the override, withdraw the operator's vote, and return the outcome."""
    vote = asset.votes.pop(USER_PREFIX + user, None)
    if asset.override is None and vote is None:
        return NO_CHANGE
    asset.override = None
    transitions.judge(scenario, asset, clock, up=True, down=True)
    return APPLIED


def purge(asset: Asset, at: int) -> str:
    """Forget the asset's state, and return the outcome.

    Reports older than `at` ms do not bring the asset back.
    """
    if asset.shown is None:
        return NO_CHANGE
    asset.clear(at)
    return APPLIED
