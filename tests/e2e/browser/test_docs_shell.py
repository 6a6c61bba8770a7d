"""Every shell block of README and docs is run against the product, and answers what it says.

Marked blocks are looked at in tests/unit/docs/test_docs_shell.py.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from config.java import find_java
from support.run.snippets import ROOT, Snippet, shell_blocks
from support.run.stack import Stack

LONGEST_S = 120
PASSWORD = "an-olive-tree-by-the-harbour"
ELSEWHERE = {"docs/kafka.md"}
"""Pages whose blocks need an order and topics of their own: tests/integration/kafka runs them."""

RUN = {each.text: each for each in shell_blocks() if not each.reason and each.file not in ELSEWHERE}
"""Blocks to run: one that stands in two places is run once."""

TOLD = {
    ".venv/bin/python manage.py command_keys list": r"[0-9]{8}-[0-9a-f]{6}",
    ".venv/bin/python -m stores --help": r"--store \{disk,memory,redis\}",
    "make target-stop": r"\Atarget is stopped\.\n\Z",
    "TOKEN=$(.venv/bin/python manage.py token operator)": r'"outcome": ?"applied"',
    "TOKEN=$(.venv/bin/python manage.py token operator)\ncurl -X POST": r"It is in the log",
    'curl -X POST -H "Authorization: Bearer $(.venv': r'"outcome": ?"applied"',
    ".venv/bin/python manage.py reconcile": r"no difference|0 differences",
    ".venv/bin/python manage.py createsuperuser": r"Superuser created[\s\S]*is revoked",
    ".venv/bin/python manage.py audit_verify": r"whole|entries",
    "TOKEN=$(.venv/bin/python manage.py token operator --label": r'"connectivity"',
    "kafka-configs.sh": r"Completed updating config for topic attack\.reports",
}
"""What a block prints, by its beginning: the longest that fits counts."""

ASKED = {"Username": "olga", "Email": "", "Password": PASSWORD}
MADE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
"""What a person types when asked."""


def expected(block: Snippet) -> str:
    """What the block is to print. Fails the test where nobody has said."""
    fits = [beginning for beginning in TOLD if block.text.startswith(beginning)]
    assert fits, f"{block}: say in {Path(__file__).name} what it prints, or mark it"
    return TOLD[max(fits, key=len)]


def filled(text: str, product: Stack) -> str:
    """The block with this copy's addresses, and with a token's prefix for the placeholder."""
    listed = ".venv/bin/python manage.py token olga --list"
    ours = {
        "http://127.0.0.1:8000": product.url,
        "kafka-1:9092": product.settings.bootstrap,
        "--revoke PREFIX": f"--revoke $({listed} | head -1 | cut -d' ' -f1)",
    }
    for theirs, own in ours.items():
        text = text.replace(theirs, own)
    return text


@pytest.fixture(scope="module")
def environment(
    product: Stack, tmp_path_factory: pytest.TempPathFactory, jars_dir: Path
) -> dict[str, str]:
    """This copy's settings, and on the path Kafka's own tool, made of the archives at hand."""
    tools = tmp_path_factory.mktemp("tools")
    tool = tools / "kafka-configs.sh"
    java = f'exec {find_java()} -cp "{jars_dir}/broker/*" kafka.admin.ConfigCommand "$@"'
    tool.write_text(f"#!/bin/sh\n{java}\n")
    tool.chmod(0o755)
    # Under `make test` a `make` would take itself for a part of it, and say where it works.
    own = {key: text for key, text in product.environment().items() if key not in MADE}
    return own | {"PATH": f"{tools}{os.pathsep}{own['PATH']}"}


def in_terminal(script: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a script as a person would, who answers what is asked; its exit status and its output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execvpe("bash", ["bash", "-euo", "pipefail", "-c", script], dict(environment))
    deadline, output, answered = time.monotonic() + LONGEST_S, "", 0
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            output += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the other end is closed: it has ended
            break
        question = output[answered:].rpartition("\n")[2]
        if question.rstrip().endswith(":"):
            words = next((text for key, text in ASKED.items() if question.startswith(key)), "")
            os.write(terminal, f"{words}\n".encode())
            answered = len(output)
    else:
        os.kill(pid, 9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.replace("\r\n", "\n")


FIRST = "README.md"
"""Whose blocks a plain run takes."""
FILES = [
    pytest.param(file, marks=() if file == FIRST else pytest.mark.extensive)
    for file in dict.fromkeys(each.file for each in RUN.values())
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", FILES)
def test_the_blocks_of_a_page_do_what_they_say(
    file: str, product: Stack, environment: dict[str, str], tidy: None
) -> None:
    """They run in the page's order, as one may undo what another has done."""
    for block in RUN.values():
        if block.file == file:
            status, output = in_terminal(filled(block.text, product), environment)
            assert status == 0, f"{block}:\n{output}"
            assert re.search(expected(block), output), f"{block}:\n{output}"


@pytest.fixture
def tidy(product: Stack, demo_target: None) -> Iterator[None]:
    """What the blocks leave is put back: the target runs. No pin is left of the drill."""
    yield
    subprocess.run(["make", "target-start"], cwd=ROOT, env=product.environment(), check=True)
    token = product.manage("token", "operator").stdout.strip()
    asset = f"{product.url}/api/v1/scenarios/connectivity/assets/192.0.2.0%2F25"
    answer = httpx.get(asset, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    assert answer.json().get("override") is None


def test_every_expectation_is_of_a_block() -> None:
    """One that fits no block any more is stale."""
    assert [text for text in TOLD if not any(each.startswith(text) for each in RUN)] == []


def test_an_answer_for_programs_stands_alone(product: Stack) -> None:
    """Logs go to standard error, so that what reads a command's answer finds nothing else."""
    done = product.manage("reconcile", "--json")
    assert json.loads(done.stdout)["differences"] == [], done.stderr
