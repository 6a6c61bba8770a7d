"""docs/tour.md shows every picture that `make pictures` takes, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from ops.pictures import FOLDER
from ops.scenes import PICTURES

DOCS = Path(__file__).resolve().parents[3] / "docs"
TAKEN = {picture.name for picture in PICTURES}


def shown(page: Path) -> set[str]:
    return set(re.findall(r"pictures/([a-z-]+)\.png", page.read_text()))


def test_the_tour_shows_every_picture_and_no_other() -> None:
    assert shown(DOCS / "tour.md") == TAKEN


def test_the_readme_shows_pictures_of_the_tour() -> None:
    assert shown(DOCS.parent / "README.md") <= TAKEN


def test_the_tour_takes_its_pin_back() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    pinned = set(re.findall(r"scenarios/(\w+)/assets/([^?']+)\?", readme))
    assert pinned
    assert pinned == set(re.findall(r"scenarios/(\w+)/release/([^?']+)\?", readme))


def test_every_picture_has_been_taken() -> None:
    assert {path.stem for path in FOLDER.glob("*.png")} == TAKEN
