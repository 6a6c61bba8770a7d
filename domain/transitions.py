"""How votes change an asset's state: at once, or after a wait as long as a hold."""

from __future__ import annotations

from domain.asset import Asset
from domain.records import Vote
from domain.scenario import Scenario
from domain.tally import Voices, lowered, raised, tally
from domain.votes import is_live


def judge(
    scenario: Scenario,
    asset: Asset,
    at: int,
    *,
    up: bool = False,
    down: bool = False,
    ends: bool = True,
) -> None:
    """Judge the asset's state by its votes as they are at `at` ms.

    up, down: whether the event is evidence that may bring a worse or a milder state. If it is
    neither, it is silence, which moves nothing. ends: whether evidence ends the waits that are
    over; if not, they end as events of their own.
    """
    voices = Voices.of(scenario, asset.votes.values(), asset.doubts)
    if asset.state is None:
        _judge_first(scenario, asset, voices)
    elif scenario.life_cycle:
        _follow(scenario, asset, voices.live, at)
    else:
        _weigh(scenario, asset, asset.state, voices, at, up=up, down=down)
        if ends and (up or down):
            end_waits(scenario, asset, at)


def _judge_first(scenario: Scenario, asset: Asset, voices: Voices) -> None:
    asset.waits = {}
    if voices.live:
        asset.state = raised(scenario, voices, None)


def _follow(scenario: Scenario, asset: Asset, live: list[Vote], at: int) -> None:
    """Move a life cycle: no state is worse than another, and the tally is the next state."""
    if len(live) < scenario.min_voters:
        asset.waits = {}
        return
    target = tally(scenario, live, asset.state)
    if target == asset.state:
        asset.waits = {}
    elif not scenario.hold(target):
        asset.state, asset.waits = target, {}
    elif target not in asset.waits:
        asset.waits = {target: at}


def _weigh(
    scenario: Scenario,
    asset: Asset,
    state: str,
    voices: Voices,
    at: int,
    *,
    up: bool,
    down: bool,
) -> None:
    """Start and cancel waits for worse and milder states."""
    severity = scenario.severity
    here = severity(state)
    if not voices.live:  # silence ends no wait for a worse state
        asset.waits = {each: t for each, t in asset.waits.items() if severity(each) < here}
        return
    high = raised(scenario, voices, state)
    low = lowered(scenario, voices, state, high)
    if not asset.waits and high == low == state:
        return
    rising, falling = _split(scenario, asset.waits, here)
    if up or down:
        rising = {each: t for each, t in rising.items() if severity(each) >= severity(low)}
    if up and len(voices.live) >= scenario.raise_voters:
        for rank in range(severity(high), here):
            rising.setdefault(scenario.states[rank].name, at)
    falls = not rising and len(voices.sure) >= scenario.min_voters
    falling = _fall(scenario, falling, low, here, at, begin=down) if falls else {}
    asset.waits = {**rising, **falling}


def _split(
    scenario: Scenario, waits: dict[str, int], here: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the waits for states worse and milder than rank `here`."""
    severity = scenario.severity
    rising = {state: at for state, at in waits.items() if severity(state) < here}
    return rising, {state: at for state, at in waits.items() if severity(state) > here}


def _fall(
    scenario: Scenario, falling: dict[str, int], low: str, here: int, at: int, *, begin: bool
) -> dict[str, int]:
    """Return the waits for milder states, where `low` is the mildest that votes support.

    A wait for `low` is as old as the oldest wait for a milder state that it replaces: for all that
    time, the votes supported at least `low`.
    """
    severity = scenario.severity
    rank = severity(low)
    left = {state: since for state, since in falling.items() if severity(state) <= rank}
    if begin and rank > here:
        milder = [since for state, since in falling.items() if severity(state) > rank]
        left.setdefault(low, min([at, *milder]))
    return left


def end_unvoiced(scenario: Scenario, asset: Asset, muted: Vote | None) -> None:
    """End all waits of an asset if a mute has removed the last live vote."""
    taken = muted is not None and is_live(scenario, muted)
    if taken and not any(is_live(scenario, vote) for vote in asset.votes.values()):
        asset.waits = {}


def end_waits(scenario: Scenario, asset: Asset, at: int) -> None:
    """Move the asset to the states whose waits are over by `at` ms."""
    severity = scenario.severity
    while asset.waits and (target := _ended(scenario, asset, at)) is not None:
        to, here = severity(target), severity(asset.state or "")
        asset.state = target
        asset.waits = {
            state: since
            for state, since in asset.waits.items()
            if (severity(state) < to if to < here else severity(state) > to)
        }


def _ended(scenario: Scenario, asset: Asset, at: int) -> str | None:
    """Return the state whose wait is over: the worst of the worse ones, else the mildest."""
    severity = scenario.severity
    over = [state for state, since in asset.waits.items() if since + scenario.hold(state) <= at]
    here = severity(asset.state or "")
    worse = [state for state in over if severity(state) < here]
    if worse:
        return min(worse, key=severity)
    return max(over, key=severity, default=None)
