"""No row is calm while a living process says worse, whatever its clock or its words are."""

from __future__ import annotations

import pytest

from domain.fold import Bucket
from support.histories.living_agents import Life, lives
from support.run.selection import examples

LIVES = examples(150)


def test_no_row_is_calm_while_a_process_says_worse() -> None:
    """But for the turn of two processes under one name: then it is not, at its next report."""
    for life in lives(0, LIVES):
        for calm in life.calm():
            assert life.cloned, calm
            assert calm.time > calm.since, calm


def test_a_fold_that_forgets_what_it_refuses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bucket, "_doubt", lambda *_: None)
    assert any(not life.cloned and any(life.calm()) for life in lives(0, 60))


def test_a_life_is_the_same_every_time() -> None:
    assert [list(Life(seed).calm()) for seed in range(5)] == [
        list(Life(seed).calm()) for seed in range(5)
    ]
