"""What is remembered of an asset's reports: the last ones, a count over a minute, their ids."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from pipelines.recent_reports import LAST, PIPELINE, WINDOW_MS, AssetProcessor, Recent, RecentReport

START = 1_790_000_000_000


def taken(*reports: tuple[str, int]) -> Recent:
    """An asset after these reports: an id and when it came, ms after the start."""
    asset = Recent()
    for id_, at in reports:
        asset.add(RecentReport("waf-1", "clear", START + at), id_)
    return asset


def test_the_last_reports_are_kept_the_oldest_first() -> None:
    asset = taken(*[(f"r-{number}", 1_000 * number) for number in range(LAST + 3)])
    assert [report.at - START for report in asset.recent] == [
        1_000 * number for number in range(3, LAST + 3)
    ]


def test_what_comes_twice_within_a_minute_counts_once() -> None:
    asset = taken(("a", 0), ("b", 1_000), ("a", 2_000), ("a", WINDOW_MS - 1))
    assert (asset.in_minute, asset.repeated, len(asset.recent)) == (2, 2, 2)


def test_after_a_minute_it_counts_again_and_the_old_one_no_more() -> None:
    asset = taken(("a", 0), ("a", WINDOW_MS))
    assert (asset.in_minute, asset.repeated, len(asset.recent)) == (1, 0, 2)
    assert asset.seen == {"a": START + WINDOW_MS}
    assert list(asset.rolling.values()) == [1]


def test_a_clock_that_goes_back_forgets_nothing() -> None:
    asset = taken(("a", 5_000), ("b", 1_000), ("a", 2_000))
    assert (asset.at, asset.in_minute, asset.repeated) == (START + 5_000, 2, 1)


def test_the_count_is_that_of_a_naive_look_at_the_log() -> None:
    chance, log, asset = Random(7), [], Recent()
    at = START
    for _ in range(2_000):
        at += chance.choice((0, 100, 900, 5_000))
        log.append((f"r-{chance.randrange(300)}", at))
        asset.add(RecentReport("waf-1", "clear", at), log[-1][0])
        assert asset.in_minute == naive(log)


def naive(log: list[tuple[str, int]]) -> int:
    """How many different reports began to count in the minute of the last one, to the second."""
    counted: dict[str, int] = {}
    times = []
    for id_, at in log:
        if counted.get(id_, 0) <= at - WINDOW_MS:
            counted[id_] = at
            times.append(at)
    return sum(at // 1_000 * 1_000 > log[-1][1] - WINDOW_MS for at in times)


# ---- the operator -------------------------------------------------------------------------------


class ListState:
    """A list as Spark keeps it."""

    def __init__(self) -> None:
        self.content: list[tuple[Any, ...]] = []

    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.content)

    def put(self, content: list[tuple[Any, ...]]) -> None:
        self.content = content


class MapState:
    """A map as Spark keeps it, and how often it was written to."""

    def __init__(self) -> None:
        self.content: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.written = 0

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return iter(list(self.content.items()))

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.written += 1
        self.content[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self.written += 1
        del self.content[key]


@pytest.fixture
def stores() -> dict[str, Any]:
    return {}


@pytest.fixture
def operator(stores: dict[str, Any]) -> AssetProcessor:
    """The operator, with stores of its own."""

    def opened(kind: type) -> Any:
        return lambda name, *_, **__: stores.setdefault(name, kind())

    operator = AssetProcessor()
    operator.init(SimpleNamespace(getListState=opened(ListState), getMapState=opened(MapState)))  # type: ignore[arg-type]
    return operator


def batch(operator: AssetProcessor, *rows: tuple[int, str, int | None]) -> Row:
    """What comes out of a batch of one asset: offset, agent and the agent's time of each."""
    given = [
        Row(agent=agent, state="clear", reported_at=time, at=START + offset, partition=0,
            offset=offset, first=f"0/{offset}")
        for offset, agent, time in rows
    ]  # fmt: skip
    [out] = operator.handleInputRows(("attack", "shop"), iter(given), None)  # type: ignore[arg-type]
    return out


def test_the_stores_are_those_that_the_graph_shows(
    operator: AssetProcessor, stores: dict[str, Any]
) -> None:
    assert tuple(stores) == PIPELINE.stores == ("recent", "rolling", "seen")


def test_a_batch_goes_on_where_the_one_before_it_ended(
    operator: AssetProcessor, stores: dict[str, Any]
) -> None:
    first = batch(operator, (1, "waf-1", START), (0, "waf-2", START), (2, "waf-1", START))
    assert (first.in_minute, first.repeated, first.place) == (2, 1, "0/2")
    assert [report[0] for report in first.recent] == ["waf-2", "waf-1"], "in the log's order"
    stores["seen"].written = 0
    second = batch(operator, (3, "waf-2", START), (4, "waf-2", START + 9))
    assert (second.in_minute, second.repeated, second.place) == (3, 1, "0/4")
    assert stores["seen"].written == 1, "what has not changed is not written"
    third = batch(operator, (WINDOW_MS + 4, "waf-1", START))
    assert (third.in_minute, third.repeated) == (1, 0)
    assert len(stores["seen"].content) == len(stores["rolling"].content) == 1


def test_a_report_without_a_time_of_its_own_is_none_but_itself(operator: AssetProcessor) -> None:
    assert batch(operator, (0, "waf-1", None), (1, "waf-1", None)).in_minute == 2


def test_a_report_and_its_forwarded_copy_are_one(operator: AssetProcessor) -> None:
    fields = {"agent": "waf-1", "state": "clear", "reported_at": None, "first": "0/7"}
    wrong = Row(**fields, at=START, partition=0, offset=7)
    right = Row(**fields, at=START + 900, partition=1, offset=3)
    for copies in ([wrong], [right]):
        [out] = operator.handleInputRows(("attack", "shop"), iter(copies), None)  # type: ignore[arg-type]
        assert (out.in_minute, len(out.recent)) == (1, 1)
