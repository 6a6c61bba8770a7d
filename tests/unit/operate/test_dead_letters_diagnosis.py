"""What is wrong with a refused record, and where; any bytes are shown."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard.operate.dead_letters.diagnosis import (
    ADVICE,
    MAX_RUNS,
    Sample,
    bad_bytes,
    doubt_of,
    fault_of,
    fields_of,
    hex_lines,
    point,
    runs,
)
from domain.fold import Bucket
from domain.records import DEAD_LETTER_REASONS, LETTER_REASONS, MAX_AHEAD, DeadLetter
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from wire.partitioner import partition_of
from wire.signature import FAULTS as SIGNATURE_FAULTS
from wire.source import decode_placed, encode_scenario

SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml")
ATTACK = SCENARIOS["attack"]
FORMER = replace(ATTACK, fold=4)
"""The same rule, written for the version of the fold that doubted nobody."""
NOW = 1_790_000_000_000
PARTITION = partition_of(b"shop", ATTACK.partitions)


def report(**changes: str) -> bytes:
    """A report's bytes, its fields as JSON texts; an empty one is left out."""
    fields = {"type": '"report"', "agent": '"waf-1"', "state": '"clear"'} | changes
    return "{{{}}}".format(",".join(f'"{k}":{v}' for k, v in fields.items() if v)).encode()


def leave(**changes: str) -> bytes:
    """A leave's bytes, likewise."""
    return report(type='"leave"', state="", **changes)


def mute(**changes: str) -> bytes:
    """The bytes of a mute, likewise."""
    fields = {
        "type": '"mute"',
        "agent": '"waf-1"',
        "id": '"0f8fad5b-d9cb-469f-a165-70867728950e"',
        "user": '"olga"',
    } | changes
    return "{{{}}}".format(",".join(f'"{k}":{v}' for k, v in fields.items() if v)).encode()


def judged(
    key: bytes | None,
    value: bytes | None,
    partition: int = PARTITION,
    rule: Scenario = ATTACK,
) -> str:
    """The job's reason for refusing the record; empty if it does not."""
    record = decode_placed(key, value, NOW, partition, rule.partitions)
    emitted = Bucket(rule, partition, 1).apply(record, 0, NOW)
    return next((each.reason for each in emitted if isinstance(each, DeadLetter)), "")


# key, value, the job's reason, the words, the bytes that are marked
FAULTS = [
    (b"shop", b'{"a":\xc3(}', "not-utf8", "expected UTF-8, got c3", b"\xc3"),
    (b"sh\xffop", report(), "not-utf8", "key: expected UTF-8, got ff", b"\xff"),
    (b"shop", None, "not-json", "expected a value, got nothing", b""),
    (b"shop", b"  ", "not-json", "expected more JSON, got the end", b""),
    (b"shop", b'{"a":1,}', "not-json", "expected JSON (trailing comma in object), got }", b"}"),
    (b"shop", b'{"a":NaN}', "not-json", "expected JSON (invalid character), got N", b"N"),
    (b"shop", b'{"a":1', "not-json", "expected more JSON, got the end", b""),
    (b"shop", b'{"a":"\\ud800"}', "not-json", "surrogate pair", b"\\ud800"),
    (b"shop", b"[" * 400, "too-large", "at most 300 opening brackets, got 400", b"["),
    (b"shop", b"1" * 65_537, "too-large", "over 65,536 bytes", b""),
    (b"shop", b"[1]", "unknown-type", "expected an object with a type, got [1]", b""),
    (b"shop", report(type=""), "unknown-type", "type is missing", b""),
    (b"shop", report(type='"gossip"'), "unknown-type", "expected one of report, ", b'"gossip"'),
    (None, report(), "bad-asset", "expected a key, which names the asset", b""),
    (b"a\nb", report(), "bad-asset", "U+000A", b"\n"),
    (b"x" * 256, report(), "bad-asset", "at most 255 characters, got 256", b"x" * 256),
    (b"shop", report(agent=""), "bad-agent", "agent is missing", b""),
    (b"shop", report(agent="7"), "bad-agent", "agent: expected a text of 1-255 characters", b"7"),
    (None, mute(user=""), "bad-field", "user is missing", b""),
    (None, mute(user="7"), "bad-field", "user: expected a text of 1-255 characters", b"7"),
    (None, mute(user='""'), "bad-field", "control characters, got ''", b'""'),
    (None, mute(reason="[]"), "bad-field", "at most 500 characters", b"[]"),
    (None, mute(until='"x"'), "bad-time", "expected Unix milliseconds", b'"x"'),
    (b"shop", report(agent='"user:a"'), "bad-agent", "kept for operators", b'"user:a"'),
    (b"shop", report(agent='"\\u0007"'), "bad-agent", "without control characters", b'"\\u0007"'),
    (b"shop", report(state="[]"), "bad-field", "state: expected a text, got []", b"[]"),
    (b"shop", report(state='""'), "unknown-state", "1-64 characters without control", b'""'),
    (b"shop", report(state='"on-fire"'), "unknown-state", "expected under-attack", b'"on-fire"'),
    (b"shop", report(state=""), "bad-field", "state is missing; expected a text", b""),
    (b"shop", report(reported_at="1.0"), "bad-time", "an integer, got 1.0", b"1.0"),
    (b"shop", report(reported_at="-1"), "bad-time", "an integer, got -1", b"-1"),
    (b"shop", leave(reported_at='"now"'), "bad-time", "an integer, got 'now'", b'"now"'),
    (b"shop", report(reported_at="9" * 300), "bad-time", "a thousand years ahead", None),
    (None, b'{"type":"scenario","scenario":{}}', "bad-scenario", "scenario.name: expected", b"{}"),
    (None, b'{"type":"scenario"}', "bad-scenario", "scenario is missing", b""),
    (b"shop", b'{"type":"purge","id":"7"}', "bad-command", "expected a UUID", b'"7"'),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "reason", "words", "marked"), FAULTS)
def test_each_fault_is_told_and_marked(key, value, reason, words, marked):
    assert judged(key, value) == reason
    kept = value if value is None else value[:65_536]
    sample = Sample(key, kept, PARTITION, NOW)
    fault = fault_of(reason, sample, ATTACK)
    assert words in fault.located_text(sample)
    data = key if fault.where == "key" else kept
    begin, end = fault.span or (0, 0)
    if marked is not None:
        assert (data or b"")[begin:end] == marked


LARGE = '{"a":"%s"}' % ("x" * 3_000)
AHEAD = str(NOW + 3_600_000)
# value, the reason of the fold before, the words, the bytes that are marked, what it is by now
FORMERLY = [
    (report(reported_at=AHEAD), "bad-time", "got 1 h 00 m ahead", AHEAD, "taken, in doubt"),
    (leave(reported_at=AHEAD), "bad-time", "got 1 h 00 m ahead", AHEAD, "it is taken"),
    (report(detail=LARGE), "too-large", "at most 2,048 bytes, got 3,008", LARGE, "without its"),
    (report(detail='"x"'), "bad-field", "an object, got 'x'", '"x"', "without its detail"),
    (report(detail="[]", reported_at=AHEAD), "bad-field", "an object, got []", "[]", "without its"),
]


@pytest.mark.parametrize(("value", "reason", "words", "marked", "now"), FORMERLY)
def test_what_the_fold_before_refused_is_told_and_that_it_would_be_taken_now(
    value, reason, words, marked, now
):
    assert (judged(b"shop", value, rule=FORMER), judged(b"shop", value)) == (reason, "")
    fault = fault_of(reason, Sample(b"shop", value, PARTITION, NOW), ATTACK)
    assert words in fault.text
    assert f"; by now {now}" in fault.text or now in fault.text.partition("; by now ")[2]
    assert fault.span
    assert value[slice(*fault.span)] == marked.encode()
    former = fault_of(reason, Sample(b"shop", value, PARTITION, NOW), FORMER)
    assert words in former.text
    assert "by now" not in former.text


def test_a_detail_that_was_refused_before_the_state_was_looked_at_is_told():
    """It would still be refused, for its state or time; so nothing is said of today."""
    value = report(detail='"x"', reported_at="-1")
    assert judged(b"shop", value, rule=FORMER) == "bad-field"
    fault = fault_of("bad-field", Sample(b"shop", value, PARTITION, NOW), ATTACK)
    assert fault.text == "detail: expected an object, got 'x'"
    assert judged(b"shop", value) == "bad-time"
    fault = fault_of("bad-time", Sample(b"shop", value, PARTITION, NOW), ATTACK)
    assert fault.text == "reported_at: expected Unix milliseconds as an integer, got -1"


@pytest.mark.parametrize(
    ("value", "doubted"),
    [
        (report(state='"on-fire"'), True),
        (report(state='""'), True),
        (report(state=""), True),
        (report(reported_at="-1"), True),
        (report(), False),
        (report(agent='"user:a"'), False),
        (leave(reported_at="-1"), False),
        (b"{", False),
        (None, False),
    ],
)
def test_a_refused_report_of_a_known_agent_and_asset_says_what_it_means_for_them(value, doubted):
    sample = Sample(b"shop", value, PARTITION, NOW)
    doubt = doubt_of(sample, ATTACK)
    assert ("its agent waf-1 is in doubt on shop for 10 m" in doubt) is doubted
    assert bool(doubt) is doubted
    assert doubt_of(sample, FORMER) == ""
    assert doubt_of(sample, SCENARIOS["orders"]) == ""
    wrong = Sample(b"shop", value, (PARTITION + 1) % ATTACK.partitions, NOW)
    assert doubt_of(wrong, ATTACK) == ""


def test_every_reason_is_explained():
    assert set(ADVICE) == set(LETTER_REASONS)
    assert {reason for _, _, reason, *_ in FAULTS} == set(DEAD_LETTER_REASONS) - {
        "wrong-partition",
        "too-many-agents",
        "too-many-mutes",
        *SIGNATURE_FAULTS,
    }


def test_the_right_partition_is_told():
    wrong = (PARTITION + 1) % ATTACK.partitions
    sample = Sample(b"shop", report(), wrong, NOW)
    fault = fault_of("wrong-partition", sample, ATTACK)
    assert f"expected partition {PARTITION}, got partition {wrong}" in fault.text


def test_another_scenarios_record_is_told():
    value = encode_scenario(SCENARIOS["orders"])
    fault = fault_of("bad-scenario", Sample(None, value, 0, NOW), ATTACK)
    assert "the scenario orders, in the topic of attack" in fault.text


def test_a_state_that_the_scenario_has_by_now_is_told():
    fault = fault_of("unknown-state", Sample(b"shop", report(), PARTITION, NOW), ATTACK)
    assert "by now it is" in fault.text


def test_of_a_repeated_field_the_last_counts_as_the_job_reads_it():
    value = b'{"state":"a", "state" : "b\xc3\xa9"}'
    field = fields_of(value)["state"]
    assert (field.value, value[slice(*field.span)]) == ("b\u00e9", b'"b\xc3\xa9"')


def test_places_are_counted_as_people_do():
    assert str(point(b"abc", 2)) == "byte 2"
    assert str(point("é\nüx".encode(), 5)) == "line 2, column 2, byte 5"


def test_what_would_not_be_seen_is_spelled_out():
    text_runs = runs("a\u202eb\x00\xa0c\n\td".encode() + b"\xff")
    assert [(run.text, run.kind) for run in text_runs] == [
        ("a", ""), ("\\u202e", "escape"), ("b", ""), ("\\u0000", "escape"), ("\xa0c\n\td", ""),
        ("\\xff", "byte"),
    ]  # fmt: skip


anything = st.binary(max_size=400) | st.text(max_size=100).map(str.encode)
jsonish = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "agent", "state", "reported_at", "detail", "id", "scenario"]),
        inner, max_size=7,
    ),
    max_leaves=12,
)  # fmt: skip


def as_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


@given(
    key=st.none() | anything,
    value=st.none() | anything | jsonish.map(as_bytes),
    reason=st.sampled_from(DEAD_LETTER_REASONS),
    partition=st.integers(0, 3),
)
@example(b"k", b'{"a"', "bad-field", 0)
@example(b"k", b'{"a":1,', "bad-field", 0)
@example(b"k", b"{" * 65_536, "not-json", 0)
@example(b"k", b'{"reported_at":' + b"9" * 5_000 + b"}", "bad-time", 0)
@settings(deadline=None)  # the largest examples are large
def test_any_record_is_shown(key, value, reason, partition):
    sample = Sample(key, value, partition, NOW)
    for scenario in (ATTACK, None):
        fault = fault_of(reason, sample, scenario)
        assert fault.located_text(sample)
        assert len(fault.text) < 2_000
        data = (key if fault.where == "key" else value) or b""
        if fault.span is not None:
            assert 0 <= fault.span[0] <= fault.span[1] <= max(len(data), fault.span[0] + 1)
            assert any(run.at_fault for run in runs(data, fault.span))


@given(data=anything, mark=st.tuples(st.integers(0, 400), st.integers(0, 400)))
def test_runs_lose_nothing_and_mark_what_was_asked(data, mark):
    text_runs = runs(data, (min(mark), max(mark)))
    assert len(text_runs) <= MAX_RUNS + 2
    if bad_bytes(data) is None and not any(run.kind for run in text_runs):
        assert "".join(run.text for run in text_runs) == data.decode()
    shown = "".join(run.text for run in text_runs).translate({10: None, 9: None})
    assert {unicodedata.category(char) for char in shown}.isdisjoint({"Cc", "Cf", "Cs"})


@given(data=st.binary(max_size=9_000))
def test_hexadecimal_says_every_byte(data):
    lines = hex_lines(data)
    assert bytes.fromhex("".join(digits for _, digits, _ in lines)) == data[:4_096]


def test_a_time_just_within_bounds_was_none():
    value = report(reported_at=str(NOW + MAX_AHEAD))
    assert judged(b"shop", value, rule=FORMER) == ""
