"""docs/wire-format.md says what the codec does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from domain.records import (
    CAUSE_TYPES,
    LETTER_REASONS,
    LOG_REPLACED,
    MAX_AHEAD,
    Command,
    Leave,
    Mute,
    Report,
    ScenarioChange,
    StateRecord,
    Tick,
    Unmute,
)
from wire.job import LatenessReport, decode_control, decode_heartbeat, decode_progress, encode
from wire.sink import decode_state, encode_state
from wire.source import MAX_DETAIL, decode_source

DOC = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json (\w+)\n(.*?)```", DOC, re.DOTALL)
SOURCE = {
    "report": Report,
    "leave": Leave,
    "command": Command,
    "tick": Tick,
    "scenario": ScenarioChange,
    "mute": Mute,
    "unmute": Unmute,
}
NOW = 1790000000123


def test_there_is_an_example_of_every_record():
    assert {name for name, _ in EXAMPLES} == {*SOURCE, "state", "progress", "control"}


def test_the_jobs_examples_are_read_and_written():
    texts = dict(EXAMPLES)
    progress = json.loads(texts["progress"])
    assert json.loads(encode(decode_progress(texts["progress"].encode()))) == progress
    assert json.loads(encode(decode_control(texts["control"].encode()))) == (
        json.loads(texts["control"])
    )


@pytest.mark.parametrize(("name", "text"), [e for e in EXAMPLES if e[0] in SOURCE])
def test_source_examples_are_read(name, text):
    assert isinstance(decode_source(b"shop.example", text.encode(), NOW), SOURCE[name])


def test_the_state_example_is_read_and_written():
    text = dict(EXAMPLES)["state"].encode()
    record = decode_state(b"shop.example", text)
    assert isinstance(record, StateRecord)
    assert decode_state(b"shop.example", encode_state(record)) == record


def test_every_dead_letter_reason_is_explained():
    section = DOC[DOC.index("## Dead letters") :]
    assert re.findall(r"^- `([a-z0-9-]+)`: ", section, re.MULTILINE) == list(LETTER_REASONS)


def test_what_makes_a_dead_letter_of_a_report_and_what_does_not_is_told():
    """Each kind of fault stands in the table, in the order in which one hides another."""
    section = DOC[DOC.index("## A report") : DOC.index("## A leave")]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    outcomes = {what: became for what, became in rows if "what is wrong" not in what}
    doubted = [what for what, became in outcomes.items() if became.startswith("a dead letter, and")]
    reasons = [re.findall(r"\(`([a-z-]+)`\)", what) for what in doubted]
    cut, *whole = reasons
    assert cut == ["not-json"]
    assert whole == [["bad-field", "unknown-state"], ["bad-time"], ["unknown-state"]]
    taken = [became for became in outcomes.values() if became.startswith("it is taken")]
    assert len(taken) == 2
    assert f"{MAX_DETAIL:,} bytes" in section
    assert "five minutes ahead" in section
    assert MAX_AHEAD == 5 * 60_000


def test_the_fields_of_an_agents_counts_are_explained():
    (text,) = re.findall(r'```json\n(\{"bucket".*?)```', DOC, re.DOTALL)
    heartbeat = decode_heartbeat(text.encode())
    assert {each.agent for each in heartbeat.agents} == {"waf-7", "scrubber-1"}
    assert json.loads(encode(heartbeat)) == json.loads(text)
    heard = DOC[DOC.index("`job.buckets`, key") : DOC.index("`job.control`, key")]
    listed = re.findall(r"^- `([a-z_]+)`", heard, re.MULTILINE)
    assert set(LatenessReport.__struct_fields__) - {"agent"} <= set(listed)


def test_every_cause_is_named():
    listed = DOC.partition("- `cause.type`:")[2].partition("\n- ")[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) == {*CAUSE_TYPES, LOG_REPLACED}
