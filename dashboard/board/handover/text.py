"""The handover as Markdown, which is read as plain text too. Times are in UTC."""

from __future__ import annotations

from collections.abc import Iterator

from dashboard.board.assets.overrides import PinnedAsset
from dashboard.board.handover.summary import About, ChangedAsset, Doubted, Situation, UnhealthyAsset
from dashboard.core.common.text import escaped, plain
from dashboard.core.common.times import duration, utc_minute
from dashboard.core.states.caveats import sentence
from dashboard.operate.requests.replays import ReplayProgress
from dashboard.operate.scenarios.proposal import RuleChangeRow
from dashboard.watch.agents.models import MuteRequest
from dashboard.watch.annotations.models import Acknowledgement, Note
from dashboard.watch.bulk.models import Run
from dashboard.watch.commands.models import Command
from domain.records import Mute
from domain.scenario import Scenario


def as_markdown(situation: Situation) -> str:
    """Return the whole page; what people wrote is quoted so that none of it is markup."""
    return "\n".join(_lines(situation)) + "\n"


def _lines(situation: Situation) -> Iterator[str]:
    yield f"# Handover, {utc_minute(situation.now)}"
    yield from ("", f"Changes are told since {utc_minute(situation.since)}.")
    yield from _section("Open: incidents and disputes", [
        _incident(line, situation.now) for each in situation.incidents for line in each.listed
    ])  # fmt: skip
    more = situation.open - sum(len(each.listed) for each in situation.incidents)
    if more > 0:
        yield f"- and {more} more"
    yield from _section("In a good state, but in doubt", [_doubted(d) for d in situation.doubted])
    yield from _section("Overrides that end within an hour", [_pin(o) for o in situation.ending])
    yield from _section("Overrides without an end", [_pin(o) for o in situation.endless])
    yield from _section("Acknowledgements that end within an hour", _each(situation.acks))
    yield from _section("Muted agents", [_mute(mute) for _, mute in situation.mutes])
    yield from _section("Bulk runs", [_run(*each) for each in situation.deeds.runs])
    yield from _section(
        "Mutes given and taken back", [_ask(*each) for each in situation.deeds.mutes]
    )
    yield from _section("Rule changes", [_rule(*each) for each in situation.deeds.rules])
    yield from _section("Replays", [_replay(each) for each in situation.deeds.replays])
    yield from _section("Changes", [
        _moved(line) for _, each in situation.moves for line in each.listed
    ])  # fmt: skip
    yield from _section("Commands given", _each(situation.commands))
    yield from _section("Notes", _each(situation.notes))
    if situation.texts:
        text = situation.texts[0]
        yield from (
            "",
            "## From the last shift",
            "",
            f"{plain(text.username)}, {utc_minute(text.at)}:",
            "",
        )
        yield from (f"> {plain(line)}" for line in text.text.splitlines())


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from (f"- {line}" for line in lines or ["none"])


def _each(entries: list[About]) -> list[str]:
    """Return a line of each."""
    return [_said(each) for each in entries]


def _incident(line: UnhealthyAsset, now: int) -> str:
    label = line.scenario.spec(line.state).label
    text = f"**{plain(line.asset)}**: {plain(label)} for {duration(now - line.since)}"
    if line.disputed is not None:
        text += (
            f", disputed: somebody says, or said, {plain(line.scenario.spec(line.disputed).label)}"
        )
    if line.doubted:
        text += f", in doubt: {escaped(sentence(line.doubted))}"
    if line.held and line.mark is not None and line.mark.ack is not None:
        ack = line.mark.ack
        why = f" ({plain(ack.reason)})" if ack.reason else ""
        text += f"; acknowledged by {plain(ack.by)} until {utc_minute(ack.until)}{why}"
    if line.note is not None:
        text += f"; note of {plain(line.note.username)}: {plain(line.note.text)}"
    return text


def _doubted(line: Doubted) -> str:
    label = line.scenario.spec(line.state).label
    return f"**{plain(line.asset)}**: {plain(label)}, in doubt: {escaped(sentence(line.doubted))}"


def _pin(pin: PinnedAsset) -> str:
    end = f"until {utc_minute(pin.until)}" if pin.until else "without end"
    label = plain(pin.scenario.spec(pin.state).label)
    return f"**{plain(pin.asset)}**: {label} {end}, by {plain(pin.user)} ({plain(pin.reason)})"


def _mute(mute: Mute) -> str:
    end = f"until {utc_minute(mute.until)}" if mute.until else "without end"
    why = f" ({plain(mute.reason)})" if mute.reason else ""
    return f"**{plain(mute.agent)}** {end}, by {plain(mute.user)}{why}"


def _run(scenario: Scenario, run: Run) -> str:
    to = f" to {plain(scenario.spec(run.state).label)}" if run.state else ""
    by = plain(run.sender_name)
    by += f" (prepared by {plain(run.username)})" if run.sender_name != run.username else ""
    problem = f" ({plain(run.problem)})" if run.problem else ""
    return (
        f"**{run.kind}{to}** of {run.matched} in {plain(scenario.title)}, {plain(run.chosen)}, by "
        f"{by}, {utc_minute(run.started_at or 0)} ({plain(run.reason)}): {run.status_text}{problem}"
        f", {run.applied} applied, {run.refused} refused"
    )


def _ask(scenario: Scenario, ask: MuteRequest) -> str:
    end = ""
    if ask.kind == "mute":
        end = f" until {utc_minute(ask.until)}" if ask.until else " without end"
    why = f" ({plain(ask.reason)})" if ask.reason else ""
    what = "muted" if ask.kind == "mute" else "heard again"
    who = f"by {plain(ask.username)}, {utc_minute(ask.created_at)}{why}"
    return f"**{plain(ask.agent)}** ({plain(scenario.title)}): {what}{end}, {who}"


def _rule(scenario: Scenario, change: RuleChangeRow) -> str:
    keys = ", ".join(each.title for each in change.moves) or "nothing"
    row = change.row
    who = f"by {plain(row.username)}, {utc_minute(row.asked_at)} ({plain(row.reason)})"
    return f"**{plain(scenario.title)}**: {keys}, {who}: {change.word}"


def _replay(replay: ReplayProgress) -> str:
    row = replay.row
    of = f"{plain(row.query)}{', ' + plain(row.scenario) if row.scenario else ''}"
    who = f"by {plain(row.username)}, {utc_minute(row.asked_at)} ({plain(row.reason)})"
    return f"**{of}** from {plain(row.start)}, {who}: {replay.word}"


def _moved(line: ChangedAsset) -> str:
    def label(state: str) -> str:
        return plain(line.scenario.spec(state).label) if state else "not on the board"

    worst = f", {label(line.worst)} in between" if line.worse_between else ""
    times = "once" if line.n == 1 else f"{line.n} times"
    return f"**{plain(line.asset)}**: {label(line.before)} → {label(line.after)}, {times}{worst}"


def _said(about: About) -> str:
    item = about.said
    who = f"**{plain(item.asset)}**: "
    if isinstance(item, Note):
        return f"{who}{plain(item.username)}, {utc_minute(item.at)}: {plain(item.text)}"
    if isinstance(item, Acknowledgement):
        return f"{who}{plain(item.username)} until {utc_minute(item.until)} ({plain(item.reason)})"
    assert isinstance(item, Command)
    state = f" to {plain(item.state)}" if item.state else ""
    why = f" ({plain(item.reason)})" if item.reason else ""
    return f"{who}{item.kind}{state} by {plain(item.username)}, {utc_minute(item.created_at)}{why}"
