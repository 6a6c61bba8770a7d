"""What is wrong with agents, as the banner says it. Times in Unix ms.

The package `agents` finds it, and offers it to this one, which does not import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from dashboard.core.common.extension_point import Provider
from dashboard.core.common.navigation import agent_path
from dashboard.core.common.text import isolated
from dashboard.core.common.times import span
from domain.scenario import Scenario

NAMED = 3
"""Most agents that a line names."""

Kind = Literal["refused", "silent", "contradiction", "ahead", "purged", "behind", "late"]

SEVERAL: Mapping[Kind, tuple[str, str]] = {
    "refused": (
        "reports of {names} are refused",
        "Their pages say why: add the states that they report, or downgrade the agents.",
    ),
    "silent": ("{names} have reported nothing", "Start them, or let them leave."),
    "contradiction": (
        "{names} contradict themselves",
        "Two processes may report under each name: give each a name of its own.",
    ),
    "ahead": (
        "the clocks of {names} are up to {furthest} ahead",
        "What they report is in doubt: set their clocks.",
    ),
    "purged": (
        "reports of {names} are from before a purge",
        "Their votes there are in doubt: set their clocks.",
    ),
    "behind": (
        "the clocks of {names} are up to {furthest} behind",
        "Their reports come too old to count as votes: set their clocks.",
    ),
    "late": (
        "reports of {names} come twice or out of order",
        "They change nothing: see that one process alone reports under each name.",
    ),
}
"""Of several agents with the same finding: what is so, and what to do."""


class Finding(NamedTuple):
    """Something wrong with an agent: since when, what is so, and what to do, as of it alone.

    ms: how far its clock is off, where that is the finding.
    """

    scenario: str
    agent: str
    kind: Kind
    since: int
    what: str
    todo: str
    ms: int = 0


class LastSeen(NamedTuple):
    """When an agent of a scenario last reported, and the shortest usual gap, ms, 0 for none.

    off: the shipped pipeline that reports there, where it is switched off."""

    at: int
    gap: int = 0
    off: str = ""


class AgentNews(NamedTuple):
    """What there is to say of agents. findings: the most important first; last: by scenario, of
    those on which anybody ever reported."""

    findings: Sequence[Finding] = ()
    last: Mapping[str, LastSeen] = {}


agent_news: Provider[[int], AgentNews] = Provider(lambda _now: AgentNews())
"""Returns what there is to say of agents at a time (Unix ms), by the database."""


class BannerLine(NamedTuple):
    """A line of the banner: what is so, since when, what to do, an address and its text."""

    what: str
    since: int
    todo: str
    link: tuple[str, str]


def lines(scenario: Scenario, findings: Iterable[Finding]) -> Iterator[BannerLine]:
    """Yield a line for each kind of finding about the scenario's agents, in their order."""
    by_kind: dict[Kind, list[Finding]] = {}
    for finding in findings:
        if finding.scenario == scenario.name:
            by_kind.setdefault(finding.kind, []).append(finding)
    for alike in by_kind.values():
        what, todo, link = _of_one(alike[0]) if len(alike) == 1 else _of_several(alike)
        since = max(finding.since for finding in alike)  # since then it is so of all of them
        yield BannerLine(f"{scenario.title}: {what}", since, todo, link)


def _of_one(finding: Finding) -> tuple[str, str, tuple[str, str]]:
    address = agent_path(finding.scenario, finding.agent)
    return finding.what, finding.todo, (address, "The agent's page")


def _of_several(alike: Sequence[Finding]) -> tuple[str, str, tuple[str, str]]:
    what, todo = SEVERAL[alike[0].kind]
    furthest = span(max(finding.ms for finding in alike))
    link = (f"/agents/?scenario={alike[0].scenario}", "The agents")
    return what.format(names=_names(alike), furthest=furthest), todo, link


def _names(alike: Sequence[Finding]) -> str:
    """Return whom findings are about: the first ones by name, and how many more."""
    shown = [isolated(finding.agent) for finding in alike[:NAMED]]
    if len(alike) > NAMED:
        shown.append(f"{len(alike) - NAMED} more")
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
