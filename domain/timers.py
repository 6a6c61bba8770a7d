"""What happens to an asset when something is due: expiry, end of a pin, a mute or a hold, purge."""

from __future__ import annotations

from domain import asset as due_kinds
from domain import transitions, votes
from domain.asset import Asset, Due, all_dues
from domain.records import Cause
from domain.scenario import Scenario


def carry_out(scenario: Scenario, asset: Asset, due: Due, at: int) -> None:
    """Let one thing that is due happen to an asset, as of `at` ms.

    Reminders are the fold's own matter, and so is the end of an asset's trace.
    """
    match due.order:
        case due_kinds.OVERRIDE_END:
            asset.override = None
        case due_kinds.VOTE_EXPIRY:
            votes.expire(scenario, asset, due.time, due.time)
            transitions.judge(scenario, asset, at)
        case due_kinds.VOTE_FORGOTTEN:
            votes.forget(scenario, asset, due.time)
            transitions.judge(scenario, asset, at)
            asset.drop_unknown(at)
        case due_kinds.MUTE_END:
            votes.unmute(scenario, asset, due.time)
            transitions.judge(scenario, asset, at, up=True, down=True)
        case due_kinds.HOLD:
            transitions.end_waits(scenario, asset, at)
        case due_kinds.PURGE_AFTER:
            asset.clear(at)


def remind(scenario: Scenario, asset: Asset, due: Due, clock: int) -> None:
    """Note one reminder for all that are due by `clock` ms, before anything else of the asset."""
    every = scenario.reminder(asset.shown or "") or 1
    others = [d for d in all_dues(asset, scenario) if d.order != due_kinds.REMINDER]
    missed = (clock - due.time) // every
    if others:
        first = min(others)
        spare = -1 if first.order < due_kinds.REMINDER else 0
        missed = min(missed, (first.time - due.time + spare) // every)
    asset.step += missed
    asset.reminded = due.time + missed * every


def cause(scenario: Scenario, asset: Asset, due: Due, at: int, partition: int) -> Cause:
    """Return the cause of what is due, as of `at` ms: whose vote, pin or mute it is of."""
    pinned = asset.override if due.order == due_kinds.OVERRIDE_END else None
    agent = _only(_agents_of(scenario, asset, due))
    muted = asset.votes[agent].muted if agent and due.order == due_kinds.MUTE_END else None
    ended = pinned or muted
    return Cause(
        type=due.type,
        partition=partition,
        offset=asset.offset,
        time=at,
        agent=agent,
        user=ended.user if ended else None,
        command=pinned.command if pinned else None,
    )


def _agents_of(scenario: Scenario, asset: Asset, due: Due) -> list[str]:
    """List the agents of which something is due."""
    match due.order:
        case due_kinds.VOTE_EXPIRY:
            return votes.expiring(asset, due.time)
        case due_kinds.VOTE_FORGOTTEN:
            return votes.forgotten(scenario, asset, due.time)
        case due_kinds.MUTE_END:
            return votes.unmuted(asset, due.time)
    return []


def _only(agents: list[str]) -> str | None:
    return agents[0] if len(agents) == 1 else None
