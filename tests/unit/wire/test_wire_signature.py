"""Signatures of commands: what counts, and that the same log always gives the same states."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.fold import Bucket
from domain.records import (
    Command,
    DeadLetter,
    Emission,
    Mute,
    Report,
    StateRecord,
    Tick,
    Unmute,
    Unsigned,
)
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from support.run.selection import examples
from wire.keys import LATE_MS, LEAD_MS, Key, KeyFile, KeysProblem, Ring, read_ring
from wire.signature import (
    BAD,
    EXPIRED_KEY,
    MAX_SKEW,
    ROOM,
    UNKNOWN,
    UNSIGNED,
    UNTIMELY,
    Signer,
    Trust,
)
from wire.signature import signed as sign
from wire.source import (
    MAX_RECORD,
    MAX_TIME,
    decode_placed,
    encode_command,
    encode_mute,
    encode_report,
    encode_scenario,
    fits,
)

NOW = 1_790_000_000_000
ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c5"
TOPIC = "sites.reports"
OLD, NEW = Key("old", "o" * 43, 0, NOW + 3_600_000), Key("new", "n" * 43, NOW + 60_000)
RING = Ring((OLD, NEW))
SITES = scenario_from_plain(
    {
        "name": "sites",
        "states": [{"name": "down"}, {"name": "up"}],
        "rule": {"kind": "latest"},
        "commands": "signed",
    }
)
DOC = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text(encoding="utf-8")

SET = Command("set", "shop", f"{ID}0", "olga", "a drill", "down")
RECORDS = {
    "set": (b"shop", encode_command(SET)),
    "purge": (b"shop", encode_command(Command("purge", "shop", f"{ID}1", "olga"))),
    "refusal": (b"shop", encode_command(SET).replace(b'"down"', b"5")),
    "mute": (None, encode_mute(Mute("w", None, "olga", "wild", f"{ID}2"))),
    "unmute": (None, encode_mute(Unmute("w", "olga", "mended", f"{ID}3"))),
    "scenario": (None, encode_scenario(SITES)),
    "later scenario": (None, b'{"type":"scenario","scenario":{"name":"sites","fold":1000}}'),
}


def fault(value: bytes, key: bytes | None = b"shop", time: int = NOW, topic: str = TOPIC) -> object:
    return Trust(topic, lambda: RING).fault(key, value, time)


def fold(
    *records: tuple[bytes | None, bytes, int], ring: Ring = RING, rule: Scenario = SITES
) -> list[Emission]:
    """Return what the fold makes of records: key, value, append time."""
    bucket, trust = Bucket(rule, 0, 1), Trust(TOPIC, lambda: ring)
    out = []
    for offset, (key, value, time) in enumerate(records):
        out += bucket.apply(decode_placed(key, value, time, 0, 1, trust), offset, time)
    return out


# ---- one record ----------------------------------------------------------------------------


def signed(unsigned: str, signature: str) -> bytes:
    """Return an object's text with the signature as its last member."""
    return f'{unsigned[:-1]},"signature":"{signature}"}}'.encode()


def test_the_example_of_the_docs_is_right():
    text = DOC[DOC.index("## Signatures") :]
    example = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert example is not None
    fields = dict(re.findall(r"^(\w+(?: id)?) +(.*)$", example[1], re.MULTILINE))
    key, at = Key(fields["key id"], fields["secret"]), int(fields["time"])
    asset, whole = fields["key"].encode(), signed(fields["unsigned"], fields["signature"])
    assert sign(fields["unsigned"].encode(), fields["topic"], asset, key, at) == whole
    trust = Trust(fields["topic"], lambda: Ring((key,)))
    assert trust.fault(asset, whole, at) is None


@pytest.mark.parametrize("kind", RECORDS)
def test_what_commands_something_is_taken_with_a_signature_alone(kind):
    key, value = RECORDS[kind]
    trust = Trust(TOPIC, lambda: RING)
    plain = decode_placed(key, value, NOW, 0, 1)
    signed = sign(value, TOPIC, key, OLD, NOW)
    assert decode_placed(key, signed, NOW, 0, 1, trust) == plain
    assert decode_placed(key, value, NOW, 0, 1, trust) == Unsigned(plain)  # type: ignore[arg-type]
    assert fold((key, value, NOW)) == [DeadLetter("unsigned")]


def test_reports_need_none():
    [state] = fold((b"shop", encode_report(Report("shop", "w", "up")), NOW))
    assert isinstance(state, StateRecord)


@settings(max_examples=examples(400), deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(RECORDS)),
    spot=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    way=st.sampled_from(["change", "drop", "insert"]),
)
def test_no_byte_can_be_changed_dropped_or_added(kind, spot, byte, way):
    key, value = RECORDS[kind]
    signed = sign(value, TOPIC, key, OLD, NOW)
    at = int(spot * len(signed))
    rest = signed[at:] if way == "insert" else signed[at + 1 :]
    changed = signed[:at] + (b"" if way == "drop" else bytes([byte])) + rest
    if changed != signed:
        assert fault(changed, key) is not None
        out = fold((key, changed, NOW))
        assert all(isinstance(each, DeadLetter) for each in out), changed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"key": b"shop2"}, BAD),
        ({"key": None}, BAD),
        ({"topic": "gates.reports"}, BAD),
        ({"time": NOW + MAX_SKEW}, None),
        ({"time": NOW - MAX_SKEW}, None),
        ({"time": NOW + MAX_SKEW + 1}, UNTIMELY),
        ({"time": NOW - MAX_SKEW - 1}, UNTIMELY),
    ],
)
def test_a_record_counts_at_its_place_and_time_alone(changes, expected):
    assert fault(sign(encode_command(SET), TOPIC, b"shop", OLD, NOW), **changes) == expected


@pytest.mark.parametrize(
    ("key", "time", "expected"),
    [
        (NEW, NEW.since - 1, UNKNOWN),
        (NEW, NEW.since, None),
        (OLD, (OLD.until or 0) - 1, None),
        (OLD, OLD.until or 0, EXPIRED_KEY),
        (Key("else", "e" * 43), NOW, UNKNOWN),
        (Key("old", "x" * 43), NOW, BAD),
        (Key("OLD", "o" * 43), NOW, BAD),
    ],
)
def test_a_key_counts_in_its_own_time_alone(key, time, expected):
    assert fault(sign(encode_command(SET), TOPIC, b"shop", key, time), time=time) == expected


def test_a_signature_within_a_text_is_none():
    value = encode_command(SET).replace(b"a drill", rb",\"signature\":\"old.1.x\"}")
    assert fault(value) == UNSIGNED


# ---- in the fold ---------------------------------------------------------------------------


def test_a_forged_copy_takes_no_id_and_changes_nothing():
    """Not even when it comes first: the command itself is applied, and answered as ever."""
    value = encode_command(SET)
    forged = [(b"shop", value, NOW), (b"shop", sign(value, TOPIC, b"shop", OLD, 1), NOW)]
    first, second, state = fold(*forged, (b"shop", sign(value, TOPIC, b"shop", OLD, NOW), NOW))
    assert (first, second) == (DeadLetter("unsigned"), DeadLetter(UNTIMELY))
    assert isinstance(state, StateRecord)
    assert state.answer is not None
    assert state.answer.outcome == "applied"


def test_a_scenario_that_demands_none_takes_unsigned_commands_and_no_wrong_ones():
    """As does one whose record in the log is older than the key."""
    plain = SITES.to_plain()
    del plain["commands"]
    rule = scenario_from_plain(plain)
    assert not rule.signed_commands
    value = encode_command(SET)
    wrong = sign(value, "gates.reports", b"shop", OLD, NOW)
    state, dead = fold((b"shop", value, NOW), (b"shop", wrong, NOW), rule=rule)
    assert isinstance(state, StateRecord)
    assert dead == DeadLetter(BAD)


def test_nobody_takes_the_demand_away_without_a_signature():
    weaker = scenario_from_plain({**SITES.to_plain(), "commands": "any"})
    change, command = encode_scenario(weaker), encode_command(SET)
    forged = fold((None, change, NOW), (b"shop", command, NOW))
    assert forged == [DeadLetter("unsigned")] * 2
    [state] = fold((None, sign(change, TOPIC, None, OLD, NOW), NOW), (b"shop", command, NOW))
    assert isinstance(state, StateRecord)


times = st.integers(NOW - 10 * MAX_SKEW, NOW + 10 * MAX_SKEW)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    moments=st.lists(st.tuples(times, st.sampled_from(["down", "up"])), min_size=1, max_size=20),
    turn=times,
)
def test_a_log_that_is_read_again_after_a_rotation_gives_the_same(moments, turn):
    """Each command signed with the key that was current, by the ring as it was then."""
    ring, log, before = Ring((Key("first", "f" * 43),)), [], []
    for number, (time, state) in enumerate(sorted(moments)):
        if time >= turn and len(ring.keys) == 1:
            ring = ring.rotated(turn)
        command = Command("set", "shop", f"{ID}{number % 10}", "olga", str(number), state)
        value = sign(encode_command(command), TOPIC, b"shop", ring.signing(time), time)
        log.append((b"shop", value, time))
        before = fold(*log, ring=ring)
        assert not any(isinstance(each, DeadLetter) for each in before)
    assert fold(*log, ring=ring.rotated(NOW + 20 * MAX_SKEW)) == before


def test_what_a_stolen_key_signed_does_not_count_any_more():
    value = sign(encode_command(SET), TOPIC, b"shop", OLD, NOW)
    assert fold((b"shop", value, NOW), ring=RING.retired("old", NOW, NOW)) == [
        DeadLetter(EXPIRED_KEY)
    ]


# ---- the ring ------------------------------------------------------------------------------


def test_a_new_key_signs_when_everybody_has_read_it_and_the_old_one_ends_later():
    ring = Ring((Key("first", "f" * 43),)).rotated(NOW)
    first, fresh = ring.keys
    assert fresh.since == NOW + LEAD_MS
    assert ring.signing(NOW + 2 * LEAD_MS - 1) == first
    assert ring.signing(NOW + 2 * LEAD_MS) == fresh
    assert first.until == NOW + 2 * LEAD_MS + LATE_MS


def test_a_stolen_key_that_is_current_is_replaced_at_once():
    ring = Ring((Key("first", "f" * 43),)).retired("first", NOW, NOW)
    assert ring.keys[0].until == NOW
    assert ring.signing(NOW) == ring.keys[1]
    with pytest.raises(KeysProblem, match="'second': expected one of first"):
        Ring((Key("first", "f" * 43),)).retired("second", NOW, NOW)
    with pytest.raises(KeysProblem, match="no key signs"):
        Ring((Key("first", "f" * 43, 0, NOW),)).signing(NOW)


def test_the_file_is_made_once_for_its_owner_alone_and_read_anew_when_it_changes(tmp_path):
    path = tmp_path / "data" / "keys.json"
    one, other = KeyFile(path).made(), KeyFile(path).made()
    assert one.ring() == other.ring()
    assert path.stat().st_mode & 0o777 == 0o600
    one.write(one.ring().rotated(NOW))
    assert len(other.ring().keys) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["keys.json"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "expected keys as JSON"),
        ('{"keys":[]}', "at least one"),
        ('{"keys":[{"id":"a","secret":"short"}]}', "32 characters or more"),
        ('{"keys":[{"id":"a","secret":5}]}', "expected keys as JSON"),
    ],
)
def test_a_file_that_is_none_is_named_and_decides_nothing(tmp_path, text, expected):
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(KeysProblem, match=expected) as raised:
        KeyFile(path).ring()
    assert str(path) in str(raised.value)
    with pytest.raises(ValueError, match=expected):
        read_ring(text.encode())
    value, trust = (
        sign(encode_command(SET), TOPIC, b"shop", OLD, NOW),
        Trust(TOPIC, KeyFile(path).ring),
    )
    with pytest.raises(KeysProblem):
        decode_placed(b"shop", value, NOW, 0, 1, trust)
    assert decode_placed(None, b'{"type":"tick"}', NOW, 0, 1, trust) == Tick()


def test_a_signer_whose_clock_is_wrong_goes_by_the_brokers():
    signer = Signer(lambda: RING, lambda: NOW - 86_400_000)
    value = encode_command(SET)
    first = signer.sign(value, TOPIC, b"shop")
    assert fault(first) == UNTIMELY
    assert not signer.in_time(NOW)
    assert fault(signer.sign(value, TOPIC, b"shop")) is None
    assert signer.in_time(NOW + 1_000)


def test_a_rule_fits_only_with_room_for_its_signature():
    room = MAX_RECORD - len(encode_scenario(replace(SITES, weights={"": 1})))
    largest, larger = (replace(SITES, weights={"w" * n: 1}) for n in (room - ROOM, room))
    value = sign(encode_scenario(largest), TOPIC, None, Key("k" * 40, "s" * 43), MAX_TIME)
    assert (len(value) <= MAX_RECORD, fits(largest), fits(larger)) == (True, True, False)
