"""Every page: its links lead somewhere, and the files that it names are there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.targets import anchor
from support.run.stack import ROOT

OF_THE_ROOT = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
PAGES = [*(ROOT / f"{name}.md" for name in OF_THE_ROOT), *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "|".join(
    sorted(path.name for path in ROOT.glob("[a-z]*/") if path.name != "rules")  # users' own
)
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./-]*\w/?|[\w-]+\.(?:toml|md|yml))`")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The names by which links find a page's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text_of(page)), re.MULTILINE)
    return {anchor(heading) for heading in headings}


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


@pytest.mark.parametrize("document", PAGES, ids=lambda document: document.name)
def test_every_file_that_is_named_is_there(document: Path) -> None:
    names = set(FILE.findall(FENCED.sub("", text_of(document))))
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_a_version_is_told_in_one_way() -> None:
    """By the project, by the kernel's project, and as the newest section of the changelog."""
    version = re.findall(r'^version = "(.+)"$', text_of(ROOT / "pyproject.toml"), re.MULTILINE)
    kernel = text_of(ROOT / "streaming" / "kernel" / "pom.xml")
    sections = re.findall(r"^## (\S+)", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert version == sections[:1]
    assert f"<artifactId>kernel</artifactId>\n  <version>{version[0]}</version>" in kernel
