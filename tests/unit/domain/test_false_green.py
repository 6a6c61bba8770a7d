"""Silence, old reports, flapping voters, wrong clocks and refused reports turn nothing to green,
nor hide red."""

from __future__ import annotations

import pytest

from domain.fold import Bucket
from domain.records import Emission
from support.histories.doubtful import doubtful_examples
from support.histories.false_green import Board, Example, examples


def folded(example: Example) -> list[Emission]:
    """Return what the fold makes of the example's log."""
    bucket = Bucket(example.scenario, example.partition, 1)
    return [out for offset, at, record in example.lines for out in bucket.apply(record, offset, at)]


ALL = (*examples(), *doubtful_examples())


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.title)
def test_no_false_green(example: Example) -> None:
    example.check(Board(folded(example)))


def test_the_titles_are_the_examples_own() -> None:
    titles = [example.title for example in ALL]
    assert len(titles) == len(set(titles))
