"""Each reason for which anything writes a dead letter is of the closed list, and each topic has a
known status for what nobody can read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pytest

from dashboard.operate.dead_letters.diagnosis import ADVICE, Sample, fault_of
from dashboard.operate.dead_letters.models import DeadLetter
from domain.records import DEAD_LETTER_REASONS, LETTER_REASONS, SCHEMA_MISMATCH, SET_ASIDE
from support.kafka.refused_records import (
    OF_PIPELINE,
    OUTCOMES,
    Counted,
    Letter,
    all_topics,
    outcomes,
    readers,
)
from support.run.stack import ROOT
from wire.signature import FAULTS
from wire.sink import MAX_DEAD_VALUE

FOLDERS = (
    "agents",
    "bus",
    "dashboard",
    "domain",
    "ops",
    "pipelines",
    "stores",
    "streaming",
    "wire",
)
REFUSING = {"DeadLetter", "DeadRecord", "Unreadable"}
"""What is made with a reason first."""
WRITERS = {
    "streaming/fold/processor.py": set(DEAD_LETTER_REASONS),
    "streaming/state/quarantine.py": {SET_ASIDE},
    "streaming/requests/queue.py": set(FAULTS),
    "streaming/pipelines/records.py": {SCHEMA_MISMATCH},
}
"""The modules that write dead letters, and for which reasons; the kernel's are compared with the
fold's in test_kernel_mirror.py."""
MARK = "source-offset"
"""A header that every dead letter has."""


def modules() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def reason(node: ast.expr, path: Path) -> str | None:
    """The text that an expression stands for where it is one of the module's own constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.Name):
        return None
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    constant = getattr(module, node.id, None)
    return constant if isinstance(constant, str) else None


def expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """What is given as a reason: to a refusal, or as the header of a dead letter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in REFUSING and node.args:
                yield node.args[0]
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "reason" and not is_column(value):
                    yield value.args[0] if isinstance(value, ast.Call) else value


def is_column(value: ast.expr) -> bool:
    """Whether it is the name of the column, in an order of rows."""
    return isinstance(value, ast.Constant) and value.value == "reason"


def test_every_reason_that_any_code_names_is_of_the_closed_list() -> None:
    named: dict[str, str] = {}
    for path in modules():
        text = path.read_text()
        if not any(f"from {module} import" in text for module in ("domain.records", "wire.sink")):
            continue  # else it has nothing to refuse with
        for node in expressions(ast.parse(text)):
            if (word := reason(node, path)) is not None:
                named[f"{path.relative_to(ROOT)}:{node.lineno}"] = word
    assert {place: word for place, word in named.items() if word not in LETTER_REASONS} == {}
    assert {SET_ASIDE, SCHEMA_MISMATCH, "unsigned", "bad-time", "not-json"} <= set(named.values())


def test_whatever_writes_dead_letters_is_known() -> None:
    writers = {
        str(path.relative_to(ROOT))
        for path in modules()
        if "encode_dead_letter(" in (text := path.read_text()) or f'"{MARK}"' in text
    }
    assert writers == {*WRITERS, "wire/sink.py"}
    assert set().union(*WRITERS.values()) == set(LETTER_REASONS)


def test_every_reason_fits_its_column_and_is_put_into_words() -> None:
    longest = DeadLetter._meta.get_field("reason").max_length
    assert longest is not None
    assert all(len(each) <= longest for each in LETTER_REASONS)
    assert all(ADVICE[each].means and ADVICE[each].todo for each in LETTER_REASONS)


@pytest.mark.parametrize(
    ("value", "words", "span"),
    [
        (b'{"invoice": ', "expected", True),
        (b"\xff\xfe", "UTF-8", True),
        (b"", "JSON", False),
        (None, "expected", False),
        (b'{"invoice": 1}', "does not fit the schema of a pipeline", False),
        (b"[1, 2]", "does not fit the schema of a pipeline", False),
        (b"{" * MAX_DEAD_VALUE, "only these were kept|does not fit", False),
    ],
)
def test_a_mismatch_is_told_at_its_byte_where_it_is_no_json(value, words, span) -> None:
    fault = fault_of(SCHEMA_MISMATCH, Sample(b"store", value, 0, 0), None)
    assert any(each in fault.text for each in words.split("|"))
    if span:
        assert fault.where == "value"
        assert fault.span is not None


# ---- topics --------------------------------------------------------------------------------------


def test_each_topic_has_a_fate_for_what_nobody_can_read() -> None:
    topics = all_topics()
    assert [topic for topic in sorted(topics) if not outcomes(topic)] == []
    assert [name for name in OUTCOMES if not any(fnmatchcase(t, name) for t in topics)] == []


def test_each_pipeline_that_reads_a_topic_has_its_fate_there() -> None:
    for topic in sorted(all_topics()):
        for pipeline, letters in readers(topic):
            expected = Letter(SCHEMA_MISMATCH) if letters else Counted(OF_PIPELINE, pipeline.name)
            assert expected in outcomes(topic), f"{topic}, read by {pipeline.name}"
