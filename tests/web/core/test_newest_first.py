"""Lists that say newest first: by time, also where rows were stored in another order."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from django.db.models import Model
from django.test import Client

from dashboard.core.common.lists import ListPage
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import Transition
from dashboard.notify.summaries.models import Alarm, ImpairedSpan
from dashboard.watch.incidents.models import Incident, Window
from domain.version import Version

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

SECONDS = {"c": 3, "a": 1, "e": 5, "d1": 4, "d2": 4, "d3": 4, "b": 2, "f": 6}
"""When each began; they are stored in this order."""
TO_COME = {"later": 4, "running": 0, "soon": 2}
"""In how many hours more each begins; they all end later."""
NEWEST = ["f", "e", "d3", "d2", "d1", "c", "b", "a"]


def _base() -> int:
    return now_ms() - 3_600_000


def incidents() -> None:
    base = _base()
    for asset, s in SECONDS.items():
        Incident.objects.create(
            scenario="attack", asset=asset, place=asset, began_at=base + s * 1000,
            ended_at=base + 60_000, state="under-attack", worst="under-attack",
        )  # fmt: skip


def transitions() -> None:
    base = _base()
    for n, (asset, s) in enumerate(SECONDS.items()):
        cause = f'{{"type":"report","partition":3,"offset":{n},"time":1,"agent":"waf-1"}}'
        Transition.objects.create(
            scenario="attack", asset=asset, version=Version(1, n, 0).sortable(), place=f"{n}",
            at=base + s * 1000, previous="clear", state="under-attack", cause_type="report",
            cause=cause,
        )  # fmt: skip


def alarms() -> None:
    base = _base()
    for asset, s in SECONDS.items():
        Alarm.objects.create(
            scenario="attack", asset=asset, place=asset, begin=base + s * 1000, end=base + 60_000,
            end_place="z", state="under-attack", came_true=False,
        )  # fmt: skip


def spans() -> None:
    base = _base()
    for asset, s in SECONDS.items():
        ImpairedSpan.objects.create(
            scenario="attack", asset=asset, place=asset, begin=base + s * 1000, end=base + 60_000,
            end_place="z", state="under-attack", unconfirmed=False,
        )  # fmt: skip


def windows() -> None:
    """One window for each, which is over, and three to come."""
    base = _base()
    for name, s in SECONDS.items():
        window(name, base + s * 1000, base + 60_000)
    for name, hours in TO_COME.items():
        window(name, base + hours * 3_600_000, base + 9 * 3_600_000)


def window(name: str, begin: int, end: int) -> None:
    Window.objects.create(
        name=name, covers="all", begin=begin, end=end, planned_end=end, created_at=1, username="x"
    )


def names_of(rows: list[Any]) -> list[str]:
    return [row.asset for row in rows]


def paged(client: Client, path: str) -> Iterator[list[str]]:
    """Yield the assets of each page of a list."""
    query = ""
    while True:
        context = client.get(f"{path}{query}").context
        yield names_of(context["page"].rows)
        query = context["pager"].links.get("Older", "")
        if not query:
            return


LISTS = [
    ("/incidents/by-asset/", incidents),
    ("/events/", transitions),
    ("/summary/alarms/", alarms),
    ("/summary/history/", spans),
]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListPage, "page_size", 2)


@pytest.mark.parametrize(("path", "store"), LISTS)
def test_a_page_is_by_time(client: Client, path: str, store: Callable[[], None]) -> None:
    store()
    assert list(paged(client, path)) == [NEWEST]


@pytest.mark.usefixtures("small_pages")
def test_maintenance_begins_with_what_runs_and_is_to_come(client: Client) -> None:
    windows()
    Window.objects.filter(name="a").update(end=now_ms() + 9_000_000, cancelled_at=now_ms())
    names: list[str] = []
    query = ""
    while True:
        context = client.get(f"/maintenance/{query}").context
        names += [row.name for row in context["page"].rows]
        query = context["pager"].links.get("Next page", "")
        if not query:
            break
    assert names == ["running", "soon", "later", *NEWEST]


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize(("path", "store"), LISTS)
def test_pages_meet_each_row_once_though_times_are_equal(
    client: Client, path: str, store: Callable[[], None]
) -> None:
    store()
    assert list(paged(client, path)) == [NEWEST[i : i + 2] for i in range(0, 8, 2)]


@pytest.mark.spread(4)
@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize(("path", "store"), LISTS)
@pytest.mark.parametrize("looked_at", [1, 3, 4, 5])
@pytest.mark.spread(6)
def test_so_many_rows_are_looked_at_in_the_same_order(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, store: Callable[[], None],
    looked_at: int,
) -> None:  # fmt: skip
    store()
    monkeypatch.setattr(ListPage, "looked_at", looked_at)
    pages = list(paged(client, path))
    assert [asset for page in pages for asset in page] == NEWEST
    assert all(len(page) <= min(looked_at, 2) for page in pages)


@pytest.mark.parametrize(
    ("path", "store"),
    [
        ("/incidents/by-asset/by-asset", incidents),
        ("/events/events", transitions),
        ("/summary/alarms/alarms", alarms),
    ],
)
def test_files_are_by_time(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, store: Callable[[], None]
) -> None:
    monkeypatch.setattr(ListPage, "portion_size", 3)
    store()
    for form in ("csv", "ndjson"):
        answer: Any = client.get(f"{path}.{form}")
        text = b"".join(answer.streaming_content).decode()
        if form == "csv":
            assets = [line["asset"] for line in csv.DictReader(io.StringIO(text))]
        else:
            assets = [msgspec.json.decode(line)["asset"] for line in text.splitlines()]
        assert assets == NEWEST


def _rest(client: Client, limit: int, gone: Callable[[int], Any] = lambda _: None) -> list[str]:
    met: list[str] = []
    query = f"?limit={limit}"
    while True:
        answer = client.get(f"/api/v1/incidents/assets{query}").json()
        met += [item["asset"] for item in answer["items"]]
        if answer["next"] is None:
            return met
        gone(answer["next"])
        query = f"?limit={limit}&before={answer['next']}"


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_rest_pages_are_by_time(client: Client, limit: int) -> None:
    incidents()
    assert _rest(client, limit) == NEWEST


def test_rest_comes_to_an_end_though_rows_are_deleted_meanwhile(client: Client) -> None:
    incidents()
    met = _rest(client, 2, lambda number: Incident.objects.filter(pk=number).delete())
    assert met[:2] == ["f", "e"]
    assert len(met) <= len(NEWEST)


def test_a_place_that_is_gone_leads_to_older_rows(client: Client) -> None:
    incidents()
    gone = Incident.objects.get(asset="b").pk
    Incident.objects.filter(pk=gone).delete()
    page = client.get(f"/incidents/by-asset/?before={gone}").context["page"].rows
    assert names_of(page) == ["e", "d3", "d2", "d1", "c", "a"]
    assert (
        names_of(client.get(f"/incidents/by-asset/?before={2**62}").context["page"].rows)[0] == "f"
    )


@pytest.mark.parametrize(
    ("model", "order"),
    [(Incident, "began_at"), (Transition, "at"), (Alarm, "begin"), (ImpairedSpan, "begin")],
)
def test_each_has_an_index_of_its_order(model: type[Model], order: str) -> None:
    indexes = [tuple(index.fields) for index in model._meta.indexes]
    assert (order, "id") in indexes
