"""The shared log holds what a real job is to be judged by: everything that can happen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from domain.records import (
    APPLIED,
    CAUSE_TYPES,
    DEAD_LETTER_REASONS,
    DOUBT_REASONS,
    MAX_AHEAD,
    NO_CHANGE,
    REFUSED,
    STILL_AHEAD,
    UNREADABLE,
    VOTE_DOUBTS,
    RefusedReport,
    Report,
    ScenarioChange,
)
from support.histories.judge import Judged
from support.histories.sharedlog import LONGEST, OFFSET, PARTITIONS, SharedLog, shared_log
from wire.signature import FAULTS
from wire.source import decode_source
from wire.topics import Topics

START = 1_790_000_000_000
HISTORIES, ROUNDS = 600, 120
TOPICS = Topics("test.")


@cache
def log() -> SharedLog:
    """Some hundred histories."""
    return shared_log(10, HISTORIES, ROUNDS, START)


@cache
def judged() -> Judged:
    """The plain fold over them."""
    judgement = Judged()
    for (scenario, _), messages in log().messages(TOPICS):
        judgement.fold(TOPICS, messages, PARTITIONS[scenario])
    return judgement


@pytest.mark.extensive(
    guard="tests/unit/support/test_sharedlog.py::"
    "test_there_are_many_assets_with_a_history_each_and_many_rules"
)
def test_every_reason_every_cause_and_every_outcome_occurs() -> None:
    assert {key.reason for key in judged().dead} == set(DEAD_LETTER_REASONS) - set(FAULTS)
    assert judged().causes == set(CAUSE_TYPES)
    refusals = (
        "no such asset any more",
        "the state has moved on",
        "unknown state",
        "the end is in the past",
        "too many agents",
        "user: expected a name",
        "reason: expected a text of at most 500 characters",
        "state: expected a state",
        "until: expected Unix milliseconds",
        "if_version: expected epoch.offset.step",
        "no such asset",
        "no such task",
        "the end is before the first run",
        "the time is in the past",
        "task: expected a UUID",
        "do: expected one of emit, notify, set, release, purge",
        "after: expected a time, or at or every",
        "after: expected milliseconds, from 1 second to 366 days",
        "every: expected milliseconds, from 1 second to 366 days",
        "at: expected Unix milliseconds",
        "after: expected none with at",
        "if: expected a state",
        "times: expected an integer from 1 to 1000000",
        "times: expected none without every",
    )
    assert judged().outcomes == {APPLIED, NO_CHANGE, *(REFUSED + reason for reason in refusals)}


def states() -> Iterator[dict[str, Any]]:
    """The state records of the log, decoded."""
    for content in judged().emissions.values():
        if content.value is not None:
            yield msgspec.json.decode(content.value)


@pytest.mark.extensive(
    guard="tests/unit/support/test_sharedlog.py::"
    "test_reports_are_as_far_ahead_as_matters_and_wrong_beside_good_ones"
)
def test_every_doubt_occurs_and_every_detail_that_is_left_out() -> None:
    votes = [vote for state in states() for vote in state["votes"]]
    assert {vote["doubt"] for vote in votes if "doubt" in vote} == set(VOTE_DOUBTS)
    faults = {vote["detail_fault"] for vote in votes if "detail_fault" in vote}
    assert faults == {"bad-field", "too-large"}
    assert any("flapping" in vote for vote in votes)
    doubts = [doubt for state in states() for doubt in state.get("doubts", ())]
    assert {doubt["reason"] for doubt in doubts} == set(DOUBT_REASONS)
    said = {doubt["said"] for doubt in doubts}
    assert {None, "bad", "odd"} <= said
    disputed = {state.get("disputed") for state in states()}
    assert {None, UNREADABLE, "bad", "odd"} <= disputed


def test_reports_are_as_far_ahead_as_matters_and_wrong_beside_good_ones() -> None:
    read = [
        decode_source(line.key, line.value, line.time)
        for lines in log().lines.values()
        for line in lines
    ]
    reports = [record for record in read if isinstance(record, Report)]
    edges = {STILL_AHEAD, STILL_AHEAD + 1, MAX_AHEAD, MAX_AHEAD + 1}
    assert edges <= {report.ahead for report in reports}
    refused = [record for record in read if isinstance(record, RefusedReport)]
    reasons = {"bad-field", "bad-time", "unknown-state", "not-json"}
    assert {each.reason for each in refused} == reasons
    assert {each.detail_fault for each in refused} == {None, "bad-field", "too-large"}
    voices = {(report.asset, report.agent) for report in reports}
    assert sum((each.asset, each.agent) in voices for each in refused) > len(refused) / 2


def test_there_are_many_assets_with_a_history_each_and_many_rules() -> None:
    histories: dict[tuple, int] = {}
    for lines in log().lines.values():
        for line in lines:
            place = (line.scenario, line.partition, line.key)
            histories[place] = histories.get(place, 0) + 1
    assert sum(3 <= number <= 2 * LONGEST for number in histories.values()) > 0.8 * HISTORIES
    assert judged().rules > ROUNDS / 8 * len(log().lines) / 2
    assets = {key[:2] for key in judged().emissions}
    assert len(assets) > 0.9 * HISTORIES


def test_commands_come_again() -> None:
    answers = [dict(content.headers).get("command") for content in judged().emissions.values()]
    ids = [answer for answer in answers if answer is not None]
    assert len(set(ids)) < len(ids)


@pytest.mark.extensive(
    guard="tests/unit/domain/test_domain_fold_histories.py::test_a_seed_gives_the_same_history_every_time"
)
def test_a_seed_always_gives_the_same_log() -> None:
    again = shared_log(10, HISTORIES, ROUNDS, START)
    assert again == log()
    assert shared_log(8, 60, 30, START) != shared_log(7, 60, 30, START)


def test_portions_are_the_whole_log_in_order() -> None:
    portions = log().portions(7)
    for place, lines in log().lines.items():
        assert [at for portion in portions for at in portion[place]] == list(range(len(lines)))


def test_versions_that_commands_name_are_those_of_earlier_records() -> None:
    lines = [line for partition_lines in log().lines.values() for line in partition_lines]
    naming = [line for line in lines if line.refers is not None and OFFSET in (line.value or b"")]
    assert len(naming) > 100
    for line in naming:
        value = line.value_with(lambda place: 10_000 + place)
        assert value is not None
        assert b"%d" % (10_000 + (line.refers or 0)) in value
        assert OFFSET not in value


def test_the_first_rule_is_early_and_belongs_to_its_topic() -> None:
    """The driver takes the first rule that it finds for what came before it, whatever its name."""
    for (scenario, _), lines in log().lines.items():
        records = (decode_source(line.key, line.value, line.time) for line in lines)
        at, rule = next(
            (at, r.scenario) for at, r in enumerate(records) if isinstance(r, ScenarioChange)
        )
        assert rule.name == scenario
        assert at < len(lines) / 7
