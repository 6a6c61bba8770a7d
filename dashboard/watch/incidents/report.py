"""The timeline of incidents, and the report on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from django.db.models import QuerySet

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.models import AssetRow
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.text import plain
from dashboard.core.common.times import utc
from dashboard.core.states.board_rows import cause_in_words
from dashboard.core.states.models import CHANGE, Transition
from dashboard.core.states.queries import listed
from dashboard.watch.annotations.models import Acknowledgement, Note
from dashboard.watch.incidents.models import (
    ENTRY_WORDS,
    Case,
    Incident,
    Notified,
    WorstMoment,
    messages_about,
)
from dashboard.watch.incidents.queries import IncidentGroup
from domain.scenario import Scenario
from wire.sink import cause_value

# ---- timeline ------------------------------------------------------------------------------------
# What happened during incidents, in order: state changes, acknowledgements and notes of their
# assets, and what people did to their case.

MOST = 500
"""Most entries of a timeline, the first ones."""
TAKEN_BACK = "taken back"
MESSAGE = "message"
COMMAND = "command."
"""What the audit's names of commands begin with."""
WORDS = {
    TAKEN_BACK: "acknowledgement taken back",
    **ENTRY_WORDS,
    "command.set": "state set",
    "command.vote": "vote",
    "command.release": "release",
    "command.purge": "purge",
    "command.schedule": "task scheduled",
    "command.cancel": "task cancelled",
}
"""What people did, in words."""


class Moment(NamedTuple):
    """An entry of a timeline.

    at: Unix ms; state: the new one, empty if there is none; asset: empty if it is about all; url:
    of a message's page.
    """

    at: int
    kind: str
    state: str = ""
    who: str = ""
    text: str = ""
    asset: str = ""
    url: str = ""

    @property
    def words(self) -> str:
        """Return what somebody did, in words."""
        return WORDS.get(self.kind, self.kind)


class Spans:
    """When the assets of a scenario were in trouble, from the first to the last moment."""

    def __init__(self, incidents: Sequence[Incident]) -> None:
        self.incidents: dict[str, list[Incident]] = {}
        for each in incidents:
            self.incidents.setdefault(each.asset, []).append(each)
        self.begin = min(each.began_at for each in incidents)
        self.end = max(each.until for each in incidents)
        self.scenario = incidents[0].scenario

    def of(self, model: type[AssetRow]) -> QuerySet[Any]:
        """Return the rows about the assets."""
        rows = model._default_manager.filter(scenario=self.scenario)  # noqa: SLF001 - documented API
        return rows.filter(asset__in=listed(self.incidents))

    def during(self, rows: QuerySet[Any], time: str = "at") -> Iterator[Any]:
        """Yield the rows whose time is in the trouble of their asset, the first MOST."""
        between = rows.filter(**{f"{time}__gte": self.begin, f"{time}__lte": self.end})
        for row in between.order_by(time, "pk")[:MOST]:
            at = getattr(row, time)
            own = self.incidents[row.target if isinstance(row, AuditEntry) else row.asset]
            if any(each.began_at <= at <= each.until for each in own):
                yield row


def timeline(
    incidents: Iterable[Incident], case: Case | None = None, notified: Iterable[Notified] = ()
) -> list[Moment]:
    """Return what happened during incidents of one scenario, and to their case, in order.

    Only the first MOST entries. An acknowledgement of all assets is one entry. notified: the
    messages that are shown too.
    """
    members = list(incidents)
    entries = list(case.entries.order_by("at", "pk")[:MOST]) if case else []
    moments = [Moment(each.at, each.kind, "", each.username, each.text) for each in entries]
    if members:
        spans, whole = Spans(members), {(each.at, each.who) for each in moments}
        moments += [each for each in _acks(spans) if (each.at, each.who) not in whole]
        moments += [*_changes(spans), *_notes(spans), *_commands(spans)]
    moments += map(_message, notified)
    return sorted(moments, key=lambda each: (each.at, each.asset))[:MOST]


def _changes(spans: Spans) -> Iterator[Moment]:
    scenario = scenarios()[spans.scenario]
    rows = spans.of(Transition).exclude(kind="schedule")  # a task of a rule may run every second
    for each in spans.during(rows):
        cause = cause_in_words(scenario, each.state, cause_value(each.cause))
        yield Moment(each.at, each.kind, each.state, "", cause, each.asset)


def _acks(spans: Spans) -> Iterator[Moment]:
    rows = spans.of(Acknowledgement)
    for ack in spans.during(rows):
        yield Moment(ack.at, "acknowledged", "", ack.username, ack.reason, ack.asset)
    for ack in spans.during(rows.exclude(ended_by=""), "ended_at"):
        yield Moment(ack.ended_at, TAKEN_BACK, "", ack.ended_by, ack.end_words, ack.asset)


def _commands(spans: Spans) -> Iterator[Moment]:
    """Yield the commands that people gave, also those that were refused, from the audit."""
    rows = AuditEntry.objects.filter(scenario=spans.scenario, target__in=listed(spans.incidents))
    for each in spans.during(rows.filter(action__startswith=COMMAND)):
        facts = msgspec.json.decode(each.facts)
        said = (facts.get("state"), facts.get("reason"), each.outcome)
        text = ", ".join(str(part) for part in said if part)
        yield Moment(each.at, each.action, "", each.name, text, each.target)


def _message(each: Notified) -> Moment:
    to = f", to {each.recipient}" if each.recipient else ""
    why = f": {each.why}" if each.why else ""
    return Moment(each.at, MESSAGE, text=f"{each.subject}{to}, {each.status}{why}", url=each.url)


def _notes(spans: Spans) -> Iterator[Moment]:
    for note in spans.during(spans.of(Note).filter(deleted_at=None)):
        yield Moment(note.at, "note", "", note.username, note.text, note.asset)


# ---- worst moment --------------------------------------------------------------------------------


class WorstVote(NamedTuple):
    """A vote on an asset when it entered the worst of its states.

    at: of that moment, Unix ms; silent: whether the agent was; figures: what it measured, by name.
    """

    asset: str
    at: int
    agent: str
    state: str
    silent: bool
    figures: dict[str, Any]


def worst_votes(incidents: Sequence[Incident]) -> list[WorstVote]:
    """Return the votes at the worst moments of incidents of one scenario, asset by asset."""
    if not incidents:
        return []
    places = {(each.asset, each.place) for each in incidents}
    rows = WorstMoment.objects.filter(
        scenario=incidents[0].scenario,
        asset__in=listed({asset for asset, _ in places}),
        place__in=listed({place for _, place in places}),
    )
    return [
        WorstVote(row.asset, row.at, vote["agent"], vote["state"], vote["silent"], _figures(vote))
        for row in rows.order_by("asset", "at", "pk")
        if (row.asset, row.place) in places
        for vote in msgspec.json.decode(row.votes)
    ][:MOST]


def _figures(vote: dict[str, Any]) -> dict[str, Any]:
    """Return what a vote's agent measured; labels say what the asset is, and are none of it."""
    figures = vote["figures"] or {}
    return {name: value for name, value in figures.items() if name != "labels"}


# ---- report --------------------------------------------------------------------------------------
# The report on an incident, in Markdown. Times are in UTC.

TO_WRITE = {
    "Impact": "Who noticed, and what did not work?",
    "Cause": "Why did it happen?",
    "What went well, what did not": "Detection, response, communication.",
    "Actions": "- [ ] What, who, until when",
}


def case_as_markdown(case: Case, at_most: int, with_messages: bool) -> str:
    """Return the report on a case: facts, assets, timeline, and sections that people fill in.

    at_most: how many of its incidents to include, those that began first.
    """
    members = list(case.members[:at_most])
    notified = messages_about(members) if with_messages else ()
    return "\n".join(_case_lines(case, members, notified)) + "\n"


def group_as_markdown(group: IncidentGroup, at_most: int) -> str:
    """Return the report on a group: facts, incidents, timeline, and sections to fill in.

    at_most: how many of its incidents to include, those that began first.
    """
    return "\n".join(_group_lines(group, group.incidents[:at_most])) + "\n"


def _case_lines(case: Case, members: list[Incident], notified: Iterable[Notified]) -> Iterator[str]:
    scenario = scenarios()[case.scenario]
    worst = plain(scenario.spec(case.facts.worst).label)
    yield f"# {case.number}: {plain(case.subject)}: {worst}, {utc(case.began_at)}"
    yield from _table(_case_facts(case, scenario))
    yield from _members(scenario, members)
    yield from _worst(scenario, worst_votes(members))
    yield from _timeline(scenario, timeline(members, case, notified))
    yield from _to_write()


def _group_lines(group: IncidentGroup, members: list[Incident]) -> Iterator[str]:
    scenario = group.scenario
    worst = plain(scenario.spec(group.worst).label)
    yield f"# {plain(group.key)} {plain(group.value)}: {worst}, {utc(group.began_at)}"
    yield from _table(_group_facts(group))
    yield from _members(scenario, members)
    yield from _timeline(scenario, timeline(members))
    yield from _to_write()


def _members(scenario: Scenario, members: Iterable[Incident]) -> Iterator[str]:
    yield from ("", "## Assets", "", "| asset | began | lasted | worst |", "|---|---|---|---|")
    for each in members:
        state = plain(scenario.spec(each.worst).label)
        yield f"| {plain(each.asset)} | {utc(each.began_at)} | {each.lasted} | {state} |"


def _timeline(scenario: Scenario, moments: Iterable[Moment]) -> Iterator[str]:
    yield from ("", "## Timeline", "")
    for each in moments:
        about = f"{plain(each.asset)}, " if each.asset else ""
        yield f"- {utc(each.at)}: {about}{_moment(scenario, each)}"


def _group_facts(group: IncidentGroup) -> Iterator[tuple[str, str]]:
    yield "Scenario", plain(group.scenario.title)
    yield "Began", utc(group.began_at)
    yield "Ended", utc(group.ended_at) if group.ended_at is not None else "ongoing"
    yield "Lasted", group.lasted
    yield "Assets", str(group.assets)
    yield "Incidents", str(len(group.incidents))
    first = group.acknowledged
    if first is None:
        yield "Acknowledged", "not acknowledged"
    else:
        yield "Acknowledged", f"by {plain(first.acknowledged_by)}, after {group.unanswered}"


def _table(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from ("", "| | |", "|---|---|")
    for name, value in facts:
        yield f"| {name} | {value} |"


def _to_write() -> Iterator[str]:
    for title, hint in TO_WRITE.items():
        yield from ("", f"## {title}", "", hint)


def _case_facts(case: Case, scenario: Scenario) -> Iterator[tuple[str, str]]:
    yield "Scenario", plain(scenario.title)
    yield "Status", case.status
    yield "Owner", plain(case.owner) or "nobody"
    yield "Ticket", plain(case.ticket) or "none"
    yield "Began", utc(case.began_at)
    ended_at = case.facts.ended_at
    yield "Ended", "ongoing" if ended_at is None else utc(ended_at)
    yield "Lasted", case.lasted
    if case.acknowledged_at is None:
        yield "Acknowledged", "no"
    else:
        yield "Acknowledged", f"by {plain(case.acknowledged_by)}, after {case.unanswered}"


def _worst(scenario: Scenario, votes: Iterable[WorstVote]) -> Iterator[str]:
    yield from ("", "## Votes at the worst", "", "| asset | at | agent | vote | figures |")
    yield "|---|---|---|---|---|"
    for each in votes:
        vote = plain(scenario.spec(each.state).label) + (", silent" if each.silent else "")
        figures = plain(", ".join(f"{name} {value}" for name, value in each.figures.items()))
        yield f"| {plain(each.asset)} | {utc(each.at)} | {plain(each.agent)} | {vote} | {figures} |"


def _moment(scenario: Scenario, moment: Moment) -> str:
    if moment.url:
        return f"message: {plain(moment.text)}"
    if moment.who:
        text = f": {plain(moment.text)}" if moment.text else ""
        return f"{moment.words} by {plain(moment.who)}{text}"
    state = plain(scenario.spec(moment.state).label) if moment.state else "off the board"
    still = "" if moment.kind == CHANGE else "still "
    return f"{still}**{state}** ({plain(moment.text)})"
