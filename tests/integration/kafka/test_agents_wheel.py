"""The package `tallyboard-agents` in an environment of its own: the programs of the documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bus.base import TopicSpec
from domain.records import Report
from support.kafka.brokers import bus_of, log_of
from support.run.snippets import all_blocks
from support.run.stack import EmbeddedBroker
from wire.partitioner import partition_of
from wire.source import decode_source

TOPIC, PARTITIONS = "wheel.attack.reports", 3
NOT_INSTALLED = ("bus", "domain", "wire", "agents", "django", "pydantic", "structlog", "pyspark")


def example(document: str) -> str:
    """Return the one Python program of a document."""
    [block] = [b for b in all_blocks() if b.file == document and b.language == "python"]
    return block.text


def run(python: Path, text: str, folder: Path) -> str:
    """Run a program with what its environment has, and nothing of this checkout."""
    program = folder / "program.py"
    program.write_text(text)
    done = subprocess.run(
        [python, "-I", program],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_else_of_the_product_is_in_the_environment(
    agents_python: Path, tmp_path: Path
) -> None:
    code = (
        "from importlib.util import find_spec\n"
        "import tallyboard_agents\n"
        f"print([name for name in {NOT_INSTALLED} if find_spec(name)])\n"
    )
    assert run(agents_python, code, tmp_path) == "[]\n"


def test_a_report_of_the_documents_program_is_in_the_topic(
    broker: EmbeddedBroker, agents_python: Path, tmp_path: Path
) -> None:
    bus_of(broker).ensure_topics([TopicSpec(TOPIC, PARTITIONS, {})])
    text = example("docs/wire-format.md")
    text = text.replace("localhost:9092", broker.bootstrap).replace("attack.reports", TOPIC)
    assert run(agents_python, text, tmp_path) == "0 reports wait\n"
    [message] = log_of(broker, TOPIC, 1)
    report = decode_source(message.key, message.value, message.timestamp)
    assert isinstance(report, Report)
    assert (report.asset, report.agent, report.state) == ("shop.example", "waf-7", "under-attack")
    assert json.loads(report.detail or "") == {"requests_per_s": 1200}
    assert message.partition == partition_of(b"shop.example", PARTITIONS)
