"""The pages of summaries: what they say of figures, and that the lists behind agree with them."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS, iso, utc_datetime
from dashboard.notify.summaries import phrases
from dashboard.notify.summaries.models import (
    Alarm,
    FigureCheck,
    ImpairedSpan,
    Presence,
    Progress,
    ReportingZone,
    Target,
)
from dashboard.notify.summaries.report import SummaryReport
from dashboard.watch.annotations.models import Label
from dashboard.watch.commands.models import Command
from dashboard.watch.incidents.models import Incident
from support.run.stack import ROOT
from support.web.clocks import at
from support.web.pages import text_of
from support.web.row_cache import cached_rows
from support.web.summaries import sum_up
from support.web.web_fixtures import logged_in, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

MONDAY = at("2026-03-02")
"""The beginning of week 10 of 2026."""
WEEK = "/summary/?period=week&date=2026-03-04&scenario=attack"


def on_board(asset: str, begin: int = MONDAY - 20 * DAY_MS) -> None:
    Presence.objects.create(scenario="attack", asset=asset, place=f"p{asset}", begin=begin)


def impaired(
    asset: str, begin: int, ms: int, *, unconfirmed: bool = False, **incident: Any
) -> None:
    """A time in trouble, from so long after Monday on; bad time with its incident."""
    began, ended = MONDAY + begin, MONDAY + begin + ms
    place = f"{asset}{begin:020}"
    ImpairedSpan.objects.create(
        scenario="attack", asset=asset, place=place, begin=began, end=ended, end_place=place + "z",
        state="under-attack", unconfirmed=unconfirmed,
    )  # fmt: skip
    if not unconfirmed:
        Incident.objects.create(
            scenario="attack", asset=asset, place=place, began_at=began, ended_at=ended,
            state="under-attack", worst="under-attack", **incident,
        )  # fmt: skip


@pytest.fixture
def history() -> None:
    """Two weeks of four sites. In the second: three incidents of two, one of them flapping."""
    cached_rows("two weeks of four sites", two_weeks)


def two_weeks() -> None:
    for asset in ("shop", "bank", "press", "calm"):
        on_board(asset)
    of = {"shop": "Acme", "bank": "Acme", "press": "Daily"}
    for asset, value in of.items():
        Label.objects.create(
            scenario="attack", asset=asset, key="customer", value=value, source="person", name="x",
            at=1,
        )  # fmt: skip
    impaired("press", -3 * DAY_MS, 6 * HOUR_MS)
    shop: dict[str, Any] = {
        "acknowledged_at": MONDAY + 10 * HOUR_MS + 4 * MINUTE_MS,
        "acknowledged_by": "ada",
    }
    impaired("shop", 10 * HOUR_MS, HOUR_MS, **shop)
    impaired("shop", 11 * HOUR_MS + 5 * MINUTE_MS, 25 * MINUTE_MS)
    impaired("bank", 10 * HOUR_MS + 30 * MINUTE_MS, 2 * HOUR_MS)
    impaired("calm", DAY_MS, HOUR_MS, unconfirmed=True)
    Alarm.objects.create(
        scenario="attack", asset="calm", place="a", begin=MONDAY + DAY_MS,
        end=MONDAY + 25 * HOUR_MS, end_place="b", state="under-attack", came_true=False,
    )  # fmt: skip
    Target.objects.create(scenario="attack", percent=99.0)
    Progress.objects.mark({"attack": MONDAY - 20 * DAY_MS})
    sum_up(MONDAY + 30 * DAY_MS)


def page(client: Client, path: str = WEEK, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content[:500]
    return answer.content.decode()


def tiles(client: Client, path: str = WEEK) -> dict[str, Any]:
    context = client.get(path).context
    return {tile.name: tile for tile in (*context["tiles"], *context["classes"])}


# ---- what is said ---------------------------------------------------------------------------


def test_one_sentence_says_how_the_week_went(history: None, client: Client):
    sentence = client.get(WEEK).context["sentence"]
    assert sentence == (
        "There were 3 attacks on 2 assets, 2 more than the week before. Assets were in a good "
        "state for 99.49 % of the time, 0.384 points better than the week before. The target of "
        "99 % is met, with 49 % of the error budget left."
    )


def test_figures_are_compared_in_words(history: None, client: Client):
    all_tiles = tiles(client)
    assert (all_tiles["incidents"].value, all_tiles["incidents"].note) == ("3", "on 2 assets")
    assert all_tiles["incidents"].change == phrases.FigureTrend("2 more", "arrow-up", "worse")
    assert all_tiles["bad"].value == "3 h 25 m"
    assert all_tiles["bad"].change == phrases.FigureTrend("2 h 35 m less", "arrow-down", "better")
    assert all_tiles["acknowledged"].value == "4 m 00 s"
    assert all_tiles["cleared"].value == "1 h 00 m"
    assert all_tiles["cleared"].note == "median; 95 of 100 within 2 h 00 m; 3 attacks"
    assert all_tiles["flapping"].value == all_tiles["false_alarms"].value == "1"
    assert all_tiles["unconfirmed"].value == "1 h 00 m"
    assert all_tiles["maintenance"].value == "0 s"
    body = page(client)
    assert "worse" in body
    assert body.count('class="how"') > len(all_tiles)


def test_every_figure_says_how_it_is_counted(history: None, client: Client):
    for tile in tiles(client).values():
        assert len(tile.explanation) > 40
        assert tile.explanation in re.sub(r"&#x27;", "'", page(client))


@pytest.mark.spread(4)
@pytest.mark.parametrize(
    ("name", "expected"),
    [("incidents", 3), ("availability", 3), ("acknowledged", 1), ("cleared", 3), ("flapping", 1),
     ("bad", 3), ("unconfirmed", 1), ("false_alarms", 1)],
)  # fmt: skip
def test_each_figure_links_to_the_list_that_it_is_made_of(
    history: None, client: Client, name: str, expected: int
):
    all_tiles = tiles(client)
    rows = client.get(all_tiles[name].link).context["page"].rows
    assert len(rows) == expected
    if name == "bad":
        summary = client.get(WEEK).context["summary"]
        assert sum(row.within for row in rows) == summary.whole.now.times.bad


def alarm(asset: str, begin: int, end: int | None, **changes: Any) -> None:
    """A time in which a worse state was pending, from so long after Monday on."""
    came = {"came_true": False if end is not None else None}
    Alarm.objects.create(
        **{"scenario": "attack", "asset": asset, "place": f"{begin:020}", "begin": MONDAY + begin,
           "end": None if end is None else MONDAY + end, "end_place": "" if end is None else "z",
           "state": "under-attack"} | came | changes,
    )  # fmt: skip


@pytest.fixture
def alarms(history: None) -> None:
    """Four more: of the week one came true and one came to nothing; one ended just after it; one
    goes on."""
    cached_rows("two weeks of four sites, with alarms", four_alarms)


def four_alarms() -> None:
    alarm("shop", DAY_MS, DAY_MS + HOUR_MS, came_true=True)
    alarm("shop", -HOUR_MS, 0, state="suspicious")
    alarm("bank", 6 * DAY_MS, 7 * DAY_MS)
    alarm("press", 2 * DAY_MS, None)
    Progress.objects.mark({"attack": MONDAY - DAY_MS})
    sum_up(MONDAY + 30 * DAY_MS)


def listed(client: Client, link: str, **more: str) -> list[tuple[str, str, str]]:
    rows = client.get(link, more or None).context["page"].rows
    return [(each.asset, each.outcome_text, each.lasted) for each in rows]


def test_the_figure_of_false_alarms_is_the_number_of_its_list(alarms: None, client: Client):
    tile = tiles(client)["false_alarms"]
    rows = listed(client, tile.link)
    assert [asset for asset, *_ in rows] == ["calm", "shop"]
    assert tile.value == str(len(rows))
    after = client.get(WEEK).context["ways"]["next"]
    of_after = tiles(client, after)["false_alarms"]
    assert (of_after.value, [asset for asset, *_ in listed(client, of_after.link)]) == (
        "1", ["bank"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "assets"),
    [
        ("", ["press", "shop", "calm", "shop"]),
        ("false", ["calm", "shop"]),
        ("true", ["shop"]),
        ("pending", ["press"]),
    ],
)
def test_alarms_are_listed_by_what_came_of_them(
    alarms: None, client: Client, outcome: str, assets: list[str]
):
    week = {"start": "2026-03-02T00:00", "end": "2026-03-09T00:00", "outcome": outcome}
    assert [asset for asset, *_ in listed(client, "/summary/alarms/", **week)] == assets


def test_an_alarm_says_which_state_was_pending_how_long_and_whether_it_came_true(
    alarms: None, client: Client
):
    shop = listed(client, "/summary/alarms/", asset="shop")
    assert shop == [
        ("shop", "came true", "1 h 00 m"), ("shop", "came to nothing", "1 h 00 m")
    ]  # fmt: skip
    body = page(client, "/summary/alarms/?asset=shop")
    assert "Came to nothing" in body
    assert "Suspicious" in body
    assert 'href="/summary/alarms/alarms.csv?asset=shop"' in body
    nothing = page(client, "/summary/alarms/?asset=nothing")
    assert "Alarms are kept for 90 days" in nothing
    assert "Expected one of the choices" in page(client, "/summary/alarms/?outcome=x", 422)
    assert listed(client, "/summary/alarms/", scenario="attack") == listed(
        client, "/summary/alarms/"
    )
    other = next(name for name in scenarios() if name != "attack")
    assert listed(client, "/summary/alarms/", scenario=other) == []


def test_alarms_are_a_file(alarms: None, client: Client):
    answer: Any = client.get("/summary/alarms/alarms.csv?asset=shop&outcome=true")
    begun, ended = MONDAY + DAY_MS, MONDAY + DAY_MS + HOUR_MS
    assert b"".join(answer.streaming_content).decode().splitlines() == [
        "scenario,asset,state,began_at,ended_at,duration_ms,outcome",
        f"attack,shop,under-attack,{iso(begun)},{iso(ended)},{HOUR_MS},true",
    ]
    answer = client.get("/summary/alarms/alarms.ndjson?outcome=pending")
    (line,) = [json.loads(each) for each in b"".join(answer.streaming_content).splitlines()]
    assert (line["began_at"], line["ended_at"], line["duration_ms"]) == (
        MONDAY + 2 * DAY_MS,
        None,
        None,
    )
    assert AuditEntry.objects.filter(action="export.alarms").count() == 2
    assert client.get("/summary/alarms/alarms.csv?outcome=x").status_code == 422
    assert client.get("/summary/alarms/alarms.pdf").status_code == 404


def test_the_rows_of_labels_link_to_their_groups(history: None, client: Client):
    rows = {
        row.group.name: row for row in client.get(f"{WEEK}&label=customer").context["label_rows"]
    }
    assert rows["Acme"].now.incidents == 1  # the three overlap, or touch what does
    for row in rows.values():
        grouped = client.get(row.links.incidents).context["grouped"]
        behind = grouped.groups if hasattr(grouped, "groups") else grouped.rows
        assert len(behind) == row.now.incidents, row.group.name


def test_worst_assets_link_to_their_incidents(history: None, client: Client):
    worst = client.get(WEEK).context["worst"]
    assert [each.asset.asset for each in worst][:2] == ["bank", "shop"]
    for each in worst:
        assert len(client.get(each.link).context["page"].rows) == each.asset.incidents


def test_the_parts_add_up_to_the_whole(history: None, client: Client):
    context = client.get(f"{WEEK}&label=customer").context
    summary = context["summary"]
    assert sum(each.bad or 0 for each in summary.heat) == summary.whole.now.times.bad
    assert sum(ms or 0 for day in summary.week for ms in day) == summary.whole.now.times.bad
    assert sum(row.now.times.bad for row in context["label_rows"]) == summary.whole.now.times.bad
    assert sum(row.ms for row in context["timelines"]) == sum(e.within for e in summary.incidents)


# ---- periods ----------------------------------------------------------------------------------


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    ("query", "title", "days"),
    [
        ("period=day&date=2026-03-02", "2026-03-02", "Monday 2026-03-02"),
        ("period=week&date=2026-03-08", "Week 10 of 2026", "2026-03-02 to 2026-03-08"),
        ("period=month&date=2026-03-04", "March 2026", "2026-03-01 to 2026-03-31"),
        ("period=quarter&date=2026-03-04", "Quarter 1 of 2026", "2026-01-01 to 2026-03-31"),
        ("period=year&date=2026-03-04", "2026", "2026-01-01 to 2026-12-31"),
        ("period=dates&first=2025-12-30&last=2026-01-02", "2025-12-30 to 2026-01-02",
         "2025-12-30 to 2026-01-02"),
    ],
)  # fmt: skip
def test_every_period_has_its_name_and_its_days(
    history: None, client: Client, query: str, title: str, days: str
):
    body = page(client, f"/summary/?{query}")
    assert f"<h1>{title}</h1>" in body
    assert f'<p class="lead">{days}' in body


def test_before_and_next_lead_there_and_back(history: None, client: Client):
    before = client.get(f"{WEEK}&hours=service&label=customer").context["ways"]["before"]
    assert dict(parse_qsl(urlsplit(before).query)) == {
        "period": "week", "date": "2026-02-23", "scenario": "attack", "label": "customer",
        "hours": "service",
    }  # fmt: skip
    assert "date=2026-03-02" in client.get(before).context["ways"]["next"]


def test_a_period_that_goes_on_says_so_and_has_none_after_it(
    stopped_clock: int, history: None, client: Client
):
    answer = client.get(f"/summary/?period=year&date={utc_datetime(stopped_clock).date()}")
    assert "so far" in answer.content.decode()
    assert answer.context["ways"]["next"] == ""


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("period=fortnight", "period"),
        ("date=yesterday", "date"),
        ("date=0001-01-01", "date"),
        ("period=dates&first=2026-03-04", "last"),
        ("period=dates&first=2026-03-04&last=2026-03-01", "last"),
        ("period=dates&first=2000-01-01&last=2026-03-01", "last"),
        ("scenario=nothing", "scenario"),
        ("label=nothing", "label"),
    ],
)
def test_what_is_no_period_is_told_at_its_field(client: Client, query: str, field: str):
    answer = client.get(f"/summary/?{query}")
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert client.get(f"/summary/figures.csv?{query}").status_code == 422
    unknown = 404 if field == "scenario" else 422
    assert client.get(f"/api/v1/summary?{query}").status_code == unknown


def test_an_empty_summary_says_what_to_do(client: Client):
    body = page(client, "/summary/")
    assert "Nothing to sum up" in body
    assert "To the board" in body


def test_a_sheet_says_what_it_is_of(history: None, client: Client, settings: Any):
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"organisation": "A & B"})
    shown = page(client, f"{WEEK}&label=customer&hours=service")
    head = re.search(r'<p class="print-only sheet-head">(.*?)</p>', shown, re.DOTALL)
    assert head
    words = text_of(head[1])
    assert words.startswith("A & B , Tallyboard Attacks")
    for part in ("service hours", "by the label customer", "days and hours of UTC"):
        assert part in words
    assert re.search(r"counted \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", words)


def pin(asset: str, begin: int) -> None:
    Command.objects.create(
        id=uuid4(), scenario="attack", asset=asset, kind="set", state="clear", username="ada",
        source="web", status="answered", outcome="applied", created_at=MONDAY + begin,
        until=MONDAY + begin + HOUR_MS,
    )  # fmt: skip


@pytest.fixture
def nine() -> None:
    """A week of nine sites of as many customers, in a zone off the full hour."""
    ReportingZone.objects.create(name="Asia/Kathmandu")
    for n in range(9):
        on_board(asset := f"s{n}")
        Label.objects.create(
            scenario="attack", asset=asset, key="customer", value=asset, source="person", name="x",
            at=1,
        )  # fmt: skip
        impaired(asset, n * HOUR_MS, HOUR_MS)
        pin(asset, n * MINUTE_MS)
    FigureCheck.objects.create(begun_at=MONDAY, ended_at=MONDAY)
    Target.objects.create(scenario="attack", percent=99.0)
    Progress.objects.mark({"attack": MONDAY - 20 * DAY_MS})
    sum_up(MONDAY + 30 * DAY_MS)


def test_a_sheet_has_its_times_in_the_zone_of_the_summary(nine: None, client: Client):
    words = text_of(page(client))
    moments = re.findall(r"(\w+) +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+)", words)
    assert {"counted", "at", "Counted"} <= {word for word, _ in moments}
    assert {moment[-5:] for _, moment in moments} == {"+0545"}
    assert len(re.findall(r"\d\d:\d\d:\d\d \+0545", words)) >= 18  # overrides
    assert not re.search(r"\d\d:\d\d UTC", words)


def rows_on_paper() -> dict[str, int]:
    """How many rows a sheet has of each part that it cuts off; the empty name is of all others."""
    sheet = (ROOT / "static/css/summary.css").read_text().partition("@media print")[2]
    rules = re.findall(r"^ *(.*)\.data tbody tr:nth-child\(n \+ (\d)\)", sheet, re.MULTILINE)
    return {
        part: int(first) - 1
        for parts, first in rules
        for part in re.findall(r"of-(\w+)", parts) or [""]
    }


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("part", "note"),
    [
        ("labels", "the first 7 of 10"),  # nine, and assets without it
        ("worst", "the first 5 of 9"),
        ("timelines", "the first 5 of 9 assets"),
        ("overrides", "the newest 3"),
    ],
)
def test_a_sheet_says_where_it_leaves_rows_out(nine: None, client: Client, part: str, note: str):
    shown = page(client, f"{WEEK}&label=customer")
    heading = re.search(rf'<h2 id="{part}-title">(.*?)</h2>', shown, re.DOTALL)
    assert heading
    assert f'<small class="print-only">{note}</small>' in heading[1]
    assert str(rows_on_paper()[part]) in note.split()


def test_a_sheet_has_each_target(nine: None, client: Client):
    shown = page(client)
    assert "a burn of 1 spends just the budget</small>" in shown
    assert set(rows_on_paper()) == {"labels", "worst", "timelines", "overrides", "runs"}
    line = re.search(r'<svg viewBox="0 (\S+) 1000 (\S+)".*?points="([^"]+)"', shown, re.DOTALL)
    assert line
    top, height = float(line[1]), float(line[2])
    heights = [float(point.partition(",")[2]) for point in line[3].split()]
    assert top < min(heights) <= max(heights) < top + height


def test_the_link_that_is_sent_holds_everything(history: None, client: Client):
    link = client.get(f"{WEEK}&label=customer").context["link"]
    assert link == (
        "http://testserver/summary/?period=week&date=2026-03-02&scenario=attack&label=customer"
    )
    assert page(client, link.removeprefix("http://testserver")).count("Week 10 of 2026") > 1


# ---- files and REST ---------------------------------------------------------------------------


def lines(client: Client, table: str, query: str = "") -> list[dict[str, str]]:
    answer: Any = client.get(f"/summary/{table}.csv?{WEEK.partition('?')[2]}{query}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


def test_the_tables_are_files(history: None, client: Client):
    now, before = lines(client, "figures")
    assert (now["period"], now["bad_ms"], now["incidents"]) == ("now", str(205 * MINUTE_MS), "3")
    assert before["period"] == "before"
    assert len(lines(client, "hours")) == 7 * 24
    assert next(each["day"] for each in lines(client, "days")) == "2026-03-02"
    assert [each["asset"] for each in lines(client, "assets")][:2] == ["bank", "shop"]
    assert {each["value"] for each in lines(client, "labels", "&label=customer")} >= {"Acme"}
    incidents = lines(client, "incidents")
    assert len(incidents) == 3
    first = Incident.objects.get(pk=incidents[0]["id"])
    assert [incidents[0][name] for name in ("began_at", "ended_at")] == [
        iso(first.began_at),
        iso(first.ended_at or 0),
    ]
    assert (now["begin"], now["end"]) == (iso(MONDAY), iso(MONDAY + 7 * DAY_MS))
    for table in ("scenarios", "overrides", "runs"):
        lines(client, table)
    assert AuditEntry.objects.filter(action="export.summary").count() == 9
    assert client.get("/summary/nothing.csv").status_code == 404
    assert client.get("/summary/figures.pdf").status_code == 404


def test_rest_has_the_same_figures(history: None, client: Client):
    query = f"{WEEK.partition('?')[2]}&label=customer"
    answer = client.get(f"/api/v1/summary?{query}").json()
    assert answer["period"] == {"unit": "week", "first": "2026-03-02", "last": "2026-03-08"}
    assert answer["now"]["incidents"] == 3
    assert answer["now"]["bad_ms"] == 205 * MINUTE_MS
    assert answer["sentence"] == client.get(WEEK).context["sentence"]
    assert [each["asset"] for each in answer["worst"]][:2] == ["bank", "shop"]
    assert len(answer["incidents"]) == answer["incidents_total"] == 3
    assert {each["name"] for each in answer["labels"]} >= {"Acme", "Daily"}


# ---- where a manager lands ----------------------------------------------------------------------


@pytest.mark.parametrize(("role", "page_of"), [("manager", "/summary/"), ("operator", "/")])
def test_a_manager_lands_on_the_summary(role: str, page_of: str):
    user = User.objects.create_user("zoe", password="a long enough password")
    user.groups.add(*make_user(role).groups.all())
    form = {"login": "zoe", "password": "a long enough password"}
    assert Client().post("/account/login/", form)["Location"] == page_of
    front = Client().post("/account/login/?next=/", form | {"next": "/"})
    assert front["Location"] == page_of
    for kept in ("/incidents/", "/?state=down"):
        to = Client().post(f"/account/login/?next={kept}", form | {"next": kept})
        assert to["Location"] == kept


# ---- settings -----------------------------------------------------------------------------------


def filled(admin: Client, **changes: str) -> dict[str, str]:
    """The form of the settings as a browser would send it."""
    context = admin.get("/summary/settings/").context
    form = {"zone": str(context["zone"]["zone"].value())}
    for each in context["targets"]:
        form |= {field.html_name: str(field.value() or "") for field in each}
    return form | {name.replace("__", "-"): value for name, value in changes.items()}


def test_targets_service_hours_and_zone_are_saved_and_noted(admin: Client):
    form = filled(
        admin, zone="Europe/Berlin", attack__percent="99.9", attack__day0="8-12, 13-17",
        attack__day6="0-24",
    )  # fmt: skip
    assert admin.post("/summary/settings/", form).status_code == 302
    assert ReportingZone.objects.get().name == "Europe/Berlin"
    target = Target.objects.get(scenario="attack")
    assert target.percent == 99.9
    assert target.hours == [[8, 9, 10, 11, 13, 14, 15, 16], [], [], [], [], [], list(range(24))]
    assert filled(admin)["attack-day0"] == "8-12, 13-17"
    facts = {entry.action: entry.facts for entry in AuditEntry.objects.all()}
    assert set(facts) == {"summary.zone", "summary.target"}
    assert admin.post("/summary/settings/", filled(admin)).status_code == 302  # nothing changed
    assert AuditEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"zone": "Atlantis"}, "Expected an IANA time zone"),
        ({"attack__percent": "101"}, "less than or equal to 100"),
        ({"attack__day0": "8-"}, "Expected whole hours"),
        ({"attack__day0": "18-8"}, "Expected whole hours"),
        ({"attack__day0": "8-25"}, "Expected whole hours"),
    ],
)
def test_what_cannot_be_measured_by_is_told_and_kept(
    admin: Client, changes: dict[str, str], says: str
):
    answer = admin.post("/summary/settings/", filled(admin, **changes))
    assert answer.status_code == 422
    body = answer.content.decode()
    assert says in body
    assert f'value="{next(iter(changes.values()))}"' in body
    assert not Target.objects.exists()
    assert not ReportingZone.objects.exists()


def test_a_manager_is_offered_no_settings(history: None, client: Client):
    assert "/summary/settings/" not in page(client)
    assert "/summary/settings/" in page(logged_in(make_user("admin")))


# ---- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "100 %"), (0.9999999, "99.999 %"), (0.5, "50 %"), (0.99512, "99.512 %"), (None, "–")],
)
def test_a_percentage_is_never_rounded_up_to_the_whole(share: float | None, words: str):
    assert phrases.percent(share) == words


def test_report_is_complete_without_any_history(client: Client):
    assert SummaryReport(
        client.get(f"/summary/?{urlencode({'period': 'year'})}").context["summary"]
    )
