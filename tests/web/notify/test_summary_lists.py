"""Behind each figure of a summary is its list, and its sum is the figure: for each zone, hours,
scenario, label and file."""

from __future__ import annotations

import csv
import io
import json
import random
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from dashboard.core.common import times
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS, utc_datetime
from dashboard.notify.summaries import lists
from dashboard.notify.summaries.models import (
    Alarm,
    Gap,
    ImpairedSpan,
    Presence,
    Progress,
    ReportingZone,
    Target,
)
from dashboard.notify.summaries.phrases import exact
from dashboard.notify.summaries.rollups import sum_up_day
from dashboard.watch.annotations.models import Label
from dashboard.watch.incidents.models import ALL, LISTED, Incident, Window, WindowAsset

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


BEGUN, NOW = at("2026-03-16T05:00"), at("2026-04-02T13:37:21")
SCENARIOS = ("attack", "connectivity", "clients")
OFFICE = [list(range(8, 18))] * 5 + [[], [10]]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "timezone", SimpleNamespace(now=lambda: utc_datetime(NOW)))


def lived(scenario: str, asset: str, dice: random.Random) -> None:
    """Write the life of an asset, to the millisecond: good, bad, unconfirmed, sometimes purged."""
    bad = [
        spec.name
        for spec in scenarios()[scenario].states
        if not scenarios()[scenario].is_good(spec.name)
    ]
    place = {"scenario": scenario, "asset": asset}
    moment, number = BEGUN + dice.randrange(2 * DAY_MS), 0
    came = moment
    while moment < NOW:
        length = dice.choice((90_000, 7 * MINUTE_MS, HOUR_MS, 20 * HOUR_MS)) + dice.randrange(5_000)
        end: int | None = moment + length if moment + length < NOW else None
        what, number = dice.choice(("good", "good", "bad", "bad", "unconfirmed")), number + 1
        here = place | {"place": f"{number:010}", "end_place": f"{number:010}z" if end else ""}
        if what != "good":
            state = dice.choice(bad)
            ImpairedSpan.objects.create(
                **here, begin=moment, end=end, state=state, unconfirmed=what == "unconfirmed"
            )
        if what == "bad":
            acknowledged = moment + dice.randrange(1, 9) * 20_000 if dice.random() < 0.5 else None
            Incident.objects.create(
                **place, place=here["place"], began_at=moment, ended_at=end, state=state,
                worst=state, acknowledged_at=acknowledged,
                acknowledged_by="ada" if acknowledged else "",
            )  # fmt: skip
        if dice.random() < 0.3:
            Alarm.objects.create(
                **here, begin=moment, end=end, state=bad[0],
                came_true=None if end is None else dice.random() < 0.5,
            )  # fmt: skip
        moment += length + 1 + dice.randrange(20 * MINUTE_MS)
        if dice.random() < 0.05 and end is not None:
            purged = moment - 1
            Presence.objects.create(
                **place, place=f"{number:010}p", begin=came, end=purged, end_place="x"
            )
            came = moment = moment + dice.randrange(5 * HOUR_MS)
    if came < NOW:
        Presence.objects.create(**place, place="z", begin=came)


def window(begin: str, end: str, scenario: str = "", *assets: str, **more: Any) -> None:
    low, high = at(begin), at(end)
    row = Window.objects.create(
        name="works", scenario=scenario, covers=LISTED if assets else ALL, begin=low, end=high,
        planned_end=high, created_at=low, begun_at=low, **more,
    )  # fmt: skip
    for asset in assets:
        WindowAsset.objects.create(window=row, scenario=scenario, asset=asset)


@pytest.fixture
def history(request: pytest.FixtureRequest) -> None:
    """Two weeks of three scenarios in a zone, with windows, gaps, service hours and labels."""
    dice = random.Random(5)
    ReportingZone.objects.choose(request.param)
    for scenario in SCENARIOS:
        for n in range(4):
            lived(scenario, f"a{n}", dice)
            if n:
                Label.objects.create(
                    scenario=scenario, asset=f"a{n}", key="customer", value="Acme" if n > 1 else
                    "Beta & Söhne", source="person", name="x", at=1,
                )  # fmt: skip
        Progress.objects.mark({scenario: BEGUN})
    Target.objects.choose("attack", 95.0, OFFICE)
    Target.objects.choose("connectivity", 97.5)
    window("2026-03-24T09:10:00.250", "2026-03-24T15:00")
    window("2026-03-29T00:20", "2026-03-29T03:40", "attack")
    window("2026-03-29T02:00", "2026-03-29T04:00:01.750", "attack", "a1", "a2")
    window("2026-03-30T02:00", "2026-03-31T04:00", "connectivity", "a0")
    window("2026-03-30T02:00", "2026-03-31T04:00", "attack", excluded=False)
    window("2026-03-25T02:00", "2026-03-26T04:00", cancelled_at=1)
    for low, high in (
        ("2026-03-27T08:20", "2026-03-27T19:40"),
        ("2026-04-01T23:50", "2026-04-02T01:00"),
    ):
        Gap.objects.create(scenario="attack", begin=at(low), end=at(high))
    for scenario in SCENARIOS:
        while sum_up_day(scenario, NOW - 5 * HOUR_MS):
            pass


def rows_of(client: Client, link: str) -> list[Any]:
    """The rows of all pages of a list."""
    rows: list[Any] = []
    path, _, query = link.partition("?")
    while query:
        answer = client.get(f"{path}?{query}")
        assert answer.status_code == 200, link
        context = answer.context
        found = context["found"]
        if found is None or hasattr(found, "groups"):
            return found.groups if found else []
        rows += found.rows
        query = context["pager"].links.get("Older", "").removeprefix("?")
    return rows


def lines_of(client: Client, link: str, form: str) -> list[dict[str, Any]]:
    answer: Any = client.get(link.replace("history/?", f"history/history.{form}?"))
    text = b"".join(answer.streaming_content).decode()
    if form == "csv":
        return list(csv.DictReader(io.StringIO(text)))
    return [json.loads(line) for line in text.splitlines()]


def check_times(client: Client, links: Any, figures: Any) -> None:
    """Compare the three times of a group with their lists and files."""
    for kind in ("bad", "unconfirmed", "maintenance"):
        figure, link = getattr(figures.times, kind), getattr(links, kind)
        rows = rows_of(client, link)
        assert sum(row.counted for row in rows) == figure, link
        begins = [row.begin for row in rows]
        assert begins == sorted(begins, reverse=True)
        page = client.get(link)
        if rows:
            assert page.context["sum"] == figure
            assert exact(figure) in page.content.decode()
        *lines, last = lines_of(client, link, "csv")
        assert (last["state"], int(last["counted_ms"])) == ("sum", figure)
        assert sum(int(line["counted_ms"]) for line in lines) == figure
        assert lines_of(client, link, "ndjson")[-1]["rows"] == len(rows) == len(lines)


def check_incidents(client: Client, links: Any, figures: Any) -> None:
    """Compare the numbers of a group with the rows of their lists."""
    assert len(rows_of(client, links.incidents)) == figures.incidents, links.incidents
    assert len(rows_of(client, links.acknowledged)) == figures.acknowledged.count
    assert len(rows_of(client, links.cleared)) == figures.cleared.count
    assert len(rows_of(client, links.flapping)) == figures.flapping
    assert len(rows_of(client, links.false_alarms)) == figures.false_alarms


@pytest.mark.parametrize(
    ("history", "query"),
    [
        ("UTC", "period=week&date=2026-03-29&label=customer"),
        ("Europe/Berlin", "period=day&date=2026-03-29&label=customer&hours=service"),
        ("Asia/Kathmandu", "period=month&date=2026-04-02&label=customer&hours=service"),
        ("Europe/Berlin", "period=dates&first=2026-03-24&last=2026-04-01&scenario=clients"),
    ],
    indirect=["history"],
    ids=["a week", "the day on which the clock changes", "the month so far", "some dates"],
)
def test_each_list_adds_up_to_its_figure(history: None, client: Client, query: str):
    context = client.get(f"/summary/?{query}").context
    found = context["found"]
    assert found.whole.now.times.bad > HOUR_MS
    whole = lists_of(context)
    check_times(client, whole, found.whole.now)
    check_incidents(client, whole, found.whole.now)
    rows = [*context["scenario_rows"], *context["label_rows"]]
    for row in rows:
        check_times(client, row.links, row.now)
        check_incidents(client, row.links, row.now)
    if found.question.label:
        own = [row.now.false_alarms for row in context["label_rows"]]
        assert sum(own) == found.whole.now.false_alarms


def lists_of(context: Any) -> Any:
    """The links of the tiles, by name."""
    tiles = {tile.name: tile.link for tile in (*context["tiles"], *context["classes"])}
    return SimpleNamespace(**tiles)


@pytest.mark.parametrize("history", ["Asia/Kathmandu"], indirect=True)
def test_lists_are_in_the_zone_of_the_summary(history: None, client: Client):
    context = client.get("/summary/?period=week&date=2026-03-25&scenario=attack").context
    links = lists_of(context)
    for link in (links.bad, links.false_alarms, links.incidents):
        page = client.get(link).content.decode()
        assert "From (Asia/Kathmandu)" in page
        assert 'value="2026-03-23T00:00"' in page
        (row, *_) = client.get(link).context["found"].rows
        begin = getattr(row, "began_at", None) or row.begin
        local = datetime.fromtimestamp(begin // 1000, ZoneInfo("Asia/Kathmandu"))
        assert f"{local:%Y-%m-%d %H:%M:%S} +0545" in page
    bare = client.get("/summary/history/?start=2026-03-23T00:00").content.decode()
    assert "From (Asia/Kathmandu)" in bare


@pytest.mark.parametrize("history", ["UTC"], indirect=True)
def test_a_list_that_is_too_long_is_added_up_in_its_file(
    history: None, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lists, "SUMMED", 3)
    context = client.get("/summary/?period=week&date=2026-03-25&scenario=attack").context
    link = lists_of(context).bad
    page = client.get(link)
    assert page.context["sum"] is None
    assert "the last line of a file has their sum" in page.content.decode()
    figure = context["found"].whole.now.times.bad
    assert lines_of(client, link, "ndjson")[-1]["counted_ms"] == figure


def test_a_duration_is_shown_without_rounding():
    assert exact(0) == "0 s"
    assert exact(1_250) == "1.25 s"
    assert exact(65_004) == "1 m 05.004 s"
    assert exact(669 * HOUR_MS + 47 * MINUTE_MS + 13_000) == "669 h 47 m 13 s"
