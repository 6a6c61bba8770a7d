"""The commands of docs/kafka.md, run in their order, print what the page says that they print."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from config.settings import PREFIX
from support.run.snippets import ROOT, SHELL, Snippet, all_blocks
from support.run.stack import EmbeddedBroker

PAGE = "docs/kafka.md"
BLOCKS = [block for block in all_blocks() if block.file == PAGE]
LONGEST_S = 120


def shapes(text: str) -> set[str]:
    """The lines without what differs from run to run: numbers, times and the width of columns."""
    return {" ".join(re.sub(r"\d+", "N", line).split()) for line in text.splitlines() if line}


def printed(command: Snippet, environment: dict[str, str]) -> str:
    """What a block prints, and what it ends with; logs are left out."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.text],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stderr}"
    errors = [line for line in done.stderr.splitlines() if line.startswith("CommandError")]
    return "\n".join([done.stdout, *errors])


def test_every_command_of_the_page_has_its_output() -> None:
    languages = ["sh" if block.language in SHELL else block.language for block in BLOCKS]
    assert languages == ["sh", "text"] * (len(BLOCKS) // 2)
    assert len(BLOCKS) >= 16


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_docs_kafka.py::"
    "test_every_command_of_the_page_has_its_output"
)
def test_the_commands_print_what_the_page_says(broker: EmbeddedBroker, tmp_path: Path) -> None:
    kept = {key: text for key, text in os.environ.items() if not key.startswith(PREFIX)}
    own = {f"{PREFIX}DATA_DIR": str(tmp_path / "data"), f"{PREFIX}KAFKA_PORT": str(broker.port)}
    for command, said in zip(BLOCKS[::2], BLOCKS[1::2], strict=True):
        text = printed(command, kept | own)
        assert shapes(said.text) <= shapes(text), f"{command}:\n{text}"
