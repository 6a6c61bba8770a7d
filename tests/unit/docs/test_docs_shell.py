"""Commands in the documents: every block is run or says why not, and every name in them is one."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

import pytest
from django.core.management import get_commands, load_command_class

from config.settings import PREFIX, SECRETS, Settings
from support.run.snippets import (
    MARK,
    SHELL,
    Snippet,
    all_blocks,
    blocks,
    documents,
    reason,
    shell_blocks,
)

ROOT = Path(__file__).resolve().parents[3]
MARKED = [each for each in shell_blocks() if each.reason]
PLACEHOLDERS = {"ID": str(UUID(int=1))}
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def inline(beginning: str) -> list[tuple[str, list[str]]]:
    """Commands between backquotes that begin so: the document's name, and the words after it."""
    return [
        (path.name, shlex.split(code.removeprefix(".venv/bin/python ").removeprefix(beginning)))
        for path in documents()
        for code in INLINE.findall(path.read_text(encoding="utf-8"))
        if code.removeprefix(".venv/bin/python ").startswith(beginning)
    ]


def targets() -> set[str]:
    """Return what `make` knows."""
    asked = ["make", "-npRrq", "help"]
    output = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"^([a-z][a-z-]*):", output, re.MULTILINE))


def test_a_block_is_found_with_its_indent_and_its_mark() -> None:
    marked = "1. so:\n   <!-- not run: needs docker -->\n   ```sh\n   a\n     b\n   ```\n"
    text = f"{marked}```toml\n[x]\n```\n"
    shell, toml = blocks(text, "some.md")
    assert (shell.text, shell.language, shell.reason) == ("a\n  b", "sh", "needs docker")
    assert (toml.text, toml.reason) == ("[x]", "")


@pytest.mark.parametrize("line", ["<!-- not run: -->", "<!-- not run -->", "not run: x", ""])
def test_a_mark_has_a_reason(line: str) -> None:
    assert reason(line) == ""


def test_every_mark_is_of_a_shell_block() -> None:
    """A stale mark is one that no block follows, or one without a reason."""
    marks = sum(path.read_text(encoding="utf-8").count(MARK) for path in documents())
    assert marks == len(MARKED)


def test_a_block_names_its_language() -> None:
    """Else a block of commands could go by unseen."""
    pictures = "docs/architecture.md"
    assert [str(each) for each in all_blocks() if not each.language and each.file != pictures] == []
    looks = re.compile(
        r"^(make|curl|manage\.py|\.venv/bin/|docker|pip|git|python3?) ", re.MULTILINE
    )
    others = [each for each in all_blocks() if each.language not in SHELL]
    assert [str(each) for each in others if looks.search(each.text)] == []


@pytest.mark.parametrize("block", MARKED, ids=str)
def test_what_is_not_run_is_looked_at(block: Snippet) -> None:
    """The shell can read it, and settings and targets of make in it exist."""
    read = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, check=False)
    assert read.returncode == 0, read.stderr
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    known |= {f"{PREFIX}{name.upper()}_FILE" for name in SECRETS}
    assert set(re.findall(rf"\b{PREFIX}\w+", block.text)) <= known
    asked = {
        words for line in re.findall(r"\bmake ([a-z -]+)", block.text) for words in line.split()
    }
    assert asked <= targets()


def test_every_target_of_make_that_is_named_exists() -> None:
    named = {(file, word) for file, words in inline("make ") for word in words}
    known = targets()
    wrong = [each for each in sorted(named) if "=" not in each[1] and each[1] not in known]
    assert wrong == []
    assert ("README.md", "run") in named


def test_help_names_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    words = set(re.findall(r"[a-z]+(?:-[a-z]+)*", done.stdout))
    assert sorted(targets() - {"environment", "help"} - words) == []


def test_every_management_command_that_is_named_can_be_read() -> None:
    commands = get_commands()
    for file, (name, *words) in inline("manage.py "):
        assert name in commands, f"{file}: manage.py {name}"
        command = load_command_class(commands[name], name)
        parser = command.create_parser("manage.py", name)
        filled = [PLACEHOLDERS.get(word, word) for word in words]
        if filled:
            parser.parse_args(filled)  # ends the test with its message where it cannot


def test_every_module_that_is_named_exists() -> None:
    named = {(file, words[0]) for file, words in inline("python -m ") if "…" not in words[0]}
    assert [each for each in sorted(named) if find_spec(each[1]) is None] == []
    assert ("operations.md", "ops.broker") in named
