"""What whoever may write a topic can and cannot do: the lines of docs/security.md, each tried."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from domain.fold import Bucket
from domain.records import DeadLetter, Emission, Report, StateRecord
from domain.scenario import FOLD, Scenario
from domain.scenario_parser import load_scenarios, scenario_from_plain
from wire.keys import Key, Ring
from wire.partitioner import partition_of
from wire.signature import Trust
from wire.source import decode_placed, encode_report
from wire.topics import Topics

ROOT = Path(__file__).parents[3]
NOW = 1_790_000_000_000
MINUTE = 60_000
TOPIC = "sites.reports"
TRUST = Trust(TOPIC, lambda: Ring((Key("k", "a secret that nobody guesses 0123456789"),)))
ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55"
RULE = {
    "partitions": 2,
    "vote_lifetime": 10 * MINUTE,
    "min_voters": {"lower": 2, "raise": 1},
    "commands": "signed",
    "states": [{"name": "attack"}, {"name": "clear"}],
    "rule": {
        "kind": "quorum",
        "ladder": [{"state": name, "more_than": "1/2"} for name in ("attack", "clear")],
    },
    "holds": {"clear": MINUTE},
}
SHOP = b"shop.example"


@pytest.fixture
def log() -> Log:
    return Log(scenario_from_plain(RULE | {"name": "sites", "fold": FOLD}))


class Log:
    """A partition of reports that anybody may write, and what the fold makes of it."""

    def __init__(self, rule: Scenario) -> None:
        self.partition = partition_of(SHOP, rule.partitions)
        self.bucket, self.partitions = Bucket(rule, self.partition, 1), rule.partitions
        self.offset, self.now = -1, NOW

    def write(self, value: bytes, key: bytes | None = SHOP) -> list[Emission]:
        """Append a record: the broker stamps it, whatever it says."""
        self.offset += 1
        placed = decode_placed(key, value, self.now, self.partition, self.partitions, TRUST)
        return self.bucket.apply(placed, self.offset, self.now)

    def say(self, agent: str, state: str, **more: object) -> list[Emission]:
        value = json.dumps({"type": "report", "agent": agent, "state": state, **more}).encode()
        return self.write(value)

    def state(self) -> str | None:
        asset = self.bucket.assets.get(SHOP.decode())
        return None if asset is None else asset.shown

    def record(self) -> StateRecord:
        """The asset's next record: an agent of its own makes it told."""
        records = [out for out in self.say("teller", "clear") if isinstance(out, StateRecord)]
        return records[-1]


def red(log: Log) -> None:
    log.say("waf-1", "attack")
    log.say("waf-2", "attack")
    assert log.state() == "attack"


# ---- <scenario>.reports: can ---------------------------------------------------------------------


def test_can_report_as_any_agent_and_so_make_a_state(log: Log) -> None:
    red(log)
    for agent in ("waf-1", "waf-2"):
        log.say(agent, "clear")
    log.now += 2 * MINUTE
    log.write(b'{"type":"tick"}', None)
    assert log.state() == "clear"


def test_can_have_an_agent_doubted(log: Log) -> None:
    for agent in ("waf-1", "waf-2"):
        log.say(agent, "clear")
    log.say("waf-1", "a word that nobody knows")
    record = log.record()
    assert [doubt.agent for doubt in record.doubts] == ["waf-1"]
    assert record.disputed == "a word that nobody knows"


# ---- <scenario>.reports: cannot ------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["set", "vote", "release", "purge", "schedule", "cancel"])
def test_cannot_command(log: Log, type_: str) -> None:
    red(log)
    command = {"type": type_, "id": ID, "user": "olga", "state": "clear", "do": "purge"}
    assert log.write(json.dumps(command | {"after": 1000, "task": ID}).encode()) == [
        DeadLetter("unsigned")
    ]
    assert log.state() == "attack"


@pytest.mark.parametrize("type_", ["mute", "unmute", "scenario"])
def test_cannot_mute_nor_change_the_rule(log: Log, type_: str) -> None:
    red(log)
    record = {
        "type": type_,
        "id": ID,
        "user": "olga",
        "agent": "waf-1",
        "scenario": RULE | {"name": "sites"},
    }
    assert log.write(json.dumps(record).encode(), None) == [DeadLetter("unsigned")]
    assert log.state() == "attack"


def test_cannot_turn_red_to_green_by_silence(log: Log) -> None:
    """Neither by withdrawing votes, nor by taking time forward: that is the broker's."""
    red(log)
    for agent in ("waf-1", "waf-2"):
        log.write(json.dumps({"type": "leave", "agent": agent}).encode())
    for _ in range(50):
        log.write(json.dumps({"type": "tick", "time": NOW + 10**9}).encode(), None)
    assert log.bucket.clock == NOW
    log.now += 3 * MINUTE
    log.write(b'{"type":"tick"}', None)
    assert log.state() == "attack"


def test_cannot_turn_red_to_green_with_what_is_refused_or_in_doubt(log: Log) -> None:
    red(log)
    for agent in ("waf-1", "waf-2", "waf-3", "waf-4", "waf-5"):
        log.say(agent, "clear", reported_at=NOW + 10 * MINUTE)
        log.say(agent, "clear", reported_at=-1)
        log.say(agent, "claer")
    log.now += 2 * MINUTE
    log.write(b'{"type":"tick"}', None)
    assert log.state() == "attack"


def test_cannot_write_to_another_partition(log: Log) -> None:
    """What a producer with another partitioner sends concerns no asset here, and stops nothing."""
    red(log)
    elsewhere = next(
        name
        for name in (f"site-{n}".encode() for n in range(100))
        if partition_of(name, log.partitions) != log.partition
    )
    value = encode_report(Report("", "waf-1", "clear"))
    for _ in range(100):
        assert log.write(value, elsewhere) == []
    assert elsewhere.decode() not in log.bucket.assets
    assert log.state() == "attack"
    assert not log.record().doubts


def test_cannot_pose_as_an_operator(log: Log) -> None:
    red(log)
    assert log.say("user:olga", "clear") == [DeadLetter("bad-agent")]


def test_cannot_evict_who_says_worse(log: Log) -> None:
    red(log)
    for number in range(400):
        log.say(f"stranger-{number}", "clear")
    record = log.record()
    assert record.disputed == "attack" or record.state == "attack"
    assert {vote.agent for vote in record.votes if vote.state == "attack"} == {"waf-1", "waf-2"}


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff\xfe", b"null", b"[]", b"{", b'{"type":"x"}', b"9" * 70_000, b'{"a":' * 900],
    ids=lambda value: value[:6].hex() or "empty",
)
def test_cannot_stop_the_job_with_bytes(log: Log, value: bytes) -> None:
    red(log)
    [letter] = log.write(value)
    assert isinstance(letter, DeadLetter)
    assert log.state() == "attack"


# ---- the page ------------------------------------------------------------------------------------


def test_the_page_names_every_topic_and_who_writes_it() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = text[text.index("### Writers of a topic") :].partition("\n## ")[0]
    headed = re.findall(r"(?:`[a-z<>.-]+`,? )+(?=\([^)]+\):)", section.replace("\n ", ""))
    lines = {name for heading in headed for name in re.findall(r"`([^`]+)`", heading)}
    topics = Topics()
    made = {spec.name for spec in topics.specs(load_scenarios(ROOT / "scenarios.toml").values())}
    made = {re.sub(r"^[a-z]+(?=\.(reports|states)$)", "<scenario>", name) for name in made}
    own = {value for name, value in vars(topics).items() if name != "prefix"}
    rest = own - {topics.leader_group}
    assert (made | rest) <= lines
