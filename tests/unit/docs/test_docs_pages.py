"""Every page: how wide and how long it may be, and that its links lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.targets import anchor
from support.run.stack import ROOT

WIDEST = 130
"""Characters of a line, in tables and examples too."""
MOST_WORDS = 49_250
"""Of all pages together. A word has a letter or a digit, so that a table's bars are none."""
MOST_WORDS_OF_THE_CHANGELOG = 660

OF_THE_ROOT = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
COUNTED = ("README", "CHANGELOG")
PAGES = [*(ROOT / f"{name}.md" for name in OF_THE_ROOT), *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
WORDY = re.compile(r"\w")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The names by which links find a page's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text_of(page)), re.MULTILINE)
    return {anchor(heading) for heading in headings}


@pytest.mark.parametrize("document", PAGES, ids=lambda document: document.name)
def test_no_line_is_wider_than_a_screen(document: Path) -> None:
    heading, wide = "", []
    for number, line in enumerate(text_of(document).splitlines(), 1):
        heading = line if line.startswith("## ") else heading
        if len(line) > WIDEST:
            wide.append(number)
    assert wide == []


def test_the_pages_are_no_longer_than_somebody_reads() -> None:
    words = {
        page.name: sum(map(bool, map(WORDY.search, text_of(page).split())))
        for page in PAGES
        if page.parent != ROOT or page.stem in COUNTED
    }
    assert sum(words.values()) <= MOST_WORDS, words
    assert words["CHANGELOG.md"] <= MOST_WORDS_OF_THE_CHANGELOG


@pytest.mark.parametrize("document", PAGES, ids=lambda document: document.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in LINK.findall(FENCED.sub("", text_of(document))):
        if "://" in link:
            continue
        path, _, name = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (name and name not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_readme_lists_every_page_once() -> None:
    """In its index, which is by reader."""
    index = text_of(ROOT / "README.md").partition("## Documentation")[2]
    listed = Counter(link for link in LINK.findall(index) if link.startswith("docs/"))
    assert listed == Counter(f"docs/{page.name}" for page in PAGES if page.parent != ROOT)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_the_files_that_a_guide_names_are_there(name: str) -> None:
    named = re.findall(r"`((?:[\w.-]+/)*[\w-]+(?:\.\w+|/))`", text_of(ROOT / name))
    named += re.findall(r"`((?:[\w.-]+/)+[\w.-]+)`", text_of(ROOT / name))
    paths = {each for each in named if not each.startswith(("dist/", ".data", "python"))}
    assert len(paths) > (0 if name == "SECURITY.md" else 30)
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_a_version_is_told_in_one_way() -> None:
    """By the project, by the kernel's project, and as the newest section of the changelog."""
    version = re.findall(r'^version = "(.+)"$', text_of(ROOT / "pyproject.toml"), re.MULTILINE)
    kernel = text_of(ROOT / "streaming" / "kernel" / "pom.xml")
    sections = re.findall(r"^## (\S+)", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert version == sections[:1]
    assert f"<artifactId>kernel</artifactId>\n  <version>{version[0]}</version>" in kernel
