"""Whether the job would take a record now, and what the fold would make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from django.contrib.auth.models import User

from dashboard.core.common.access import lapsed
from dashboard.core.common.kafka import trust
from dashboard.core.common.scenarios import file_now, topics
from dashboard.core.common.text import isolated
from dashboard.core.common.times import duration, exact_span
from dashboard.core.rules.models import as_carried
from dashboard.core.states.stores import record_of
from dashboard.operate.dead_letters.diagnosis import (
    RecordFault,
    Sample,
    detail_refusal,
    fault_of,
    fields_of,
)
from dashboard.watch.commands.submission import InvalidCommand, check
from domain.asset import Asset
from domain.fold import Bucket
from domain.records import (
    CLOCK_AHEAD,
    CLOCK_BACK,
    MAX_AHEAD,
    PURGED,
    Command,
    DeadLetter,
    Doubt,
    Leave,
    Misrouted,
    Record,
    Refusal,
    RefusedReport,
    Report,
    StateRecord,
    Unreadable,
    Vote,
)
from domain.scenario import UNKNOWN, Scenario
from wire.keys import KeysProblem
from wire.partitioner import partition_of
from wire.signature import UNSIGNED
from wire.sink import state_record
from wire.source import decode_placed

# ---- trial ---------------------------------------------------------------------------------------
# A report applied to the board's record of its asset: what the fold would make of it now.

_NEXT = 2**62
"""An offset after everything on the board."""


class ReportTrial(NamedTuple):
    """What would become of a report.

    reason: of its dead letter, or empty; votes: how many the asset has; vote: the one it would
    become, None if it is no newer than its agent's; doubt: about its agent, if it gives cause for
    one.
    """

    reason: str
    votes: int
    vote: Vote | None
    doubt: Doubt | None

    @property
    def doubtful(self) -> bool:
        """Whether its vote would be in doubt, or its agent left in doubt."""
        return self.doubt is not None or (self.vote is not None and self.vote.doubt is not None)


def tried(report: Report | RefusedReport, scenario: Scenario, now: int) -> ReportTrial:
    """Return what the fold would make of a report appended at `now` (Unix ms)."""
    board = record_of(scenario.name, report.asset)
    asset = None if board is None else _asset(scenario, state_record(board))
    votes = 0 if asset is None else len(asset.votes)
    known = {} if asset is None else {report.asset: asset}
    bucket = Bucket(scenario, 0, 1, known, clock=now, live=len(known))
    emitted = bucket.apply(report, _NEXT, now)
    reason = next((each.reason for each in emitted if isinstance(each, DeadLetter)), "")
    left = bucket.assets.get(report.asset) or Asset()
    vote, doubt = left.votes.get(report.agent), left.doubts.get(report.agent)
    return ReportTrial(
        reason,
        votes,
        vote if vote is not None and vote.offset == _NEXT else None,
        doubt if doubt is not None and doubt.offset == _NEXT else None,
    )


def _asset(scenario: Scenario, shown: StateRecord) -> Asset:
    """Return an asset as far as its state record describes it."""
    over = shown.override
    tallied = shown.state if over is None else over.underlying
    known = tallied != UNKNOWN or scenario.knows(UNKNOWN)
    return Asset(
        state=tallied if known else None,
        shown=shown.state,
        since=shown.since,
        override=over,
        votes={vote.agent: vote for vote in shown.votes},
        doubts={doubt.agent: doubt for doubt in shown.doubts},
        tasks=shown.tasks,
        disputed=shown.disputed,
    )


# ---- validation ----------------------------------------------------------------------------------
# Whether the job would take a record now, by its own rules and the current scenario.

NOT_OURS = "not-redriven"
"""Why a record that the job could read is not redriven: it belongs on every partition."""
NEWER = "If its agent has reported on this asset since, it changes nothing."
DOUBT = "It may raise a state, and gives no all-clear."
"""The effect of a vote in doubt."""


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """What would become of a record. reason: why it would be refused, or empty; fault: where, and
    in words; note: further sentences: how a record would be taken, or what a refused one means
    for its agent; doubt: whether it would leave its vote or its agent in doubt.
    """

    scenario: Scenario | None
    partition: int = 0
    reason: str = ""
    fault: RecordFault | None = None
    note: str = ""
    record: Record | None = None
    doubt: bool = False

    @property
    def taken(self) -> bool:
        """Whether the job would take it."""
        return not self.reason


def scenario_of(topic: str) -> Scenario | None:
    """Return the scenario whose source topic this is, or None if it is not configured here.

    This is the scenario in the current file, since the job can be asked to reload it, with the
    console's changes applied.
    """
    known = file_now().scenarios.get(topics().scenario_of(topic) or "")
    if known is None or topics().reports(known.name) != topic:
        return None
    return as_carried(known)


def judge(
    topic: str, key: bytes | None, value: bytes | None, now: int, user: str = ""
) -> RecordVerdict:
    """Return what the job would make of this record at `now` (Unix ms), on its key's partition.

    user: who edited a command and must be the user it names; "" if nobody did.
    """
    scenario = scenario_of(topic)
    if scenario is None:
        text = f"no scenario is configured here that reads {topic}"
        return RecordVerdict(None, reason="no-scenario", fault=RecordFault(text))
    partition = partition_of(key or b"", scenario.partitions)
    record = decode_placed(key, value, now, partition, scenario.partitions)
    if isinstance(record, Misrouted):  # it has no key, and is forwarded to the asset's partition
        record = record.record
    sample = Sample(key, value, partition, now)
    if isinstance(record, Report | RefusedReport):
        return _judged_report(record, sample, scenario)
    reason, fault = _refused(record, sample, scenario, user)
    if not reason and isinstance(record, Command):
        reason, fault = _unproven(topic, sample, scenario, user)
    if reason:
        return RecordVerdict(scenario, partition, reason, fault, record=record)
    note = NEWER if isinstance(record, Leave) and record.reported_at is not None else ""
    return RecordVerdict(scenario, partition, note=note, record=record)


def _refused(
    record: Record, sample: Sample, scenario: Scenario, user: str
) -> tuple[str, RecordFault | None]:
    """Return why a record other than a report is refused, and where; empty if it is not."""
    match record:
        case Unreadable():
            return record.reason, fault_of(record.reason, sample, scenario)
        case Leave():
            return _refused_leave(record, sample, scenario)
        case Command():
            return _refused_command(record, scenario, sample.time, user)
        case Refusal():
            return "refused-command", RecordFault(record.reason)
        case _:
            return NOT_OURS, RecordFault(
                "ticks, scenario records and mutes are for every partition: the job writes them, "
                "and the page of the agents"
            )


def _refused_leave(
    leave: Leave, sample: Sample, scenario: Scenario
) -> tuple[str, RecordFault | None]:
    if scenario.lenient or leave.ahead <= MAX_AHEAD:
        return "", None
    return "bad-time", fault_of("bad-time", sample, scenario)


def _judged_report(
    report: Report | RefusedReport, sample: Sample, scenario: Scenario
) -> RecordVerdict:
    trial = tried(report, scenario, sample.time)
    if trial.reason:
        fault = _fault_of_report(report, sample, scenario, trial)
        note = f"Its {_doubted(report, scenario)}." if trial.doubt else ""
    else:
        assert isinstance(report, Report)  # the fold takes nothing else
        fault, note = None, " ".join(_notes(report, sample, scenario, trial))
    return RecordVerdict(
        scenario, sample.partition, trial.reason, fault, note, report, doubt=trial.doubtful
    )


def _fault_of_report(
    report: Report | RefusedReport, sample: Sample, scenario: Scenario, trial: ReportTrial
) -> RecordFault:
    if trial.reason != "too-many-agents":
        return fault_of(trial.reason, sample, scenario)
    return RecordFault(
        f"{trial.votes} agents vote on {report.asset} just now, and none of their votes gives way "
        "to this one"
    )


def _doubted(report: Report | RefusedReport, scenario: Scenario) -> str:
    """Return, in words, that a report would put its agent in doubt, without the first word."""
    agent, asset = isolated(report.agent), isolated(report.asset)
    lifetime = exact_span(scenario.lifetime or 0)
    return f"agent {agent} would then be in doubt on {asset} for {lifetime}"


def _refused_command(
    command: Command, scenario: Scenario, now: int, user: str
) -> tuple[str, RecordFault | None]:
    if user and command.user != user:
        return "bad-user", RecordFault(
            f"user: expected {user}, who words this command", field="user"
        )
    try:
        check(scenario, command, now)
    except InvalidCommand as error:
        return "refused-command", RecordFault(f"{error.field}: {error}", field=error.field)
    if why := _lapsed(command.user):
        text = f"user: {why}; whoever sends it again rewrites it in their own name"
        return "bad-user", RecordFault(text, field="user")
    return "", None


def _lapsed(name: str) -> str:
    """Return why nothing may be redriven in this name; empty if it may, or is not a user here."""
    user = User.objects.filter(username=name).first()
    return "" if user is None else lapsed(user.pk, name, "command")


def _unproven(
    topic: str, sample: Sample, scenario: Scenario, user: str
) -> tuple[str, RecordFault | None]:
    """Return why a command's signature would not count; empty if it would.

    user: who edits the command, which is then signed for them.
    """
    if user:
        return "", None
    try:
        fault = trust(topic).fault(sample.key, sample.value or b"", sample.time)
    except KeysProblem as problem:
        return "no-keys", RecordFault(str(problem))
    if fault is None or (fault == UNSIGNED and not scenario.signed_commands):
        return "", None
    return fault, fault_of(fault, sample, scenario)


def _notes(report: Report, sample: Sample, scenario: Scenario, trial: ReportTrial) -> Iterator[str]:
    """Yield what to know about a report before sending it."""
    if report.detail_fault is not None:
        refusal = detail_refusal(report, fields_of(sample.value))
        why = f": expected {refusal.expected}, got {refusal.given}" if refusal else ""
        yield f"It would be taken without its detail{why}."
    if trial.vote is not None and trial.vote.doubt is not None:
        yield f"It would be taken in doubt: {_doubt_of_vote(report, trial.vote.doubt)}. {DOUBT}"
    elif report.ahead > MAX_AHEAD:
        yield f"Its reported_at is {duration(report.ahead)} ahead: it counts as of when it comes."
    elif report.reported_at is not None:
        yield from _notes_of_age(report, sample.time - report.reported_at, scenario, trial)


def _doubt_of_vote(report: Report, doubt: str) -> str:
    return {
        CLOCK_AHEAD: f"its agent's clock is {duration(report.ahead)} ahead",
        CLOCK_BACK: "its agent's clock or the broker's went back since its last report",
        PURGED: "it is older than the asset's purge",
    }[doubt]


def _notes_of_age(
    report: Report, age: int, scenario: Scenario, trial: ReportTrial
) -> Iterator[str]:
    """Yield what the age of a report (ms) means."""
    limit, lifetime = scenario.report_age_limit, scenario.lifetime
    if limit is not None and age > limit:
        yield (
            f"Its reported_at is {duration(age)} ago, more than the {duration(limit)} up to which "
            "a report is looked at: the job would count it as stale, and it would change nothing"
            f"{_but_doubt(report, scenario, trial)}."
        )
        return
    if lifetime is not None and age >= lifetime:
        yield (
            f"Its reported_at is {duration(age)} ago, longer than a vote's lifetime: it would be "
            "its agent's last word, which counts against an all-clear and never for it."
        )
    if trial.doubt is not None:
        yield f"Its agent has reported on this asset since{_but_doubt(report, scenario, trial)}."
    else:
        yield NEWER


def _but_doubt(report: Report, scenario: Scenario, trial: ReportTrial) -> str:
    """Return what a report that changes no vote means for its agent, or ""."""
    if trial.doubt is None:
        return ""
    return f"; but as it says worse, its {_doubted(report, scenario)}"
