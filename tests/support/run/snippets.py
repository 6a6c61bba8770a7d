"""The shell blocks of README.md and docs/*.md: found, and marked where no test can run them.

A block runs in the browser stage against the whole product, unless the line before it says why
not: `<!-- not run: … -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHELL = ("sh", "bash", "console", "shell")
MARK = "<!-- not run:"
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")
REASON = re.compile(r"^ *<!-- not run: (?P<reason>\S.*?) -->$")


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its file from the root, its first line's number, language, mark and text."""

    file: str
    line: int
    language: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def documents() -> list[Path]:
    """README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str, file: str) -> Iterator[Snippet]:
    """Every fenced block of a document."""
    lines = text.splitlines()
    opened: tuple[int, re.Match[str]] | None = None
    for at, line in enumerate(lines):
        if not (fence := FENCE.match(line)):
            continue
        if opened is None:
            opened = at, fence
            continue
        begun, first = opened
        opened = None
        indent = len(first["indent"])
        inner = "\n".join(each[indent:] for each in lines[begun + 1 : at])
        language = first["info"].split(" ")[0]
        yield Snippet(file, begun + 1, language, reason(lines[begun - 1]), inner)


def reason(line: str) -> str:
    """Return why the block after this line is not run; empty where it is no mark."""
    match = REASON.match(line)
    return match["reason"] if match else ""


def shell_blocks() -> list[Snippet]:
    """Every shell block of every document."""
    return [each for each in all_blocks() if each.language in SHELL]


def all_blocks() -> Iterator[Snippet]:
    """Every fenced block of every document."""
    for path in documents():
        yield from blocks(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
