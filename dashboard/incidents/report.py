"""The report after an incident, as Markdown. Times are in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dashboard.core.markdown import plain
from dashboard.core.times import duration, utc
from dashboard.incidents.groups import Group, entries
from dashboard.incidents.queries import Entry
from dashboard.incidents.timeline import Moment, timeline, timeline_of
from dashboard.states.models import CHANGE
from domain.scenario import Scenario

TO_WRITE = {
    "Impact": "Who noticed, and what did not work?",
    "Cause": "Why did it happen?",
    "What went well, what did not": "Detection, response, communication.",
    "Actions": "- [ ] What, who, until when",
}


def as_markdown(entry: Entry) -> str:
    """Return the report: facts and timeline, and the parts that people write."""
    return "\n".join(_lines(entry)) + "\n"


def group_as_markdown(group: Group, at_most: int) -> str:
    """Return the report on a group: facts, its incidents and their timeline, and the parts that
    people write. at_most: so many incidents of it, those that began first."""
    return "\n".join(_group_lines(group, entries(group)[:at_most])) + "\n"


def _group_lines(group: Group, members: list[Entry]) -> Iterator[str]:
    scenario = group.scenario
    worst = plain(scenario.spec(group.worst).label)
    yield f"# {plain(group.key)} {plain(group.value)}: {worst}, {utc(group.began_at)}"
    yield from _table(_group_facts(group))
    yield from ("", "## Incidents", "", "| asset | began | lasted | worst |", "|---|---|---|---|")
    for each in members:
        state = plain(scenario.spec(each.row.worst).label)
        began = utc(each.row.began_at)
        yield f"| {plain(each.row.asset)} | {began} | {duration(each.ms)} | {state} |"
    yield from ("", "## Timeline", "")
    for entry, moment in timeline_of(members):
        yield f"- {utc(moment.at)}: {plain(entry.row.asset)}, {_moment(scenario, moment)}"
    yield from _to_write()


def _group_facts(group: Group) -> Iterator[tuple[str, str]]:
    yield "Scenario", plain(group.scenario.title)
    yield "Began", utc(group.began_at)
    yield "Ended", utc(group.ended_at) if group.ended_at is not None else "it goes on"
    yield "Lasted", group.lasted
    yield "Assets", str(group.assets)
    yield "Incidents", str(len(group.incidents))
    first = group.acknowledged
    if first is None:
        yield "Acknowledged", "not acknowledged"
    else:
        yield "Acknowledged", f"by {plain(first.acknowledged_by)}, after {group.answered}"


def _lines(entry: Entry) -> Iterator[str]:
    row, scenario = entry.row, entry.scenario
    worst = plain(scenario.spec(row.worst).label)
    yield f"# {plain(row.asset)}: {worst}, {utc(row.began_at)}"
    yield from _table(_facts(entry))
    yield from ("", "## Timeline", "")
    yield from (f"- {utc(each.at)}: {_moment(scenario, each)}" for each in timeline(entry))
    yield from _to_write()


def _table(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from ("", "| | |", "|---|---|")
    for name, value in facts:
        yield f"| {name} | {value} |"


def _to_write() -> Iterator[str]:
    for title, hint in TO_WRITE.items():
        yield from ("", f"## {title}", "", hint)


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    row = entry.row
    yield "Scenario", plain(entry.scenario.title)
    yield "Began", utc(row.began_at)
    yield "Ended", utc(row.ended_at) if row.ended_at is not None else "ongoing"
    yield "Lasted", duration(entry.ms)
    if entry.acknowledged_after is None:
        yield "Acknowledged", "no"
    else:
        who = plain(row.acknowledged_by)
        yield "Acknowledged", f"by {who}, after {duration(entry.acknowledged_after)}"


def _moment(scenario: Scenario, moment: Moment) -> str:
    if moment.kind in ("acknowledged", "taken back", "note"):
        words = {"taken back": "acknowledgement taken back", "note": "note of"}
        text = f": {plain(moment.text)}" if moment.text else ""
        by = "" if moment.kind == "note" else "by "
        return f"{words.get(moment.kind, moment.kind)} {by}{plain(moment.who)}{text}"
    state = plain(scenario.spec(moment.state).label) if moment.state else "off the board"
    still = "" if moment.kind == CHANGE else "still "
    return f"{still}**{state}** ({plain(moment.text)})"
