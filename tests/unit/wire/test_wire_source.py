"""Source records from raw bytes: what is read, what is refused, and for which reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.fold import Bucket
from domain.names import CONTROL
from domain.records import (
    DEAD_LETTER_REASONS,
    MAX_AHEAD,
    MAX_MUTED,
    MAX_VOTERS,
    Command,
    DeadLetter,
    Leave,
    Misrouted,
    Mute,
    Record,
    Refusal,
    RefusedReport,
    Report,
    ScenarioChange,
    Schedule,
    Tick,
    UnknownFold,
    Unmute,
    Unreadable,
)
from domain.scenario import FOLD, Scenario
from domain.scenario_parser import scenario_from_plain
from domain.version import Version
from support.histories.histories import AGENTS, ASSETS, USERS, WORDS, histories, scenarios
from support.histories.source_records import encoded
from support.run.selection import examples
from wire.partitioner import partition_of
from wire.signature import FAULTS
from wire.source import (
    MAX_BRACKETS,
    MAX_DETAIL,
    MAX_REASON,
    MAX_RECORD,
    MAX_TIME,
    decode_placed,
    decode_source,
    detail_text,
    encode_command,
    encode_leave,
    encode_mute,
    encode_report,
    encode_scenario,
    encode_tick,
    refusal_of,
)

NOW = 1_790_000_000_000
ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55"

fast = settings(max_examples=examples(60), deadline=None, derandomize=True)


def report(members: str = "", agent: str = '"w"', state: str = '"up"') -> bytes:
    """A report's bytes; `members` are put last, as they stand."""
    return f'{{"type":"report","agent":{agent},"state":{state}{members}}}'.encode()


def scenario_of(fold: object) -> bytes:
    """A scenario record that names this version of the fold."""
    rule = {"name": "a", "states": [{"name": "up"}], "rule": {"kind": "latest"}, "fold": fold}
    return json.dumps({"type": "scenario", "scenario": rule}).encode()


def leave(members: str = "", agent: str = '"w"') -> bytes:
    """A leave's bytes; `members` are put last, as they stand."""
    return f'{{"type":"leave","agent":{agent}{members}}}'.encode()


def command(members: str = "", kind: str = "set", user: str = '"olga"') -> bytes:
    """A command's bytes; `members` are put last, so that they count."""
    return f'{{"type":"{kind}","id":"{ID}","user":{user},"state":"up"{members}}}'.encode()


def mute(kind: str = "mute", **changes: str) -> bytes:
    """A mute's bytes, its fields as JSON texts; an empty one is left out."""
    fields = {"type": f'"{kind}"', "agent": '"w"', "id": f'"{ID}"', "user": '"olga"'} | changes
    return "{{{}}}".format(",".join(f'"{k}":{v}' for k, v in fields.items() if v)).encode()


def read(value: bytes | None, key: bytes | None = b"shop") -> Any:
    return decode_source(key, value, NOW)


# ---- dead letters --------------------------------------------------------------------------

NO_RECORD = {
    "no value": (None, "not-json"),
    "empty": (b"", "not-json"),
    "text": (b"report", "not-json"),
    "trailing comma": (b'{"type":"tick",}', "not-json"),
    "single quotes": (b"{'type':'tick'}", "not-json"),
    "comment": (b'{"type":"tick"/*x*/}', "not-json"),
    "byte order mark": (b"\xef\xbb\xbf" + report(), "not-json"),
    "NUL before": (b"\x00" + report(), "not-json"),
    "vertical tab around": (b"\x0b" + report(), "not-json"),
    "no-break space around": ("\u00a0".encode() + report(), "not-json"),
    "UTF-16": (report().decode().encode("utf-16"), "not-utf8"),
    "Latin-1": (b'{"type":"report","agent":"\xfc"}', "not-utf8"),
    "overlong UTF-8": (b'{"type":"\xc0\xae"}', "not-utf8"),
    "surrogate in UTF-8": (b'{"type":"\xed\xa0\x80"}', "not-utf8"),
    "beyond Unicode": (b'{"type":"\xf4\x90\x80\x80"}', "not-utf8"),
    "not UTF-8 and not JSON": (b"\xff{", "not-utf8"),
    "too large and not UTF-8": (b"\xff" * (MAX_RECORD + 1), "too-large"),
    "deep": (b"[" * (MAX_BRACKETS + 1), "too-large"),
    "too many brackets": (b"[" + b"[]," * MAX_BRACKETS + b"1]", "too-large"),
    "null": (b"null", "unknown-type"),
    "number": (b"5", "unknown-type"),
    "list": (b"[]", "unknown-type"),
    "no type": (b"{}", "unknown-type"),
    "unknown type": (b'{"type":"tock"}', "unknown-type"),
    "type in capitals": (b'{"type":"Report"}', "unknown-type"),
    "type is a list": (b'{"type":["set"]}', "unknown-type"),
    "type is null": (b'{"type":null}', "unknown-type"),
    "repeated type": (report(',"type":"x"'), "unknown-type"),
    "agent missing": (b'{"type":"report","state":"up"}', "bad-agent"),
    "agent a number": (report(agent="5"), "bad-agent"),
    "agent empty": (report(agent='""'), "bad-agent"),
    "agent too long": (report(agent=f'"{"x" * 256}"'), "bad-agent"),
    "agent with NUL": (report(agent=r'"\u0000"'), "bad-agent"),
    "agent with DEL": (report(agent='"\x7f"'), "bad-agent"),
    "agent a user": (report(agent='"user:olga"'), "bad-agent"),
    "agent a user, escaped": (report(agent=r'"\u0075ser:"'), "bad-agent"),
    "no id": (b'{"type":"purge","user":"olga"}', "bad-command"),
    "id a number": (command(',"id":5'), "bad-command"),
    "id no UUID": (command(',"id":"one"'), "bad-command"),
    "id in braces": (command(f',"id":"{{{ID}}}"'), "bad-command"),
    "id with a line break": (command(rf',"id":"{ID}\n"'), "bad-command"),
    "id in other digits": (command(f',"id":"{ID.replace("0", "٠")}"'), "bad-command"),
    "mute without agent": (mute(agent=""), "bad-agent"),
    "mute of a number": (mute(agent="5"), "bad-agent"),
    "mute of a user": (mute(agent='"user:olga"'), "bad-agent"),
    "mute of an empty name": (mute(agent='""'), "bad-agent"),
    "unmute of a user": (mute("unmute", agent='"user:olga"'), "bad-agent"),
    "mute without id": (mute(id=""), "bad-command"),
    "mute with an id that is no UUID": (mute(id='"one"'), "bad-command"),
    "mute without user": (mute(user=""), "bad-field"),
    "mute by a user without name": (mute(user='""'), "bad-field"),
    "mute by too long a name": (mute(user=f'"{"x" * 251}"'), "bad-field"),
    "mute with a reason that is no text": (mute(reason="5"), "bad-field"),
    "mute with too long a reason": (mute(reason=f'"{"x" * 501}"'), "bad-field"),
    "mute until a text": (mute(until='"1"'), "bad-time"),
    "mute until 1.0": (mute(until="1.0"), "bad-time"),
    "mute until true": (mute(until="true"), "bad-time"),
    "mute until -1": (mute(until="-1"), "bad-time"),
    "mute until the year 10000": (mute(until=str(MAX_TIME + 1)), "bad-time"),
    "leave without agent": (b'{"type":"leave"}', "bad-agent"),
    "leave of a user": (leave(agent='"user:olga"'), "bad-agent"),
    "leave after the year 9999": (leave(f',"reported_at":{MAX_TIME + 1}'), "bad-time"),
    "leave at a negative time": (leave(',"reported_at":-1'), "bad-time"),
    "leave at a time with a point": (leave(',"reported_at":1.0'), "bad-time"),
    "scenario of fold 0": (scenario_of(0), "bad-scenario"),
    "scenario of fold 1.0": (scenario_of(1.0), "bad-scenario"),
    "scenario of fold true": (scenario_of(True), "bad-scenario"),
    "scenario of a fold in words": (scenario_of("2"), "bad-scenario"),
    "scenario of a fold too large": (scenario_of(1_000_001), "bad-scenario"),
    "scenario of a later fold without name": (
        b'{"type":"scenario","scenario":{"fold":3}}',
        "bad-scenario",
    ),
    "no scenario": (b'{"type":"scenario"}', "bad-scenario"),
    "scenario a list": (b'{"type":"scenario","scenario":[]}', "bad-scenario"),
    "scenario without states": (b'{"type":"scenario","scenario":{"name":"a"}}', "bad-scenario"),
}


@pytest.mark.parametrize("case", NO_RECORD)
def test_what_cannot_be_read_is_refused_with_one_reason(case):
    value, reason = NO_RECORD[case]
    assert read(value) == Unreadable(reason)


LARGE = '{"x":"%s"}' % ("x" * MAX_DETAIL)

TAKEN = Report("shop", "w", "up", sunk="not-json")
UNTIMELY = RefusedReport("shop", "w", "up", "bad-time", sunk="not-json")
UNSAID = RefusedReport("shop", "w", None, "bad-field", sunk="not-json")
CUT = RefusedReport("shop", "w", "up", "not-json", sunk="not-json")

SUNK: dict[str, tuple[bytes, Report | RefusedReport]] = {
    "NaN": (report(',"x":NaN'), TAKEN),
    "Infinity": (report(',"x":-Infinity'), TAKEN),
    "number beyond a double": (report(',"x":1e999'), TAKEN),
    "bare point": (report(',"x":1.'), TAKEN),
    "words of Python": (report(',"x":{\'a\':None,"b":True}'), TAKEN),
    "bad escape": (report(r',"x":"\x41"'), TAKEN),
    "bare control character": (report(',"x":"a\tb"'), TAKEN),
    "lone low surrogate in a name": (report(r',"x\udc00":1'), TAKEN),
    "integer of 4,301 characters": (report(f',"x":{"9" * 4301}'), TAKEN),
    "integer of 4,301 with its sign": (report(f',"x":-{"9" * 4300}'), TAKEN),
    "bad UTF-8 in what is ignored": (
        report()[:-1] + b',"x":"\xff"}',
        replace(TAKEN, sunk="not-utf8"),
    ),
    "too large": (b" " * MAX_RECORD + report(), replace(TAKEN, sunk="too-large")),
    "deep object": (report(f',"x":{"[{" * 250}{"}]" * 250}'), replace(TAKEN, sunk="too-large")),
    "100,000 brackets": (
        report(f',"x":{"[" * 100_000}{"]" * 100_000}'),
        replace(TAKEN, sunk="too-large"),
    ),
    "brackets in a text": (
        report(f',"x":"{"{" * MAX_BRACKETS}"'),
        replace(TAKEN, sunk="too-large"),
    ),
    "NaN beside a detail": (
        report(',"x":NaN,"detail": {"n": 1.50}'),
        replace(TAKEN, detail='{"n": 1.50}'),
    ),
    "NaN beside no detail": (report(',"x":NaN,"detail":null'), TAKEN),
    "NaN beside a time": (
        report(f',"x":NaN,"reported_at": {NOW + 7} '),
        replace(TAKEN, reported_at=NOW + 7, ahead=7),
    ),
    "NaN, and a name twice": (report(',"x":NaN,"state":"down"'), replace(TAKEN, state="down")),
    "NaN, and names in escapes": (
        report(r',"x":NaN,"st\u0061te":"d\u006fwn"'),
        replace(TAKEN, state="down"),
    ),
    "NaN in a detail": (report(',"detail":{"x":NaN}'), replace(TAKEN, detail_fault="bad-field")),
    "NaN in a detail that comes first": (
        b'{"detail":{"x":NaN}, "type" : "report","agent":"w","state":"up"}',
        replace(TAKEN, detail_fault="bad-field"),
    ),
    "detail with an integer of 5,000 digits": (
        report(f',"detail":{{"n":{"9" * 5000}}}'),
        replace(TAKEN, detail_fault="too-large"),
    ),
    "detail with a number beyond a double": (
        report(',"detail":{"n":1e999}'),
        replace(TAKEN, detail_fault="bad-field"),
    ),
    "detail with a lone surrogate": (
        report(r',"detail":{"x":"\ud800"}'),
        replace(TAKEN, detail_fault="bad-field"),
    ),
    "detail in Latin-1": (
        report()[:-1] + b',"detail":{"x":"\xfc"}}',
        replace(TAKEN, detail_fault="bad-field", sunk="not-utf8"),
    ),
    "detail with a line feed": (
        report(',"detail":{"x":"a\nb"}'),
        replace(TAKEN, detail_fault="bad-field"),
    ),
    "detail in single quotes": (
        report(",\"detail\":{'x':'y'}"),
        replace(TAKEN, detail_fault="bad-field"),
    ),
    "detail that is NaN": (report(',"detail":NaN'), replace(TAKEN, detail_fault="bad-field")),
    "detail that is nothing": (report(',"detail":'), replace(TAKEN, detail_fault="bad-field")),
    "deep detail": (
        report(f',"detail":{{"x":{"[" * 301}{"]" * 301}}}'),
        replace(TAKEN, detail_fault="too-large", sunk="too-large"),
    ),
    "time with a leading zero": (report(',"reported_at":01'), UNTIMELY),
    "time with a plus sign": (report(',"reported_at":+1'), UNTIMELY),
    "time in hexadecimal": (report(',"reported_at":0x1'), UNTIMELY),
    "time NaN": (report(',"reported_at":NaN'), UNTIMELY),
    "time of 5,000 digits": (report(f',"reported_at":{"9" * 5000}'), UNTIMELY),
    "state a lone surrogate": (report(state=r'"\ud800"'), UNSAID),
    "state in Latin-1": (
        report()[:-5] + b'"\xfcp"}',
        replace(UNSAID, sunk="not-utf8"),
    ),
    "state NaN": (report(state="NaN"), UNSAID),
    "state missing, and NaN": (b'{"type":"report","agent":"w","x":NaN}', UNSAID),
    "cut off": (report()[:-1] + b",", CUT),
    "cut off behind a text": (report()[:-1], replace(CUT, said=None)),
    "cut off in a detail": (report(',"detail":{"x":1')[:-1], CUT),
    "cut off in a text": (report(',"detail":{"x":"y')[:-1], CUT),
    "cut off in a state": (b'{"type":"report","agent":"w","state":"u', replace(CUT, said=None)),
    "cut off and not UTF-8": (
        report()[:-1] + b',"x":"\xff"',
        replace(CUT, sunk="not-utf8"),
    ),
    "something after the end": (report() + b"x", CUT),
    "two objects": (report() * 2, CUT),
    "NUL after": (report() + b"\x00", CUT),
    "trailing comma": (report(","), CUT),
    "closing bracket": (report(',"x":]'), CUT),
    "no colon": (report(',"x" 1'), CUT),
}
"""Each with the report that is in it, and why a former fold refuses it."""


@pytest.mark.parametrize("case", SUNK)
def test_a_report_is_read_member_by_member_where_the_record_cannot_be_read(case):
    value, expected = SUNK[case]
    record = read(value)
    assert record == expected
    if isinstance(record, RefusedReport):
        assert refusal_of(record) == Unreadable(record.reason)


@pytest.mark.parametrize(
    "value",
    [
        b'{"agent":"w","state":"up","x":NaN}',
        b'{"type":"tock","agent":"w","state":"up","x":NaN}',
        b'{"type":"report","state":"up","x":NaN}',
        report(',"x":NaN', agent='"user:olga"'),
        report(',"x":NaN', agent=r'"\ud800"'),
        leave(',"x":NaN'),
        command(',"x":NaN'),
        b'{"type":"report","agent":"w',
        b'{"detail":{"x":1,"type":"report","agent":"w","state":"up"}',
        b"{}x",
        b"{ } x",
        b"{",
    ],
)
def test_what_is_no_report_of_an_agent_is_refused_as_a_whole(value):
    assert read(value) == Unreadable("not-json")
    assert read(report(',"x":NaN'), b"a\nb") == Unreadable("not-json")


@pytest.mark.parametrize(
    ("members", "fault"),
    [(',"x":NaN', "not-json"), (f',"x":"{"y" * MAX_RECORD}"', "too-large")],
)
def test_a_report_without_a_key_counts_where_it_cannot_be_read_as_a_whole(members, fault):
    entry = decode_placed(None, report(f',"asset":"shop"{members}'), NOW, 0, 4)
    assert isinstance(entry, Misrouted)
    assert entry.record == replace(TAKEN, sunk=fault)
    assert decode_placed(None, report(members), NOW, 0, 4) == Unreadable(fault)


@fast
@given(histories())
def test_a_report_that_can_be_read_is_the_same_member_by_member(history):
    for entry in history.entries:
        if isinstance(record := entry.record, Report) and record.sunk is None:
            _, value = encoded("watch", record)
            sunk = read(value[:-1] + b' , "later" : NaN }', record.asset.encode())
            assert sunk == replace(read(value, record.asset.encode()), sunk="not-json")


@fast
@given(st.binary(max_size=60), st.integers(0, 70), st.integers(0, 70))
def test_bytes_put_into_a_report_never_raise(noise, first, last):
    value = report(f',"reported_at":{NOW},"detail":{{"n":"x"}}')
    assert isinstance(read(value[:first] + noise + value[last:]), Record)


REFUSED_REPORTS: dict[str, tuple[Any, ...]] = {
    "state missing": (b'{"type":"report","agent":"w"}', None, "bad-field"),
    "state null": (report(state="null"), None, "bad-field"),
    "state a number": (report(state="1"), None, "bad-field"),
    "state a list": (report(state='["up"]'), None, "bad-field"),
    "state empty": (report(state='""'), None, "unknown-state"),
    "state too long": (report(state=f'"{"x" * 65}"'), None, "unknown-state"),
    "state with a line break": (report(state=r'"a\nb"'), None, "unknown-state"),
    "time negative": (report(',"reported_at":-1'), "up", "bad-time"),
    "time 1.0": (report(',"reported_at":1.0'), "up", "bad-time"),
    "time 1e2": (report(',"reported_at":1e2'), "up", "bad-time"),
    "time a text": (report(',"reported_at":"1"'), "up", "bad-time"),
    "time true": (report(',"reported_at":true'), "up", "bad-time"),
    "time a list": (report(',"reported_at":[]'), "up", "bad-time"),
    "time after the year 9999": (report(f',"reported_at":{MAX_TIME + 1}'), "up", "bad-time"),
    "time of 30 digits": (report(f',"reported_at":{"9" * 30}'), "up", "bad-time"),
    "time twice": (report(',"reported_at":1,"reported_at":-1'), "up", "bad-time"),
    "state and time wrong": (report(',"reported_at":-1', state="5"), None, "bad-field"),
    "word and time wrong": (report(',"reported_at":-1', state='""'), None, "unknown-state"),
    "detail and state wrong": (report(',"detail":5', state="5"), None, "bad-field", "bad-field"),
    "detail and word wrong": (
        report(',"detail":[]', state='""'),
        None,
        "unknown-state",
        "bad-field",
    ),
    "detail and time wrong": (
        report(f',"reported_at":-1,"detail":{LARGE}'),
        "up",
        "bad-time",
        "too-large",
    ),
}
"""Each with what it says, why it is refused, and why its detail would be left out."""


@pytest.mark.parametrize("case", REFUSED_REPORTS)
def test_a_report_refused_for_its_state_or_time_names_its_agent_and_what_it_says(case):
    value, said, reason, *fault = REFUSED_REPORTS[case]
    record = read(value)
    assert record == RefusedReport("shop", "w", said, reason, *fault)
    refusal = refusal_of(record)
    assert refusal == Unreadable(reason)
    assert refusal.path == ("reported_at" if reason == "bad-time" else "state")
    assert refusal.expected
    assert refusal.given


@pytest.mark.parametrize("members", [',"agent":"user:olga"', ',"agent":5', ',"agent":null'])
def test_a_report_of_nobody_is_not_one_that_makes_anybody_doubted(members):
    for wrong in (',"reported_at":-1', ',"state":5', ',"detail":5'):
        assert read(report(wrong + members)) == Unreadable("bad-agent")


def test_what_can_be_read_has_no_refusal():
    for value in (report(), report(',"detail":5'), leave(), command(), command(user="5"), mute()):
        assert refusal_of(read(value)) is None
    assert refusal_of(read(b"{")) == Unreadable("not-json")


LEFT_OUT = {
    "a text": ('"x"', "bad-field"),
    "a list": ("[]", "bad-field"),
    "false": ("false", "bad-field"),
    "0": ("0", "bad-field"),
    "a list, also too large": (f"[{' ' * MAX_DETAIL}]", "bad-field"),
    "an object, then a text": ('{},"detail":"x"', "bad-field"),
    "too large": (LARGE, "too-large"),
    "too large by one byte": (f"{{{' ' * (MAX_DETAIL - 1)}}}", "too-large"),
    "too large in UTF-8": (f'{{"x":"{"ü" * 1021}"}}', "too-large"),
    "too large by its escapes": ('{"x":"' + r"\u00fc" * 341 + '"}', "too-large"),
    "too large at last": (f'{{"x":1}},"detail":{LARGE}', "too-large"),
    "as large as a record": (f'{{"x":"{"x" * 65_000}"}}', "too-large"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_detail_that_cannot_be_carried_is_left_out_and_the_claim_stands(case):
    text, fault = LEFT_OUT[case]
    expected = Report("shop", "w", "up", detail_fault=fault)
    assert read(report(f',"detail":{text}')) == expected
    late = report(f',"detail":{text},"reported_at":{NOW + 7}')
    assert read(late) == replace(expected, reported_at=NOW + 7, ahead=7)


@pytest.mark.parametrize(
    ("at", "ahead"),
    [
        (0, 0),
        (NOW, 0),
        (NOW + 1, 1),
        (NOW + MAX_AHEAD, MAX_AHEAD),
        (NOW + MAX_AHEAD + 1, MAX_AHEAD + 1),
        (MAX_TIME, MAX_TIME - NOW),
    ],
)
def test_a_time_ahead_of_the_append_time_is_no_fault_and_says_how_far(at, ahead):
    member = f',"reported_at":{at}'
    assert read(report(member)) == Report("shop", "w", "up", at, ahead=ahead)
    assert read(leave(member)) == Leave("shop", "w", at, ahead)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "bad-asset"),
        (b"", "bad-asset"),
        (b"x" * 256, "bad-asset"),
        ("ü".encode() * 256, "bad-asset"),
        (b"a\x00b", "bad-asset"),
        (b"a\nb", "bad-asset"),
        (b"\x7f", "bad-asset"),
        (b"\xff", "not-utf8"),
        (b"\xed\xa0\x80", "not-utf8"),
    ],
)
@pytest.mark.parametrize(
    "value", [report(), leave(), command()], ids=["report", "leave", "command"]
)
def test_a_bad_asset_name_is_refused_for_reports_leaves_and_commands(key, reason, value):
    assert read(value, key) == Unreadable(reason)


@pytest.mark.parametrize(
    ("value", "path", "given", "byte"),
    [
        (report(',"reported_at":"now"'), "reported_at", "'now'", None),
        (command().replace(b'"id"', b'"di"'), "id", "nothing", None),
        (b'{"type":"report","agent":[[[1]]]}', "agent", "[[[...]]]", None),
        (
            b'{"type":"scenario","scenario":{"name":"a","states":[{}]}}',
            "scenario.states[0].name",
            "None",
            None,
        ),
        (b"[" * (MAX_BRACKETS + 1), "", "301", MAX_BRACKETS),
        ('{"ü":1,}'.encode(), "", "}", 8),
        (b'{"a"', "", "the end", 4),
        (b'{"a\xff\xfe"', "", "ff", 3),
        (rb'{"a":"\ud800"}', "", r"\ud800", 6),
    ],
)
def test_a_refusal_tells_field_and_position(value, path, given, byte):
    refusal = refusal_of(read(value))
    assert refusal is not None
    assert (refusal.path, refusal.given, refusal.byte) == (path, given, byte)


def test_every_reason_is_given_by_one_layer_or_another():
    """The bytes give most, the partition one, signatures some, the fold knows words and room."""
    by_decoder = {case[1] for case in NO_RECORD.values()} | {"bad-asset"}
    by_decoder |= {case[2] for case in REFUSED_REPORTS.values()}
    states = [{"name": "down"}, {"name": "up"}]
    rule = {"name": "n", "states": states, "rule": {"kind": "latest"}}
    bucket = Bucket(scenario_from_plain(rule), 0, 1)
    reports: list[Record] = [Report("a", f"w{n}", "down") for n in range(MAX_VOTERS)]
    reports += [Report("a", "one-more", "up")]
    reports += [Report("b", "w", "no")]
    reports += [Mute(f"w{n}", None, "olga", "", ID) for n in range(MAX_MUTED + 1)]
    emissions = [e for n, one in enumerate(reports) for e in bucket.apply(one, n, 0)]
    by_fold = {e.reason for e in emissions if isinstance(e, DeadLetter)}
    assert by_fold == {"too-many-agents", "unknown-state", "too-many-mutes"}
    by_decoder |= {"wrong-partition", *FAULTS}
    assert by_decoder | by_fold == set(DEAD_LETTER_REASONS)


@pytest.mark.parametrize(
    "value",
    [report(), report(',"reported_at":-1'), leave(), command(), command(',"until":-1')],
)
def test_a_record_that_is_not_on_its_keys_partition_is_misrouted_or_refused(value):
    right = partition_of(b"shop", 4)
    assert decode_placed(b"shop", value, NOW, right, 4) == read(value)
    wrong = decode_placed(b"shop", value, NOW, (right + 1) % 4, 4)
    if isinstance(read(value), Command | Refusal):
        assert wrong == Unreadable("wrong-partition")
    else:
        assert isinstance(wrong, Misrouted)
        assert wrong.record == read(value)
        assert (wrong.fault.expected, wrong.fault.given) == (
            f"partition {right}",
            f"partition {(right + 1) % 4}",
        )


@pytest.mark.parametrize("value", [encode_tick(), b"{", None])
def test_what_names_no_asset_has_no_partition_of_its_own(value):
    for partition in range(4):
        assert decode_placed(b"shop", value, NOW, partition, 4) == read(value)


# ---- what is read --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (report(), Report("shop", "w", "up")),
        (b" \n\t\r" + report() + b" ", Report("shop", "w", "up")),
        (report(',"agent":"v"'), Report("shop", "v", "up")),
        (report(',"later":{"a":[1.5,null]}'), Report("shop", "w", "up")),
        (report(f',"x":[{"9" * 4300},-{"9" * 4299}]'), Report("shop", "w", "up")),
        (report(',"reported_at":null,"detail":null'), Report("shop", "w", "up")),
        (report(',"reported_at":-0'), Report("shop", "w", "up", 0)),
        (report(r',"\u0061gent":"v"'), Report("shop", "v", "up")),
        (report(state=r'"\ud83d\ude00"'), Report("shop", "w", "😀")),
        (report(agent=f'"{"😀" * 255}"'), Report("shop", "😀" * 255, "up")),
        (report(agent='"users:x"'), Report("shop", "users:x", "up")),
        (leave(), Leave("shop", "w")),
        (leave(',"state":5,"detail":5,"reported_at":null'), Leave("shop", "w")),
        (b'{"type":"tick"}', Tick()),
        (b'{"type":"tick","scenario":5}', Tick()),
    ],
)
def test_what_is_read(value, expected):
    assert read(value) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        '{\t"b" : 1.50,\r\n "a":[1e2 ,-0,-0.0,1E+2, 0.10] }',
        '{"a":1,"a":2}',
        r'{"\u0061\/":"\ud83d\ude00 \"}{[\\","é":"🙂"}',
        '{"detail":{"detail":"{}"}}',
        f'{{"n":[{2**64},{-(2**63) - 1},{"9" * 1990}]}}',
        '{"n":1234567890123456789.01234567890123456789,"m":5e-324,"l":1e-9999}',
        f'{{"x":{"[" * (MAX_BRACKETS - 2)}{"]" * (MAX_BRACKETS - 2)}}}',
        f'{{"x":"{"x" * (MAX_DETAIL - 8)}"}}',
        f'{{"x":"{"é" * (MAX_DETAIL // 2 - 4)}"}}',
        f"{{{' ' * (MAX_DETAIL - 2)}}}",
    ],
)
def test_a_detail_is_carried_as_it_came(text):
    expected = Report("shop", "w", "up", None, text)
    assert read(report(f',"detail":{text}')) == expected
    assert read(report(f',"detail" :\r\n\t {text} \n')) == expected
    assert read(encode_report(expected)) == expected


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        (',"detail":{"a":1},"detail":{"a": 2}', '{"a": 2}'),
        (r',"detail":{"a":1},"det\u0061il":{"a": 2}', '{"a": 2}'),
        (r',"\u0064\u0065tail":{"a": 1}', '{"a": 1}'),
        (r',"det\u0061il":{"a":1},"detail":null', None),
        (',"detail":5,"detail":{"a": 1}', '{"a": 1}'),
        (',"x":{"detail":{"a":1}},"Detail":{},"detail ":{}', None),
        (',"x":"\\",\\"detail\\":{}","detail":{"a": 1},"y":{"detail":{}}', '{"a": 1}'),
    ],
)
def test_the_last_detail_of_the_record_itself_counts(members, detail):
    assert read(report(members)) == Report("shop", "w", "up", None, detail)


def test_a_record_of_just_the_largest_size_is_read():
    assert read(report().ljust(MAX_RECORD)) == Report("shop", "w", "up")


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        (None, None),
        ({}, "{}"),
        ({"rps": 1.0, "é": [None, True, "a\0b"]}, '{"rps":1.0,"é":[null,true,"a\\u0000b"]}'),
        ({"n": 10**30}, '{"n":1000000000000000000000000000000}'),
    ],
)
def test_a_mapping_becomes_compact_text(mapping, text):
    assert detail_text(mapping) == text


DEEP: dict[str, Any] = {}
DEEP["x"] = DEEP


@pytest.mark.parametrize(
    "mapping", [{"x": object()}, {(): 1}, {"x": "\ud800"}, {"x": 10**5000}, DEEP]
)
def test_a_mapping_that_json_cannot_hold_is_refused(mapping):
    with pytest.raises((TypeError, ValueError)):
        detail_text(mapping)


def test_an_asset_name_has_up_to_255_code_points():
    for name in ("😀" * 255, "10.0.0.0/8", " ", "\ufeff"):
        assert read(report(), name.encode()).asset == name


# ---- commands ------------------------------------------------------------------------------


def test_a_command_is_read():
    members = f',"reason":"seen","until":{NOW},"if_version":"1.42.0","later":1'
    assert read(command(members)) == Command(
        "set", "shop", ID, "olga", "seen", "up", NOW, Version(1, 42, 0)
    )


@pytest.mark.parametrize("kind", ["set", "vote", "release", "purge"])
def test_every_kind_of_command_is_read(kind):
    assert read(command(kind=kind)).kind == kind


@pytest.mark.parametrize("kind", ["release", "purge"])
def test_a_state_is_not_asked_of_release_and_purge(kind):
    assert read(command(',"state":null', kind=kind)).state is None


def test_an_id_is_compared_in_lower_case():
    assert read(command(f',"id":"{ID.upper()}"')).id == ID


def test_a_time_may_be_as_late_as_the_year_9999():
    assert read(command(f',"until":{MAX_TIME}')).until == MAX_TIME


REFUSALS = {
    "user missing": (command(user="null"), "user: expected a name"),
    "user a list": (command(user='["olga"]'), "user: expected a name"),
    "user empty": (command(user='""'), "user: expected a name"),
    "user too long for an agent": (command(user=f'"{"x" * 251}"'), "user: expected a name"),
    "user with a line break": (command(user=r'"a\nb"'), "user: expected a name"),
    "reason a number": (command(',"reason":5'), f"reason: expected a text of at most {MAX_REASON}"),
    "reason too long": (
        command(f',"reason":"{"x" * (MAX_REASON + 1)}"'),
        f"reason: expected a text of at most {MAX_REASON} characters",
    ),
    "state missing": (command(',"state":null'), "state: expected a state"),
    "state missing in a vote": (command(',"state":null', "vote"), "state: expected a state"),
    "state a number": (command(',"state":5'), "unknown state"),
    "state empty": (command(',"state":""'), "unknown state"),
    "state of a release a number": (command(',"state":5', "release"), "unknown state"),
    "until 1.0": (command(',"until":1.0'), "until: expected Unix milliseconds"),
    "until negative": (command(',"until":-1'), "until: expected Unix milliseconds"),
    "until true": (command(',"until":true'), "until: expected Unix milliseconds"),
    "until too late": (command(f',"until":{MAX_TIME + 1}'), "until: expected Unix milliseconds"),
    "until of 40 digits": (command(f',"until":{"9" * 40}'), "until: expected Unix milliseconds"),
    **{
        f"if_version {text[:24]}": (
            command(f',"if_version":{text}'),
            "if_version: expected epoch.offset.step",
        )
        for text in (
            "5",
            "1.2",
            "false",
            "[1,2,3]",
            '""',
            '"1.2"',
            '"1.2.3.4"',
            '"1.-2.3"',
            '"1. 2.3"',
            '"1.٢.3"',
            f'"1.{2**63}.0"',
            f'"1.2.{"9" * 80}"',
        )
    },
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_command_whose_id_and_asset_can_be_read_is_refused_by_an_answer(case):
    value, reason = REFUSALS[case]
    record = read(value)
    assert isinstance(record, Refusal)
    assert (record.asset, record.id) == ("shop", ID)
    assert record.reason.startswith(reason)
    assert record.user in ("olga", "")


@pytest.mark.parametrize("text", ["1.42.0", "000001.0000000000000000042.0000000000000"])
def test_if_version_may_be_in_either_form(text):
    assert read(command(f',"if_version":"{text}"')).if_version == Version(1, 42, 0)


def test_the_largest_if_version_is_read():
    largest = f"{2**63 - 1}.{2**63 - 1}.{2**63 - 1}"
    assert str(read(command(f',"if_version":"{largest}"')).if_version) == largest


# ---- whatever comes ------------------------------------------------------------------------


@fast
@given(st.binary(max_size=200), st.none() | st.binary(max_size=20), st.integers(0, 2**50))
def test_random_bytes_never_raise(value: bytes, key: bytes | None, time: int) -> None:
    assert decode_source(key, value, time) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
FIELDS = ("agent", "state", "reported_at", "detail", "id", "user", "reason", "until", "if_version")


@fast
@given(
    st.sampled_from(
        ("report", "leave", "set", "vote", "release", "purge", "scenario", "mute", "unmute")
    ),
    st.dictionaries(st.sampled_from((*FIELDS, "scenario")), JSON),
)
def test_any_json_in_any_field_never_raises(kind: str, fields: dict[str, Any]) -> None:
    value = json.dumps({"id": ID, "agent": "w", "user": "u", **fields, "type": kind}).encode()
    refusal = refusal_of(read(value))
    if refusal is not None:
        assert refusal.reason in DEAD_LETTER_REASONS
        assert refusal.expected
        assert len(refusal.path) <= 80
        assert len(refusal.expected) <= 300
        assert 0 < len(refusal.given) <= 80


def _is_strict_json(text: str) -> bool:
    def refuse(_: str) -> None:
        raise ValueError

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


@fast
@given(
    st.dictionaries(st.text(max_size=4), JSON, max_size=4),
    st.none() | st.integers(0, 3),
    st.booleans(),
    st.text(" \t\r\n", max_size=3),
)
def test_any_detail_is_carried_as_it_came_or_refused(
    detail: dict[str, Any], indent: int | None, ascii_: bool, space: str
) -> None:
    text = json.dumps(detail, indent=indent, ensure_ascii=ascii_, allow_nan=True)
    before = json.dumps({"x": detail, "detail": 1}, ensure_ascii=False)[1:-1]
    value = report(f',{before},"detail":{space}{text}{space}')
    if _is_strict_json(text):
        assert read(value) == Report("shop", "w", "up", None, text)
    else:
        taken = read(value)
        assert (taken.agent, taken.state, taken.detail, taken.sunk) == ("w", "up", None, "not-json")


HOSTILE = {
    "detail all brackets": report(',"detail":' + "{" * MAX_RECORD),
    "detail deep and cut off": report(',"detail":' + '{"a":' * (MAX_BRACKETS - 1)),
    "detail deep and closed": report(
        ',"detail":' + '{"a":' * (MAX_BRACKETS - 1) + "1" + "}" * (MAX_BRACKETS - 1)
    ),
    "detail of many members": report(f',"detail":{{{"0:," * 5000}}}'),
    "detail repeated": report(',"detail":{}' * 280),
    "detail a huge integer": report(f',"detail":{"1" * 60_000}'),
    "huge integers in a detail": report(f',"detail":{{"n":[{("9" * 4300 + ",") * 14}1]}}'),
    "integer just over what Python reads": report(f',"detail":{{"n":-{"9" * 4301}}}'),
    "huge fraction": report(f',"detail":{{"n":0.{"1" * 60_000}}}'),
    "huge exponent": report(f',"detail":{{"n":0e{"9" * 60_000}}}'),
    "huge text": report(f',"detail":{{"n":"{"🙂" * 16_000}"}}'),
    "all spaces": report(f',"detail":{{{" " * 60_000}}}'),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.spread(4)
def test_hostile_bytes_never_raise(case):
    record = read(HOSTILE[case])
    if isinstance(record, RefusedReport):
        assert (record.said, record.reason) == ("up", "not-json")
    else:
        assert (record.agent, record.state) == ("w", "up")
        assert (record.detail is None) is (record.detail_fault is not None)
        assert len((record.detail or "").encode()) <= MAX_DETAIL


@fast
@given(st.data())
def test_a_damaged_record_never_raises(data: st.DataObject) -> None:
    plain = report(r',"detail":{"a":[1.5,"\u00e9",{}],"b":null}')
    value = bytearray(data.draw(st.sampled_from((plain, command()))))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    assert read(bytes(value)) is not None


# ---- round trips ---------------------------------------------------------------------------

names = st.text(min_size=1, max_size=9).filter(lambda name: not CONTROL.search(name))
times = st.none() | st.integers(0, NOW) | st.integers(NOW, MAX_TIME)
details = st.none() | st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    max_size=4,
).map(json.dumps)


@fast
@given(names, names | st.sampled_from(AGENTS), names | st.sampled_from(WORDS), times, details)
def test_reports_round_trip(
    asset: str, agent: str, state: str, at: int | None, detail: str | None
) -> None:
    sent = Report(asset, agent, state, at, detail, max(0, (at or 0) - NOW))
    expected = Unreadable("bad-agent") if agent.startswith("user:") else sent
    assert read(encode_report(sent), asset.encode()) == expected


@fast
@given(names, names | st.sampled_from(AGENTS), times)
def test_leaves_round_trip(asset: str, agent: str, at: int | None) -> None:
    sent = Leave(asset, agent, at, max(0, (at or 0) - NOW))
    expected = Unreadable("bad-agent") if agent.startswith("user:") else sent
    assert read(encode_leave(sent), asset.encode()) == expected


@fast
@given(
    st.builds(
        Command,
        kind=st.sampled_from(("set", "vote", "release", "purge")),
        asset=st.sampled_from(ASSETS),
        id=st.uuids().map(str),
        user=st.sampled_from(USERS) | names,
        reason=st.text(max_size=20),
        state=names,
        until=times,
        if_version=st.none() | st.builds(Version, *[st.integers(0, 2**63 - 1)] * 3),
    )
)
def test_commands_round_trip(sent: Command) -> None:
    assert read(encode_command(sent), sent.asset.encode()) == sent


agents = names.filter(lambda name: not name.startswith("user:")) | st.sampled_from(AGENTS)
users, reasons, ids = st.sampled_from(USERS) | names, st.text(max_size=20), st.uuids().map(str)


@fast
@given(
    st.builds(Mute, agents, times, users, reasons, ids)
    | st.builds(Unmute, agents, users, reasons, ids),
    st.none() | st.binary(max_size=5),
)
def test_mutes_round_trip_whatever_their_key(sent: Mute | Unmute, key: bytes | None) -> None:
    assert read(encode_mute(sent), key) == sent
    assert decode_placed(key, encode_mute(sent), NOW, 3, 4) == sent


@fast
@given(scenarios())
def test_scenario_records_round_trip(scenario: Scenario) -> None:
    assert read(encode_scenario(scenario), None) == ScenarioChange(scenario)


@pytest.mark.parametrize("fold", [FOLD + 1, 1_000_000])
def test_a_scenario_of_a_later_fold_is_none_that_can_be_read(fold):
    """Also where it has other fields than this release knows."""
    assert read(scenario_of(fold), None) == UnknownFold("a", fold)
    later = f'{{"type":"scenario","scenario":{{"name":"a","fold":{fold},"rule":5}}}}'
    assert read(later.encode(), None) == UnknownFold("a", fold)


def test_a_scenario_of_an_earlier_release_is_of_fold_1():
    rule = {"name": "a", "states": [{"name": "up"}], "rule": {"kind": "latest"}}
    record = read(json.dumps({"type": "scenario", "scenario": rule}).encode(), None)
    assert record == ScenarioChange(scenario_from_plain(rule))
    assert record.scenario.fold == 1


def test_ticks_round_trip():
    assert read(encode_tick(), None) == Tick()


@settings(max_examples=examples(10), deadline=None, derandomize=True)
@given(histories())
def test_a_generated_history_can_be_written_to_a_topic(history: Any) -> None:
    """Ids in it are UUIDs, names are names: what other engines are to read, is readable."""
    for entry in history.entries:
        record = entry.record
        if isinstance(record, Report):
            value, written = encode_report(record), replace(record, detail_fault=None)
            assert decode_source(record.asset.encode(), value, entry.time) == written
        elif isinstance(record, Leave):
            value = encode_leave(record)
            assert decode_source(record.asset.encode(), value, entry.time) == record
        elif isinstance(record, Command):
            value = encode_command(record)
            assert decode_source(record.asset.encode(), value, entry.time) == record
        elif isinstance(record, Mute | Unmute):
            assert decode_source(None, encode_mute(record), entry.time) == record


# ---- tasks ---------------------------------------------------------------------------------


def scheduled(**fields: Any) -> Record:
    """What is read of a `schedule` command with these fields."""
    data = {"type": "schedule", "id": ID, "user": "olga", "do": "emit", "after": 1000, **fields}
    given = {name: value for name, value in data.items() if value is not None}
    return decode_source(b"a", json.dumps(given).encode(), NOW)


@pytest.mark.parametrize(
    "command",
    [
        Command("schedule", "a", ID, "olga", schedule=Schedule("emit", after=1000)),
        Command(
            "schedule",
            "a",
            ID,
            "olga",
            "tired",
            state="up",
            until=NOW,
            schedule=Schedule("set", "down", at=NOW, every=5000, times=3),
        ),
        Command("cancel", "a", ID, "olga", task=ID),
    ],
)
def test_a_command_about_a_task_is_read_as_it_was_written(command):
    assert decode_source(b"a", encode_command(command), NOW) == command


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"do": None}, "do: expected one of emit, notify, set, release, purge"),
        ({"do": ["emit"]}, "do: expected one of emit, notify, set, release, purge"),
        ({"do": "set"}, "state: expected a state"),
        ({"if": 5}, "if: expected a state"),
        ({"if": ""}, "if: expected a state"),
        ({"after": 999}, "after: expected milliseconds, from 1 second to 366 days"),
        ({"after": True}, "after: expected milliseconds, from 1 second to 366 days"),
        ({"every": 10**11}, "every: expected milliseconds, from 1 second to 366 days"),
        ({"after": None, "at": -1}, "at: expected Unix milliseconds"),
        ({"every": 1000, "times": 0}, "times: expected an integer from 1 to 1000000"),
        ({"at": NOW}, "after: expected none with at"),
        ({"after": None}, "after: expected a time, or at or every"),
        ({"times": 2}, "times: expected none without every"),
        ({"until": "soon"}, "until: expected Unix milliseconds"),
        ({"reason": 5}, f"reason: expected a text of at most {MAX_REASON} characters"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused_with_its_field(fields, reason):
    assert scheduled(**fields) == Refusal("a", ID, "olga", reason)


@pytest.mark.parametrize("task", [None, 5, "", ID + "0"])
def test_a_cancel_that_names_no_task_is_refused(task):
    data = {"type": "cancel", "id": ID, "user": "olga", "task": task}
    record = decode_source(b"a", json.dumps(data).encode(), NOW)
    assert record == Refusal("a", ID, "olga", "task: expected a UUID")
