"""Silence, old reports, flapping voters, wrong clocks and refused reports turn nothing to green,
nor hide red."""

from __future__ import annotations

import pytest

from domain.fold import Bucket
from domain.records import Emission
from domain.scenario import CLAIM_FOLD
from support.histories.doubtful import doubtful_examples
from support.histories.false_green import Board, Example, examples
from support.histories.last_words import kept_words, last_words


def folded(example: Example) -> list[Emission]:
    """Return what the fold makes of the example's log."""
    bucket = Bucket(example.scenario, example.partition, 1)
    return [out for offset, at, record in example.lines for out in bucket.apply(record, offset, at)]


ALL = (*examples(), *doubtful_examples(), *last_words(), *kept_words())


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.title)
def test_no_false_green(example: Example) -> None:
    example.check(Board(folded(example)))


@pytest.mark.parametrize("example", last_words(CLAIM_FOLD - 1), ids=lambda example: example.title)
def test_the_last_word_was_not_seen_under_version_5(example: Example) -> None:
    with pytest.raises(AssertionError):
        example.check(Board(folded(example)))


def test_the_titles_are_the_examples_own() -> None:
    titles = [example.title for example in ALL]
    assert len(titles) == len(set(titles))
