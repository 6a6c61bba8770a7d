"""Behind each figure of a summary is its list, and its sum is the figure; page, lists, files, REST
and mails have the figures of what was lived: for each zone, hours, scenario and label."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from datetime import date, datetime
from math import floor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.notify.summaries import lists
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.digests import content_of
from dashboard.notify.summaries.figures import Question
from dashboard.notify.summaries.models import (
    Alarm,
    AssetDay,
    Gap,
    HourRow,
    ImpairedSpan,
    KeptSum,
    Presence,
    Progress,
    ReportingZone,
    Target,
)
from dashboard.notify.summaries.phrases import exact
from dashboard.watch.annotations.models import Label
from dashboard.watch.incidents.models import ALL, LISTED, Incident, Window, WindowAsset
from domain.history.periods import containing
from support.web.clocks import at, stop_clock
from support.web.independent_summary import Life, spread, unbroken
from support.web.row_cache import cached_rows
from support.web.summaries import sum_up

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]


BEGUN, NOW = at("2026-03-16T05:00"), at("2026-04-02T13:37:21")
SCENARIOS = ("attack", "connectivity", "clients")
OFFICE = [list(range(8, 18))] * 5 + [[], [10]]
TARGETS = {"attack": 95.0, "connectivity": 62.5}
"""The first is missed, the second met."""
GAPS = [
    (at("2026-03-27T08:20"), at("2026-03-27T19:40")),
    (at("2026-04-01T23:50"), at("2026-04-02T01:00")),
]
"""When the job was silent about attacks."""
Lives = dict[tuple[str, str], Life]
"""What happened, by scenario and asset."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock(monkeypatch, NOW)


def lived(scenario: str, asset: str, dice: random.Random) -> Life:
    """Write the life of an asset, to the millisecond: good, bad, unconfirmed, sometimes purged."""
    known = scenarios()[scenario]
    bad = [spec.name for spec in known.states if not known.is_good(spec.name)]
    place, life = {"scenario": scenario, "asset": asset}, Life()
    moment, number = BEGUN + dice.randrange(2 * DAY_MS), 0
    came = moment
    while moment < NOW:
        length = dice.choice((90_000, 7 * MINUTE_MS, HOUR_MS, 20 * HOUR_MS)) + dice.randrange(5_000)
        end: int | None = moment + length if moment + length < NOW else None
        what, number = dice.choice(("good", "good", "bad", "bad", "unconfirmed")), number + 1
        here = place | {"place": f"{number:010}", "end_place": f"{number:010}z" if end else ""}
        state = dice.choice(bad)
        if what != "good":
            ImpairedSpan.objects.create(
                **here, begin=moment, end=end, state=state, unconfirmed=what == "unconfirmed"
            )
            life.impaired.append((moment, end or NOW, what == "unconfirmed"))
        if what == "bad":
            acknowledged = moment + dice.randrange(1, 9) * 20_000 if dice.random() < 0.5 else None
            Incident.objects.create(
                **place, place=here["place"], began_at=moment, ended_at=end, state=state,
                worst=state, acknowledged_at=acknowledged,
                acknowledged_by="ada" if acknowledged else "",
            )  # fmt: skip
            life.incidents.append((moment, end))
            if acknowledged:
                life.acknowledged[moment] = acknowledged - moment
        if dice.random() < 0.3:
            came_true = None if end is None else dice.random() < 0.5
            Alarm.objects.create(**here, begin=moment, end=end, state=bad[0], came_true=came_true)
            if end is not None and not came_true:
                life.false_alarms.append(end)
        moment += length + 1 + dice.randrange(20 * MINUTE_MS)
        if dice.random() < 0.05 and end is not None:
            purged = moment - 1
            Presence.objects.create(
                **place, place=f"{number:010}p", begin=came, end=purged, end_place="x"
            )
            life.there.append((came, purged))
            came = moment = moment + dice.randrange(5 * HOUR_MS)
    if came < NOW:
        Presence.objects.create(**place, place="z", begin=came)
        life.there.append((came, NOW))
    return life


def brought_in(scenario: str, asset: str, dice: random.Random, first: int) -> tuple[Life, str]:
    """The life of an asset before the product, up to its first record, and its lines of a file."""
    known = scenarios()[scenario]
    bad = [spec.name for spec in known.states if not known.is_good(spec.name)]
    moment = at("2026-03-05T03:00") + dice.randrange(DAY_MS)
    life, lines = Life(there=[(moment, first)]), []
    for number in range(40):
        kind = ("good", "bad", "good", "unconfirmed")[number % 4]
        length = dice.choice((90_000, HOUR_MS, 5 * HOUR_MS)) + dice.randrange(5_000)
        if moment + length >= first:
            break
        state = dice.choice(bad) if kind == "bad" else known.states[-1].name
        line = {"scenario": scenario, "asset": asset, "at": moment, "state": state}
        lines.append(json.dumps(line | {"unconfirmed": kind == "unconfirmed"}))
        if kind != "good":
            life.impaired.append((moment, moment + length, kind == "unconfirmed"))
        if kind == "bad":
            life.incidents.append((moment, moment + length))
        moment += length
    last = {"scenario": scenario, "asset": asset, "at": moment, "state": known.states[-1].name}
    return life, "\n".join([*lines, json.dumps(last)]) + "\n"


def window(begin: str, end: str, scenario: str = "", *assets: str, **more: Any) -> None:
    low, high = at(begin), at(end)
    row = Window.objects.create(
        name="works", scenario=scenario, covers=LISTED if assets else ALL, begin=low, end=high,
        planned_end=high, created_at=low, begun_at=low, **more,
    )  # fmt: skip
    for asset in assets:
        WindowAsset.objects.create(window=row, scenario=scenario, asset=asset)


@pytest.fixture
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Lives:
    """Two weeks of three scenarios in a zone, with windows, gaps, service hours and labels, and the
    days before them that were brought in."""
    zone = request.param
    return cached_rows(f"lives in {zone}", lambda: written(zone, tmp_path / "history.ndjson"))


def written(zone: str, file: Path) -> Lives:
    """Write the history."""
    dice, lives = random.Random(5), {}
    ReportingZone.objects.choose(zone)
    for scenario in SCENARIOS:
        for n in range(4):
            lives[scenario, f"a{n}"] = lived(scenario, f"a{n}", dice)
            if n:
                Label.objects.create(
                    scenario=scenario, asset=f"a{n}", key="customer", value="Acme" if n > 1 else
                    "Beta & Söhne", source="person", name="x", at=1,
                )  # fmt: skip
        Progress.objects.mark({scenario: BEGUN})
    Target.objects.choose("attack", TARGETS["attack"], OFFICE)
    Target.objects.choose("connectivity", TARGETS["connectivity"])
    bring_in(lives, dice, file)
    window("2026-03-24T09:10:00.250", "2026-03-24T15:00")
    window("2026-03-29T00:20", "2026-03-29T03:40", "attack")
    window("2026-03-29T02:00", "2026-03-29T04:00:01.750", "attack", "a1", "a2")
    window("2026-03-30T02:00", "2026-03-31T04:00", "connectivity", "a0")
    window("2026-03-30T02:00", "2026-03-31T04:00", "attack", excluded=False)
    window("2026-03-25T02:00", "2026-03-26T04:00", cancelled_at=1)
    for low, high in GAPS:
        Gap.objects.create(scenario="attack", begin=low, end=high)
    sum_up(NOW - 5 * HOUR_MS, *SCENARIOS)
    return lives


def bring_in(lives: Lives, dice: random.Random, path: Path) -> None:
    """Bring in the days before of two scenarios from a file."""
    texts = []
    for scenario in ("attack", "connectivity"):
        first = min(Presence.objects.filter(scenario=scenario).values_list("begin", flat=True))
        for asset in ("b0", "b1"):
            lives[scenario, asset], text = brought_in(scenario, asset, dice, first)
            texts.append(text)
    path.write_text("".join(texts))
    call_command("import-history", str(path), "--apply", stdout=io.StringIO())


def windows_of(scenario: str, asset: str) -> list[tuple[int, int]]:
    """When an asset was in maintenance that counts."""
    windows = [(at("2026-03-24T09:10:00.250"), at("2026-03-24T15:00"))]
    if scenario == "attack":
        windows.append((at("2026-03-29T00:20"), at("2026-03-29T03:40")))
        if asset in ("a1", "a2"):
            windows.append((at("2026-03-29T02:00"), at("2026-03-29T04:00:01.750")))
    if (scenario, asset) == ("connectivity", "a0"):
        windows.append((at("2026-03-30T02:00"), at("2026-03-31T04:00")))
    return windows


def rows_of(client: Client, link: str) -> list[Any]:
    """The rows of all pages of a list."""
    rows: list[Any] = []
    path, _, query = link.partition("?")
    while query:
        answer = client.get(f"{path}?{query}")
        assert answer.status_code == 200, link
        context = answer.context
        if "page" not in context:
            grouped = context["grouped"]
            return grouped.groups if grouped else []
        rows += context["page"].rows
        query = context["pager"].links.get("Older", "").removeprefix("?")
    return rows


def lines_of(client: Client, address: str) -> list[dict[str, Any]]:
    """The lines of a file; of CSV the cells, or what they mean."""
    answer: Any = client.get(address)
    text = b"".join(answer.streaming_content).decode()
    if ".csv?" not in address:
        return [json.loads(line) for line in text.splitlines()]
    rows = csv.DictReader(io.StringIO(text))
    return [{name: value_of(cell) for name, cell in row.items()} for row in rows]


def value_of(cell: str) -> Any:
    """What a cell of CSV means."""
    known = {"True": True, "False": False, "": None}
    if cell in known:
        return known[cell]
    try:
        return float(cell) if "." in cell else int(cell)
    except ValueError:
        return cell


def file_of(link: str, form: str) -> str:
    """The address of a list of times as a file."""
    return link.replace("history/?", f"history/history.{form}?")


def answers_of(client: Client, link: str, limit: int) -> list[Any]:
    """The pages of a list of times as REST answers them."""
    asked = dict(parse_qs(link.partition("?")[2]))
    (zone,) = map(ZoneInfo, asked.pop("zone"))
    for name in ("start", "end"):
        local = datetime.fromisoformat(asked[name][0]).replace(tzinfo=zone)
        asked[name] = [str(int(local.timestamp() * 1000))]
    address = f"/api/v1/summary/history?{urlencode(asked, doseq=True)}&limit={limit}"
    answers = [client.get(address).json()]
    while (before := answers[-1]["next"]) is not None:
        answers.append(client.get(f"{address}&before={before}").json())
    return answers


def check_times(client: Client, links: Any, figures: Any) -> None:
    """Compare the three times of a group with their lists, files and answers of REST."""
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
        *lines, last = lines_of(client, file_of(link, "csv"))
        assert (last["state"], last["counted_ms"]) == ("sum", figure)
        assert sum(line["counted_ms"] for line in lines) == figure
        *lines, last = lines_of(client, file_of(link, "ndjson"))
        assert last["rows"] == len(rows) == len(lines)
        for answer in (answers := answers_of(client, link, 97)):
            assert (answer["number"], answer["sum_ms"]) == (len(lines), figure)
        assert [item for answer in answers for item in answer["items"]] == lines


def check_incidents(client: Client, links: Any, figures: Any) -> None:
    """Compare the numbers of a group with the rows of their lists."""
    assert len(rows_of(client, links.incidents)) == figures.incidents, links.incidents
    assert len(rows_of(client, links.acknowledged)) == figures.acknowledged.count
    assert len(rows_of(client, links.cleared)) == figures.cleared.count
    assert len(rows_of(client, links.flapping)) == figures.flapping
    assert len(rows_of(client, links.false_alarms)) == figures.false_alarms


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("history", "query"),
    [
        pytest.param(
            "UTC",
            "period=week&date=2026-03-29&label=customer",
            marks=pytest.mark.extensive,
        ),
        ("Europe/Berlin", "period=day&date=2026-03-29&label=customer&hours=service"),
        pytest.param(
            "Asia/Kathmandu",
            "period=month&date=2026-04-02&label=customer&hours=service",
            marks=pytest.mark.extensive,
        ),
        ("Europe/Berlin", "period=dates&first=2026-03-06&last=2026-04-01&scenario=attack"),
    ],
    indirect=["history"],
    ids=["a week", "the day on which the clock changes", "the month so far", "some dates"],
)
def test_each_list_adds_up_to_its_figure(history: Lives, client: Client, query: str):
    context = client.get(f"/summary/?{query}").context
    report = context["summary"]
    assert report.whole.now.times.bad > HOUR_MS
    whole = lists_of(context)
    check_times(client, whole, report.whole.now)
    check_incidents(client, whole, report.whole.now)
    rows = [*context["scenario_rows"], *context["label_rows"]]
    for row in rows:
        check_times(client, row.links, row.now)
        check_incidents(client, row.links, row.now)
    if report.question.label:
        own = [row.now.false_alarms for row in context["label_rows"]]
        assert sum(own) == report.whole.now.false_alarms


def lists_of(context: Any) -> Any:
    """The links of the tiles, by name."""
    tiles = {tile.name: tile.link for tile in (*context["tiles"], *context["classes"])}
    return SimpleNamespace(**tiles)


@pytest.mark.parametrize("history", ["Asia/Kathmandu"], indirect=True)
def test_lists_are_in_the_zone_of_the_summary(history: Lives, client: Client):
    context = client.get("/summary/?period=week&date=2026-03-25&scenario=attack").context
    links = lists_of(context)
    for link in (links.bad, links.false_alarms, links.incidents):
        page = client.get(link).content.decode()
        if link == links.incidents:  # its filter is a line, in UTC
            assert "times in Asia/Kathmandu" in page
            assert "during:&gt;2026-03-22T18:15:00" in page
        else:
            assert "From (Asia/Kathmandu)" in page
            assert 'value="2026-03-23T00:00"' in page
        (row, *_) = client.get(link).context["page"].rows
        begin = getattr(row, "began_at", None) or row.begin
        local = datetime.fromtimestamp(begin // 1000, ZoneInfo("Asia/Kathmandu"))
        assert f"{local:%Y-%m-%d %H:%M:%S} +0545" in page
    bare = client.get("/summary/history/?start=2026-03-23T00:00").content.decode()
    assert "From (Asia/Kathmandu)" in bare


@pytest.mark.parametrize("history", ["UTC"], indirect=True)
def test_a_list_that_is_too_long_is_added_up_in_its_file(
    history: Lives, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lists, "SUMMED", 3)
    context = client.get("/summary/?period=week&date=2026-03-25&scenario=attack").context
    link = lists_of(context).bad
    page = client.get(link)
    assert page.context["sum"] is None
    assert "the last line of a file has their sum" in page.content.decode()
    figure = context["summary"].whole.now.times.bad
    assert lines_of(client, file_of(link, "ndjson"))[-1]["counted_ms"] == figure
    assert [answer["sum_ms"] for answer in answers_of(client, link, 500)] == [None]


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("start=1000&end=1000", 422, "end"),
        ("label=customer", 422, "label"),
        ("kind=good", 422, "kind"),
        ("limit=501", 422, "limit"),
        ("scenario=none", 404, None),
    ],
)
def test_rest_says_what_it_expects_of_a_list_of_times(
    client: Client, query: str, status: int, field: str | None
):
    answer = client.get(f"/api/v1/summary/history?{query}")
    assert answer.status_code == status
    named = [error["field"] for error in answer.json().get("errors", [])]
    assert named == ([field] if field else [])


def test_rest_takes_times_to_the_millisecond(client: Client):
    begin, end = NOW - HOUR_MS - 1, NOW - HOUR_MS + 1
    ImpairedSpan.objects.create(
        scenario="attack", asset="shop", place="1", begin=begin, end=end, end_place="2",
        state="under-attack", unconfirmed=False,
    )  # fmt: skip
    address = "/api/v1/summary/history"
    for cut, counted in (("", 2), (f"?start={begin + 1}", 1), (f"?end={end - 1}", 1)):
        assert client.get(address + cut).json()["sum_ms"] == counted
    assert client.get(f"{address}?start={end}").json()["items"] == []


def test_a_duration_is_shown_without_rounding():
    assert exact(0) == "0 s"
    assert exact(1_250) == "1.25 s"
    assert exact(65_004) == "1 m 05.004 s"
    assert exact(669 * HOUR_MS + 47 * MINUTE_MS + 13_000) == "669 h 47 m 13 s"


# ---- counted independently --------------------------------------------------------------------

ZONES = ("Europe/Berlin", "America/St_Johns", "Asia/Jerusalem", "Asia/Kathmandu")
"""Their clocks change on the 29th of March, the 8th, the 27th, and never; two are off the hour."""
MONTH = "period=month&date=2026-03-01"


def month_of(zone: str) -> tuple[int, int]:
    """The beginning and the end of March in a zone, Unix ms."""
    begin, end = (datetime(2026, month, 1, tzinfo=ZoneInfo(zone)) for month in (3, 4))
    return int(begin.timestamp() * 1000), int(end.timestamp() * 1000)


def of_scenario(lives: Lives, scenario: str) -> Lives:
    return {place: life for place, life in lives.items() if place[0] == scenario}


def kinds_in(
    span: tuple[int, int], lives: Lives, zone: str, *, service: bool = False
) -> Counter[str]:
    """How much of a time is of each kind, all assets together."""
    kinds: Counter[str] = Counter()
    for (scenario, asset), life in lives.items():
        hours = (zone, OFFICE) if service and scenario == "attack" else None
        gaps = GAPS if scenario == "attack" else ()
        kinds += life.kinds(span, windows_of(scenario, asset), gaps, hours)
    return kinds


def incidents_in(span: tuple[int, int], life: Life) -> list[tuple[int, int | None]]:
    begin, end = span
    return [each for each in life.incidents if each[0] < end and (each[1] or NOW) > begin]


def check_counted(figures: dict[str, Any], lives: Lives, zone: str, *, service: bool) -> None:
    """Compare the figures of March with what happened."""
    begin, end = span = month_of(zone)
    kinds = kinds_in(span, lives, zone, service=service)
    incidents, acknowledged, cleared, false_alarms, assets = 0, [], [], 0, 0
    for life in lives.values():
        own = incidents_in(span, life)
        incidents, assets = incidents + len(own), assets + bool(own)
        cleared += [over - began for began, over in own if over and begin <= over < end]
        answered = (life.acknowledged.get(began) for began, _ in own if began >= begin)
        acknowledged += [delay for delay in answered if delay]
        false_alarms += sum(begin <= over < end for over in life.false_alarms)
    for kind in ("good", "bad", "unconfirmed", "maintenance"):
        assert figures[f"{kind}_ms"] == kinds[kind], kind
    if figures["incidents"] is not None:  # a label has groups
        assert figures["incidents"] == incidents
    assert figures["assets"] == assets
    assert figures["false_alarms"] == false_alarms
    for name, delays in (("acknowledged", acknowledged), ("cleared", cleared)):
        number, mean, p95, median = spread(delays)
        assert figures[name] == number
        assert figures[f"{name}_mean_ms"] == mean
        assert figures[f"{name}_p95_ms"] == p95
        assert figures[f"{name}_median_ms"] == median


def check_observed(figures: dict[str, Any], lives: Lives, zone: str) -> None:
    """Compare how much of March was observed of a scenario: from its first record, but no gap."""
    begin, end = span = month_of(zone)
    ((scenario, _), *_) = lives
    first = min(came for life in lives.values() for came, _ in life.there)
    seen = kinds_in(span, {(scenario, ""): Life(there=[(first, NOW)])}, zone)
    ms = sum(length for kind, length in seen.items() if kind)
    assert figures["observed_ms"] == ms
    assert figures["observed_share"] == pytest.approx(ms / (end - begin))


def check_target(figures: dict[str, Any], percent: float) -> None:
    """Compare target and error budget with the times that were counted."""
    counted = figures["good_ms"] + figures["bad_ms"]
    assert figures["availability"] == figures["good_ms"] / counted
    assert figures["target_percent"] == percent
    assert figures["budget_ms"] == round(counted * (100 - percent) / 100)
    assert figures["budget_left_ms"] == figures["budget_ms"] - figures["bad_ms"]
    assert figures["target_met"] is (figures["budget_left_ms"] >= 0)


def check_budget(
    status: dict[str, Any], figures: dict[str, Any], lives: Lives, zone: str, *, service: bool
) -> None:
    """Compare the line of an error budget and its burn rates with what happened."""
    begin, end = month_of(zone)
    own = of_scenario(lives, status["scenario"])
    line = status["line"]
    for point in (*line[::7], line[-1]):
        bad = kinds_in((begin, point["at"]), own, zone, service=service)["bad"]
        assert point["left_ms"] == figures["budget_ms"] - bad
    assert line[-1]["at"] == end
    for burn, window in zip(status["burn"], (HOUR_MS, 6 * HOUR_MS, 3 * DAY_MS), strict=True):
        kinds = kinds_in((end - window, end), own, zone, service=service)
        counted = kinds["good"] + kinds["bad"]
        rate = counted and kinds["bad"] / counted / (1 - TARGETS[status["scenario"]] / 100)
        assert burn["window_ms"] == window
        assert burn["rate"] == (pytest.approx(rate) if counted else None)


def check_files(client: Client, answer: dict[str, Any], query: str) -> None:
    """Compare the files with REST."""
    for table in ("scenarios", "labels"):
        for form in ("csv", "ndjson"):
            lines = lines_of(client, f"/summary/{table}.{form}?{query}")
            now = [line for line in lines if line["period"] == "now"]
            for line, group in zip(now, answer[table], strict=True):
                assert {name: line[name] for name in group["now"]} == group["now"]


def check_page(client: Client, answer: dict[str, Any], query: str) -> None:
    """Compare the page, and the lists behind its figures, with REST."""
    context = client.get(f"/summary/?{query}").context
    report, links = context["summary"], lists_of(context)
    check_times(client, links, report.whole.now)
    check_incidents(client, links, report.whole.now)
    assert report.whole.now.times.bad == answer["now"]["bad_ms"]
    met = {group["name"]: group["now"]["target_met"] for group in answer["scenarios"]}
    rows = {row.status.scenario: row.target for row in context["target_rows"]}
    for name, percent in TARGETS.items():
        verb = "met" if met[name] else "missed"
        assert f"{scenarios()[name].title} {verb} " in context["sentence"]
        assert rows[name] == f"{percent:g} %, {verb}"


@pytest.mark.spread(1)
@pytest.mark.parametrize("history", ZONES, indirect=True)
@pytest.mark.parametrize("service", [False, True], ids=["all hours", "service hours"])
def test_a_month_is_as_it_was_lived(history: Lives, client: Client, service: bool):
    """Page, lists, files and REST, with windows, gaps, purges, targets that differ, and days that
    were brought in."""
    zone = ReportingZone.objects.current().key
    query = f"{MONTH}&label=customer" + ("&hours=service" if service else "")
    answer = client.get(f"/api/v1/summary?{query}").json()
    counting = {place: life for place, life in history.items() if place[0] != "clients"}
    check_counted(answer["now"], counting, zone, service=service)
    assert answer["now"]["target_met"] is None
    figures = {group["name"]: group["now"] for group in answer["scenarios"]}
    for name in SCENARIOS:
        check_counted(figures[name], of_scenario(history, name), zone, service=service)
    for name, percent in TARGETS.items():
        check_target(figures[name], percent)
    for status in answer["targets"]:
        check_budget(status, figures[status["scenario"]], history, zone, service=service)
    assert {status["scenario"] for status in answer["targets"]} == TARGETS.keys()
    if not service:
        for name in SCENARIOS:
            check_observed(figures[name], of_scenario(history, name), zone)
    values = {"a1": "Beta & Söhne", "a2": "Acme", "a3": "Acme"}
    for group in answer["labels"]:
        own = {
            place: life
            for place, life in counting.items()
            if values.get(place[1], "") == group["name"]
        }
        assert group["now"]["incidents"] == groups_of(own, zone)
        check_counted(group["now"] | {"incidents": None}, own, zone, service=service)
    check_files(client, answer, query)
    check_page(client, answer, query)
    for model in (HourRow, AssetDay, Progress, KeptSum):
        model.objects.all().delete()
    raw = client.get(f"/api/v1/summary?{query}").json()
    for part in ("now", "scenarios", "labels", "targets"):
        assert raw[part] == answer[part]


def groups_of(lives: Lives, zone: str) -> int:
    """How many unbroken times with incidents of these assets overlap March, by scenario."""
    by_scenario: dict[str, list[tuple[int, int | None]]] = {}
    for (scenario, _), life in lives.items():
        by_scenario.setdefault(scenario, []).extend(incidents_in(month_of(zone), life))
    return sum(map(unbroken, by_scenario.values()))


@pytest.mark.spread(1)
@pytest.mark.parametrize("history", ZONES, indirect=True)
@pytest.mark.parametrize("scenario", TARGETS)
def test_a_mail_has_the_figures_of_its_month(history: Lives, scenario: str):
    zone, known = ReportingZone.objects.current().key, scenarios()[scenario]
    month = containing("month", date(2026, 3, 1))
    mail = content_of(summary(Question((scenario,), month), NOW), known.title, "every month", "x")
    own = of_scenario(history, scenario)
    kinds = kinds_in(month_of(zone), own, zone)
    incidents = sum(len(incidents_in(month_of(zone), life)) for life in own.values())
    share = kinds["good"] / (kinds["good"] + kinds["bad"])
    shown = f"{floor(share * 100_000 + 1e-6) / 1_000:.3f}".rstrip("0").rstrip(".")
    verb = "met" if share * 100 >= TARGETS[scenario] else "missed"
    assert f"available {shown} %" in mail.subject
    assert ("target missed" in mail.subject) is (verb == "missed")
    figures = {each.name: each.now for each in mail.changes}
    assert (figures["Incidents"], figures["Availability"]) == (str(incidents), f"{shown} %")
    assert figures["Target"] == f"{TARGETS[scenario]:g} %, {verb}"
    assert f"{shown} % of the time" in mail.text()
