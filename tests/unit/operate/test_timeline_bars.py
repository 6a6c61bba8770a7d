"""What-if's timelines are drawn over the span of which there is something to tell."""

from __future__ import annotations

import pytest

from dashboard.core.common.scenarios import scenarios
from dashboard.operate.requests.what_if import WIDTH, bars, shown_span
from domain.scenario import Scenario
from wire.batch_query import Difference

SINCE, UNTIL = 1_000_000, 2_000_000


def difference(before: str | None, *moments: tuple[int, str | None]) -> Difference:
    return Difference("a", (before, before), list(moments), list(moments), 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("differences", "begin"),
    [
        ([], SINCE),
        ([difference(None, (1_900_000, "clear"))], 1_900_000),
        (
            [difference(None, (1_900_000, "clear")), difference(None, (1_800_000, "clear"))],
            1_800_000,
        ),
        ([difference("clear", (1_900_000, "suspicious"))], SINCE),
        ([difference(None, (500_000, "clear"))], SINCE),
    ],
)
def test_the_span_begins_where_something_is_told(differences: list[Difference], begin: int) -> None:
    assert shown_span(differences, SINCE, UNTIL) == (begin, UNTIL)


def test_a_bar_fills_the_span() -> None:
    attack: Scenario = scenarios()["attack"]
    asset_difference = difference(None, (1_900_000, "clear"), (1_950_000, "under-attack"))
    since, until = shown_span([asset_difference], SINCE, UNTIL)
    running, _ = bars(attack, asset_difference, since, until)
    first, last = running.pieces[0], running.pieces[-1]
    assert (first.x, last.x + last.width) == (0, WIDTH)
    assert first.width == last.width == WIDTH / 2
