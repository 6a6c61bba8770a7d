"""Whether the job would take a record now, by its own rules and the current scenario."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User

from dashboard.commands.submission import Invalid, check
from dashboard.core.kafka_gateway import trust
from dashboard.core.roles import lapsed
from dashboard.core.scenarios import file_now, topics
from dashboard.core.times import duration
from dashboard.dead_letters.diagnosis import Fault, Sample, fault_of
from dashboard.rules.active_rule import as_carried
from dashboard.states.newest import record_of
from domain.asset import Asset
from domain.fold import Bucket
from domain.records import (
    MAX_VOTERS,
    Command,
    DeadLetter,
    Leave,
    Record,
    Refusal,
    Report,
    Unreadable,
    Vote,
)
from domain.scenario import Scenario
from wire.keys import KeysProblem
from wire.partitioner import partition_of
from wire.signature import UNSIGNED
from wire.sink import state_record
from wire.source import decode_placed

NOT_OURS = "not-redriven"
"""Why a record is not sent that the job would read: it belongs on every partition."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would become of a record. reason: why it would be refused, or empty; fault: where, and
    in words; note: what is to be known of one that would be taken."""

    scenario: Scenario | None
    partition: int = 0
    reason: str = ""
    fault: Fault | None = None
    note: str = ""
    record: Record | None = None

    @property
    def taken(self) -> bool:
        """Whether the job would take it."""
        return not self.reason


def scenario_of(topic: str) -> Scenario | None:
    """Return the scenario whose source topic this is, or None if it is not configured here.

    It is as its file is now, since the job can be asked to read it again, with the console's
    changes.
    """
    known = file_now().scenarios.get(topics().scenario_of(topic) or "")
    if known is None or topics().reports(known.name) != topic:
        return None
    return as_carried(known)


def judge(topic: str, key: bytes | None, value: bytes | None, now: int, user: str = "") -> Verdict:
    """Return what the job would make of this record at `now` (Unix ms), on its key's partition.

    user: who rewords a command, and must be the one whom it names; "" where nobody does.
    """
    scenario = scenario_of(topic)
    if scenario is None:
        text = f"no scenario is configured here that reads {topic}"
        return Verdict(None, reason="no-scenario", fault=Fault(text))
    partition = partition_of(key or b"", scenario.partitions)
    record = decode_placed(key, value, now, partition, scenario.partitions)
    sample = Sample(key, value, partition, now)
    reason, fault = _refused(record, sample, scenario, now, user)
    if not reason and isinstance(record, Command):
        reason, fault = _unproven(topic, sample, scenario, user)
    if reason:
        return Verdict(scenario, partition, reason, fault, record=record)
    note = _note(record, scenario, now)
    return Verdict(scenario, partition, note=note, record=record)


def _refused(
    record: Record, sample: Sample, scenario: Scenario, now: int, user: str
) -> tuple[str, Fault | None]:
    match record:
        case Unreadable():
            return record.reason, fault_of(record.reason, sample, scenario)
        case Report():
            return _refused_report(record, sample, scenario, now)
        case Leave():
            return "", None
        case Command():
            return _refused_command(record, scenario, now, user)
        case Refusal():
            return "refused-command", Fault(record.reason)
        case _:
            return NOT_OURS, Fault(
                "ticks, scenario records and mutes are for every partition: the job writes them, "
                "and the page of the agents"
            )


def _refused_report(
    report: Report, sample: Sample, scenario: Scenario, now: int
) -> tuple[str, Fault | None]:
    if not scenario.knows(report.state):
        return "unknown-state", fault_of("unknown-state", sample, scenario)
    board = record_of(scenario.name, report.asset)
    votes = state_record(board).votes if board else ()
    if len(votes) >= MAX_VOTERS and not _has_room(report, votes, scenario, now):
        text = (
            f"{len(votes)} agents vote on {report.asset} just now, and none of their votes gives "
            "way to this one"
        )
        return "too-many-agents", Fault(text)
    return "", None


def _has_room(report: Report, votes: Iterable[Vote], scenario: Scenario, now: int) -> bool:
    """Return whether the fold would take the vote among so many others."""
    asset = Asset(state=report.state, shown=report.state, votes={v.agent: v for v in votes})
    bucket = Bucket(scenario, 0, 1, {report.asset: asset}, clock=now, live=1)
    return not any(isinstance(out, DeadLetter) for out in bucket.apply(report, 2**62, now))


def _refused_command(
    command: Command, scenario: Scenario, now: int, user: str
) -> tuple[str, Fault | None]:
    if user and command.user != user:
        return "bad-user", Fault(f"user: expected {user}, who words this command", field="user")
    try:
        check(scenario, command, now)
    except Invalid as error:
        return "refused-command", Fault(f"{error.field}: {error}", field=error.field)
    if why := _lapsed(command.user):
        text = f"user: {why}; whoever sends it again words it anew, in the own name"
        return "bad-user", Fault(text, field="user")
    return "", None


def _lapsed(name: str) -> str:
    """Return why nothing is sent again in this name; empty if it may be, or is no user here."""
    user = User.objects.filter(username=name).first()
    return "" if user is None else lapsed(user.pk, name, "command")


def _unproven(
    topic: str, sample: Sample, scenario: Scenario, user: str
) -> tuple[str, Fault | None]:
    """Return why a command's signature would not count; empty if it would.

    user: who rewords it: it is signed for them.
    """
    if user:
        return "", None
    try:
        fault = trust(topic).fault(sample.key, sample.value or b"", sample.time)
    except KeysProblem as problem:
        return "no-keys", Fault(str(problem))
    if fault is None or (fault == UNSIGNED and not scenario.signed_commands):
        return "", None
    return fault, fault_of(fault, sample, scenario)


def _note(record: Record, scenario: Scenario, now: int) -> str:
    """Return what is to be known before the record is sent; empty if nothing."""
    if not isinstance(record, Report | Leave) or record.reported_at is None:
        return ""
    age = now - record.reported_at
    limit, lifetime = scenario.report_age_limit, scenario.vote_lifetime
    if isinstance(record, Report) and limit is not None and age > limit:
        return (
            f"Its reported_at is {duration(age)} ago, more than the {duration(limit)} up to which "
            "a report is looked at: the job would count it as stale, and it would change nothing."
        )
    newer = "If its agent has reported on this asset since, it changes nothing."
    if isinstance(record, Report) and lifetime is not None and age >= lifetime:
        return (
            f"Its reported_at is {duration(age)} ago, longer than a vote lives: it would be its "
            f"agent's last word, which counts against an all-clear and never for it. {newer}"
        )
    return newer
