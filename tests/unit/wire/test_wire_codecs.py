"""States, dead letters, job records, the fold's own state, partitions and topics as bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.asset import Asset
from domain.fold import Bucket
from domain.records import (
    Answer,
    Cause,
    DeadLetter,
    Doubt,
    Flap,
    Mute,
    Muted,
    Override,
    Pending,
    Record,
    RefusedReport,
    Report,
    StateRecord,
    Tombstone,
    Vote,
)
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from domain.version import Version
from support.histories.histories import History, histories, play, scenarios, seeded
from support.run.selection import examples
from wire.asset import (
    CODEC,
    UnreadableAsset,
    dump_asset,
    dump_bucket,
    load_asset,
    load_bucket,
)
from wire.job import (
    Control,
    Heartbeat,
    LatenessReport,
    QueryReport,
    UnreadableJobRecord,
    bucket_name,
    decode_control,
    decode_heartbeat,
    decode_progress,
    encode,
)
from wire.partitioner import murmur2, partition_of
from wire.sink import (
    MAX_DEAD_VALUE,
    DeadRecord,
    UnreadableState,
    decode_dead_letter,
    decode_state,
    encode_dead_letter,
    encode_headers,
    encode_state,
    state_of_json,
)
from wire.topics import Topics

ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55"
CAUSE = Cause("set", 3, 42, 1000, user="olga", command=ID)
DETAIL = '{ "n":[null, 1.50,1e2,99999999999999999999999, "é\\u0000\\/"],"n":{}\n}'
RECORD = StateRecord(
    asset="ü/10.0.0.0%2F8",
    state="down",
    previous="up",
    since=900,
    unconfirmed=True,
    version=Version(1, 42, 0),
    cause=CAUSE,
    votes=(Vote("a1", "up", 5, 6, 7, 8, 9, DETAIL, order=5, age=1, claimed=5),),
    pending=Pending("up", 900, 1900),
    override=Override("down", 5000, "olga", "seen", ID, 1000, "up"),
    answer=Answer(ID, "refused: until: expected Unix milliseconds"),
    unconfirmed_reason="1 of 2 voters",
)
TOMBSTONE = Tombstone("shop", Version(1, 43, 2), Cause("purge-after", 0, 43, 7))

DOUBTS = (
    Doubt("a1", "contradiction", "down", 6, 8, 16, 9),
    Doubt("a2", "unknown-state", "x" * 64, 6, 9, 16, 0, Muted(99, "ed")),
    Doubt("a3", "bad-field", None, 6, 10, 16, 1),
)
"""The doubts about an agent that votes, one that is muted, and one that nobody can read."""
DOUBTFUL: dict[str, Any] = {
    "detail": None,
    "doubt": "purged",
    "detail_fault": "bad-field",
    "flap": Flap("down", 5, 15, again=True),
}
"""What may be said of a vote."""

some = settings(max_examples=examples(25), deadline=None, derandomize=True)


# ---- states --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        replace(RECORD, previous=None, votes=(), pending=None, override=None, answer=None),
        replace(RECORD, unconfirmed=False, unconfirmed_reason=None),
        replace(RECORD, disputed="down"),
        replace(RECORD, votes=(replace(RECORD.votes[0], silent=8, muted=Muted(None, "ed")),)),
        replace(RECORD, votes=(replace(RECORD.votes[0], doubt="clock-ahead"),)),
        replace(RECORD, votes=(replace(RECORD.votes[0], detail=None, detail_fault="too-large"),)),
        replace(RECORD, votes=(replace(RECORD.votes[0], flap=Flap("down", 5, 15, again=True)),)),
        replace(RECORD, votes=(replace(RECORD.votes[0], **DOUBTFUL),), doubts=DOUBTS),
    ],
)
def test_a_state_record_round_trips(record):
    key, value = record.asset.encode(), encode_state(record)
    assert decode_state(key, value, encode_headers(record)) == record
    assert state_of_json(value) == record


VOTE = RECORD.votes[0]


@pytest.mark.parametrize("detail", [DETAIL, "{}", f'{{"x":{"[" * 290}{"]" * 290}}}'])
def test_the_detail_of_a_vote_stands_in_the_record_as_it_came(detail):
    record = replace(RECORD, votes=(VOTE, replace(VOTE, agent="b", detail=detail)))
    value = encode_state(record)
    assert f'"weight":9,"detail":{detail}}}],"pending"'.encode() in value
    assert json.loads(value)["votes"][1]["detail"] == json.loads(detail)
    assert state_of_json(value) == record


def test_the_bytes_of_a_state_record():
    record = replace(RECORD, votes=(replace(VOTE, detail=None), replace(VOTE, detail='{"n": 1}')))
    vote = (
        '{"agent":"a1","state":"up","reported_at":5,"time":6,"offset":7,"expires":8,"weight":9,'
        '"detail":'
    )
    assert encode_state(record).decode() == (
        '{"asset":"ü/10.0.0.0%2F8","state":"down","previous":"up","since":900,"unconfirmed":true,'
        '"unconfirmed_reason":"1 of 2 voters",'
        '"version":"1.42.0","cause":{"type":"set","partition":3,"offset":42,"time":1000,'
        f'"agent":null,"user":"olga","command":"{ID}"}},'
        f'"votes":[{vote}null}},{vote}{{"n": 1}}}}],'
        '"pending":{"state":"up","since":900,"due":1900},'
        '"override":{"state":"down","until":5000,"user":"olga","reason":"seen",'
        f'"command":"{ID}","since":1000,"underlying":"up"}},'
        f'"answer":{{"command":"{ID}","outcome":"refused: until: expected Unix milliseconds"}}}}'
    )


def test_the_bytes_of_doubts_stand_where_there_are_some():
    record = replace(RECORD, votes=(replace(VOTE, **DOUBTFUL),), doubts=DOUBTS)
    text = encode_state(record).decode()
    assert (
        '"detail":null,"doubt":"purged","detail_fault":"bad-field",'
        '"flapping":{"state":"down","time":5,"until":15}}],"pending"'
    ) in text
    assert (
        '"doubts":[{"agent":"a1","reason":"contradiction","said":"down","time":6,"offset":8,'
        '"until":16,"weight":9},{"agent":"a2","reason":"unknown-state","said":"'
    ) in text
    assert '"weight":0,"muted":{"until":99,"user":"ed"}},{"agent":"a3"' in text
    assert '"reason":"bad-field","said":null,"time":6,"offset":10' in text
    once = replace(RECORD, votes=(replace(VOTE, flap=Flap("down", 5, 15)),))
    assert encode_state(once) == encode_state(RECORD)
    for word in (b"doubt", b"flap", b"fault"):
        assert word not in encode_state(RECORD)


@pytest.mark.parametrize(
    ("changed", "there"),
    [
        ({"unconfirmed": False, "unconfirmed_reason": None}, ""),
        ({}, '"unconfirmed_reason":"1 of 2 voters",'),
        ({"disputed": "down"}, '"unconfirmed_reason":"1 of 2 voters","disputed":"down",'),
    ],
)
def test_the_marks_stand_between_unconfirmed_and_version_where_they_are(changed, there):
    record = replace(RECORD, **changed)
    mark = "true" if record.unconfirmed else "false"
    assert f'"unconfirmed":{mark},{there}"version":' in encode_state(record).decode()


def test_a_silent_vote_says_since_when_and_a_live_one_says_nothing():
    votes = (replace(VOTE, detail=None), replace(VOTE, agent="b", detail=None, silent=70))
    written = encode_state(replace(RECORD, votes=votes)).decode()
    assert '"weight":9,"detail":null},{"agent":"b"' in written
    assert '"weight":9,"detail":null,"silent":70}]' in written


def test_a_record_of_an_earlier_release_is_still_read():
    """It had no marks but `unconfirmed`."""
    plain = json.loads(encode_state(RECORD))
    del plain["unconfirmed_reason"]
    read = state_of_json(json.dumps(plain, ensure_ascii=False))
    assert (read.unconfirmed, read.unconfirmed_reason, read.disputed) == (True, None, None)


@pytest.mark.parametrize("record", [TOMBSTONE, replace(TOMBSTONE, answer=Answer(ID, "no-change"))])
def test_a_tombstone_lives_in_its_headers(record):
    assert decode_state(record.asset.encode(), None, encode_headers(record)) == record


def test_the_headers_of_a_record_name_version_command_and_outcome():
    assert encode_headers(replace(RECORD, answer=None)) == (("version", b"1.42.0"),)
    headers = dict(encode_headers(replace(TOMBSTONE, answer=Answer(ID, "applied"))))
    assert list(headers) == ["version", "command", "outcome", "cause"]
    assert (headers["command"], headers["outcome"]) == (ID.encode(), b"applied")


def test_the_fields_of_a_state_record_always_stand_in_the_same_order():
    fields = (
        "asset state previous since unconfirmed unconfirmed_reason disputed version cause votes "
        "pending override answer"
    )
    assert list(json.loads(encode_state(replace(RECORD, disputed="down")))) == fields.split()
    cause = "type partition offset time agent user command"
    assert list(json.loads(encode_state(RECORD))["cause"]) == cause.split()


@some
@given(histories())
def test_whatever_the_fold_emits_round_trips(history: History) -> None:
    for record in play(history.bucket(), history.entries):
        if isinstance(record, DeadLetter):
            continue
        value = encode_state(record) if isinstance(record, StateRecord) else None
        read = decode_state(record.asset.encode(), value, encode_headers(record))
        assert as_carried(read) == as_carried(record)


def as_carried(record: StateRecord | Tombstone) -> StateRecord | Tombstone:
    """Without what a record does not carry: the order of votes in time, what they claimed, how old
    they were, and that one turned worse once."""
    if isinstance(record, Tombstone):
        return record
    votes = [replace(vote, order=0, age=0, claimed=0, flap=vote.flapping) for vote in record.votes]
    return replace(record, votes=tuple(votes))


def damaged(**fields: Any) -> bytes:
    return msgspec.json.encode({**json.loads(encode_state(RECORD)), **fields})


WRITTEN_DOUBT = json.loads(encode_state(replace(RECORD, doubts=DOUBTS)))["doubts"][0]
WRITTEN_VOTE = json.loads(encode_state(RECORD))["votes"][0]


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"", ()),
        (b"{", ()),
        (b"[]", ()),
        (b"5", ()),
        (b"{}", ()),
        (b"\xff", ()),
        (damaged(version="1.2"), ()),
        (damaged(version=5), ()),
        (damaged(version=None), ()),
        (damaged(cause={}), ()),
        (damaged(cause={"type": "x", "later": 1}), ()),
        (damaged(votes=5), ()),
        (damaged(votes=[5]), ()),
        (damaged(votes=[{}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "muted": "x"}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "silent": "x"}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "doubt": 5}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "doubt": "x" * 41}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "detail_fault": []}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "flapping": "down"}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "flapping": {"state": "down"}}]), ()),
        (damaged(doubts=5), ()),
        (damaged(doubts=[{}]), ()),
        (damaged(doubts=[{**WRITTEN_DOUBT, "said": 5}]), ()),
        (damaged(doubts=[{**WRITTEN_DOUBT, "said": "x" * 65}]), ()),
        (damaged(doubts=[{**WRITTEN_DOUBT, "until": None}]), ()),
        (damaged(unconfirmed_reason=5), ()),
        (damaged(disputed=[]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "detail": "{}"}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "detail": []}]), ()),
        (damaged(votes=[{**WRITTEN_VOTE, "detail": False}]), ()),
        (encode_state(RECORD).replace(b'"detail":{', b'"detail":{\xff'), ()),
        (damaged(pending=5), ()),
        (damaged(override="x"), ()),
        (damaged(answer=[1]), ()),
        (None, ()),
        (None, (("version", b"1.2.3"),)),
        (None, (("version", None), ("cause", b"{}"))),
        (None, (("version", b"1.2.3"), ("cause", b"null"))),
        (None, (("version", b"\xff"), ("cause", encode_headers(TOMBSTONE)[-1][1]))),
        (None, (*encode_headers(TOMBSTONE), ("command", b"x"))),
    ],
)
def test_a_record_that_is_none_of_ours_is_refused(value, headers):
    with pytest.raises(UnreadableState, match="states record of b'shop'"):
        decode_state(b"shop", value, headers)


# ---- dead letters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"shop", b"{", ()),
        (None, None, ()),
        (b"\xff", b"", (("trace", b"\x00\xff"), ("trace", b"2"), ("reason", b"mine"))),
    ],
)
def test_a_dead_letter_round_trips_with_headers_as_they_came(key, value, headers):
    dead = DeadRecord("not-json", "net.reports", 3, 42, 1000, key, value, headers)
    assert decode_dead_letter(*encode_dead_letter(dead)) == dead


def test_a_dead_letter_keeps_the_first_64_kib():
    dead = DeadRecord("too-large", "net.reports", 3, 42, 1000, b"k", b"x" * (MAX_DEAD_VALUE + 1))
    assert decode_dead_letter(*encode_dead_letter(dead)).value == b"x" * 65_536


def test_a_record_that_is_no_dead_letter_is_refused():
    with pytest.raises(KeyError):
        decode_dead_letter(b"k", b"v", ())


# ---- the job -------------------------------------------------------------------------------

LATE = LatenessReport("w1", late=1, silent=2, rare=3, age=4000)
DOUBTED = LatenessReport("w2", refused=4, doubtful=5, detail=6, ahead=301_000)
HEARTBEAT = Heartbeat("net/3", "net", 3, 1, "w1", "host", 5, 6, 7, 8, 9, 10, 11, "python", 12)


@pytest.mark.parametrize(
    ("record", "decode"),
    [
        (HEARTBEAT, decode_heartbeat),
        (
            msgspec.structs.replace(HEARTBEAT, late=1, silent=2, agents=(LATE, DOUBTED)),
            decode_heartbeat,
        ),
        (QueryReport("q", 5, "running", 1, "fine", 2, {"rows": [1.5]}), decode_progress),
        (QueryReport("q", 5, "failed", 1), decode_progress),
        (Control("id", "q", "reload"), decode_control),
    ],
)
def test_job_records_round_trip(record, decode):
    assert decode(encode(record)) == record
    later = {**json.loads(encode(record)), "later": 1}
    assert decode(json.dumps(later).encode()) == record


@pytest.mark.parametrize("decode", [decode_heartbeat, decode_progress, decode_control])
@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"{}", b"\xff", b'{"action":"dance"}'])
def test_what_is_no_job_record_is_refused(decode, value):
    with pytest.raises(UnreadableJobRecord):
        decode(value)


def test_a_bucket_is_named_by_scenario_and_partition():
    assert bucket_name("net", 3) == "net/3"


# ---- the fold's own state ------------------------------------------------------------------


@some
@given(histories())
def test_assets_and_buckets_round_trip(history: History) -> None:
    bucket = history.bucket()
    for entry in history.entries:
        play(bucket, [entry])
        for asset in bucket.assets.values():
            assert load_asset(dump_asset(asset)) == asset
    copy = load_bucket(dump_bucket(bucket), 9)
    assert (copy.epoch, copy.partition, copy.scenario) == (9, bucket.partition, bucket.scenario)
    assert (copy.assets, copy.clock, copy.offset) == (bucket.assets, bucket.clock, bucket.offset)
    assert (copy.live, len(copy.timer_index)) == (bucket.live, len(bucket.timer_index))


def test_the_first_byte_is_the_codecs_version():
    assert dump_asset(Asset())[0] == dump_bucket(seeded(1).bucket())[0] == CODEC


@pytest.mark.parametrize("version", [0, CODEC - 1, CODEC + 1, 255])
def test_an_unknown_codec_version_is_refused(version):
    data = bytes([version]) + dump_asset(Asset())[1:]
    with pytest.raises(UnreadableAsset, match=f"expected codec version {CODEC}, got"):
        load_asset(data)


def test_an_asset_keeps_its_doubts_and_those_of_its_votes():
    votes = {
        "a1": replace(VOTE, **DOUBTFUL),
        "w2": replace(VOTE, agent="w2", flap=Flap("down", 5, 15)),
        "w3": replace(VOTE, agent="w3", silent=8, muted=Muted(9, "ed"), doubt="clock-back"),
    }
    doubts = {doubt.agent: doubt for doubt in DOUBTS}
    asset = Asset(state="up", shown="up", votes=votes, doubts=doubts, settled=77)
    assert load_asset(dump_asset(asset)) == asset


def test_a_bucket_keeps_what_makes_its_agents_doubted():
    plain = {
        "name": "n", "states": [{"name": "bad"}, {"name": "good"}], "rule": {"kind": "latest"},
        "vote_lifetime": 60_000, "fold": 5,
    }  # fmt: skip
    bucket = Bucket(scenario_from_plain(plain), 0, 1)
    records: tuple[Record, ...] = (
        Report("a", "w1", "good"),
        Report("a", "w2", "good", 1_000_000, ahead=999_000, detail_fault="too-large"),
        RefusedReport("a", "w1", None, "bad-field"),
        Report("a", "w3", "odd"),
        Report("b", "w1", "good"),
    )
    for offset, record in enumerate(records):
        bucket.apply(record, offset, 1_000 + offset)
    read = load_bucket(dump_bucket(bucket), 1)
    assert read.assets == bucket.assets
    assert {doubt.said for doubt in read.assets["a"].doubts.values()} == {None, "odd"}
    assert read.assets["a"].votes["w2"].doubt == "clock-ahead"
    assert (read.assets["a"].settled, read.assets["b"].settled) == (None, 1_004)
    assert len(read.timer_index) == len(bucket.timer_index)


def test_a_bucket_keeps_its_mutes_and_the_marks_of_votes():
    bucket = seeded(4).bucket()
    mutes = [Mute("w1", None, "olga", "wild", "id"), Mute("w2", 10**15, "ed", "", "id")]
    bucket.apply(Report("a", "w1", "bad"), 1, 10)
    for offset, mute in enumerate(mutes, start=2):
        bucket.apply(mute, offset, 20)
    read = load_bucket(dump_bucket(bucket), 1)
    assert list(read.mutes.values()) == mutes
    assert read.assets == bucket.assets
    assert read.assets["a"].votes["w1"].muted == Muted(None, "olga")


BODY = dump_asset(Asset())[1:]
SHORTER = msgspec.msgpack.encode(msgspec.msgpack.decode(BODY)[:-1])


@pytest.mark.parametrize(
    "body", [b"", b"\xc0", b"\x05", b"\x90", b"\xc1", BODY[:-1], BODY + b"\x00", SHORTER]
)
@pytest.mark.parametrize("load", [load_asset, lambda data: load_bucket(data, 1)])
def test_damaged_state_is_refused(load, body):
    with pytest.raises(UnreadableAsset):
        load(bytes([CODEC]) + body)


def test_no_state_is_refused():
    with pytest.raises(UnreadableAsset):
        load_asset(b"")


# ---- partitions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas_own(key, signed):
    """The vectors of Kafka's own UtilsTest."""
    assert murmur2(key) == signed & 0xFFFFFFFF
    assert partition_of(key, 1000) == (signed & 0x7FFFFFFF) % 1000


@some
@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_partition_is_one_of_the_topics(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


# ---- topics --------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "two."])
def test_topic_names_take_the_prefix(prefix):
    topics = Topics(prefix)
    assert topics.reports("net") == f"{prefix}net.reports"
    assert topics.states("net") == f"{prefix}net.states"
    others = (topics.dead_letters, topics.buckets, topics.progress, topics.control, topics.results)
    names = ("dead-letters", "job.buckets", "job.progress", "job.control", "job.results")
    assert others == tuple(prefix + name for name in names)


def test_the_scenario_of_a_topic():
    topics = Topics("two.")
    assert topics.scenario_of("two.net.reports") == "net"
    assert topics.scenario_of("two.net.states") == "net"
    for name in ("net.states", "two.dead-letters", "two.job.buckets", "one.net.reports"):
        assert topics.scenario_of(name) is None


def test_topics_are_made_as_the_design_asks():
    states = [{"name": "up"}]
    plain = {"name": "net", "partitions": 7, "states": states, "rule": {"kind": "latest"}}
    specs = {spec.name: spec for spec in Topics().specs([scenario_from_plain(plain)])}
    assert specs["net.reports"].partitions == specs["net.states"].partitions == 7
    assert specs["net.reports"].config["message.timestamp.type"] == "LogAppendTime"
    assert specs["net.reports"].config["cleanup.policy"] == "delete"
    week = str(7 * 24 * 3600 * 1000)
    assert specs["net.states"].config == {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": week,
        "delete.retention.ms": week,
        "compression.type": "uncompressed",
        "max.message.bytes": "1048588",
    }
    policies = {name: spec.config["cleanup.policy"] for name, spec in specs.items()}
    assert policies["job.buckets"] == "compact"
    assert policies["dead-letters"] == policies["job.progress"] == policies["job.control"]
    assert policies["dead-letters"] == policies["job.results"] == "delete"
    assert len(specs) == 9


@some
@given(scenarios())
def test_every_scenario_has_its_two_topics(scenario: Scenario) -> None:
    names = [spec.name for spec in Topics("p-").specs([scenario])]
    assert len(set(names)) == len(names) == 9
