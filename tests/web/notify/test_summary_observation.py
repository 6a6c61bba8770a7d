"""What was not observed is never shown as quiet: a new product, a time to come, hours without the
job."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS, utc_datetime
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.models import Transition
from dashboard.notify.summaries import phrases
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.digests import content_of
from dashboard.notify.summaries.figures import Question
from dashboard.notify.summaries.models import (
    Gap,
    HourRow,
    ImpairedSpan,
    Presence,
    Progress,
    ReportingZone,
    Target,
)
from dashboard.serve.materialiser.worker import SinkBatch
from dashboard.serve.materialiser.writer import write
from dashboard.watch.incidents.models import Incident
from domain.history.periods import DAY, WEEK, containing
from support.web.clocks import at, stop_clock
from support.web.heartbeats import heartbeat, store
from support.web.summaries import sum_up
from wire.job import Heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

MONDAY = at("2026-03-02")
"""The beginning of week 10 of 2026."""
NOW = MONDAY + 2 * DAY_MS + 12 * HOUR_MS
"""Wednesday noon of that week."""
THIS_WEEK = "/summary/?period=week&date=2026-03-04"
TUESDAY = "/summary/?period=day&date=2026-03-03&scenario=attack"


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is NOW."""
    stop_clock(monkeypatch, NOW)


def present(begin: int, scenario: str = "attack", asset: str = "shop") -> None:
    Presence.objects.create(scenario=scenario, asset=asset, place=f"p{begin}", begin=begin)
    Progress.objects.mark({scenario: begin})


def bad(
    begin: int, ms: int | None, scenario: str = "attack", asset: str = "shop", state: str = ""
) -> None:
    """An incident with its span; without a length it goes on."""
    end = None if ms is None else begin + ms
    state = state or scenarios()[scenario].states[0].name
    Incident.objects.create(
        scenario=scenario, asset=asset, place=f"{begin:020}", began_at=begin, ended_at=end,
        state=state, worst=state,
    )  # fmt: skip
    ImpairedSpan.objects.create(
        scenario=scenario, asset=asset, place=f"{begin:020}", begin=begin, end=end,
        end_place="" if end is None else f"{end:020}", state=state, unconfirmed=False,
    )  # fmt: skip


def gap(begin: int, end: int, scenario: str = "attack") -> None:
    Gap.objects.create(scenario=scenario, begin=begin, end=end)


def beat(at: int, scenario: str = "attack") -> Heartbeat:
    return heartbeat(at, scenario, epoch=3, offset=at // 1000)


def heard(at: int, scenario: str = "attack") -> None:
    """The newest heartbeat of a scenario that the database has."""
    store(beat(at, scenario))


def sum_up_all() -> None:
    sum_up(NOW, *scenarios())


def tile(context: Any, name: str) -> Any:
    return next(each for each in (*context["tiles"], *context["classes"]) if each.name == name)


def cells(context: Any, picture: str = "calendar") -> list[Any]:
    return [cell for _, row in context[picture].rows for cell in row]


def lines(client: Client, table: str, address: str) -> list[dict[str, str]]:
    answer: Any = client.get(f"/summary/{table}.csv?{address.partition('?')[2]}")
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


# ---- a product that is new --------------------------------------------------------------------


@pytest.fixture
def new() -> None:
    """It has lived for 12 minutes, and an attack on one of two sites goes on for 3 of them."""
    present(NOW - 12 * MINUTE_MS)
    present(NOW - 12 * MINUTE_MS, asset="bank")
    bad(NOW - 3 * MINUTE_MS, None)
    Target.objects.create(scenario="attack", percent=50)
    sum_up_all()


def test_a_product_of_twelve_minutes_says_that_no_more_was_observed(new: None, client: Client):
    context = client.get("/summary/").context
    assert context["title"] == "Week 10 of 2026"
    assert context["sentence"] == (
        "There was 1 incident on 1 asset (1 attack, Connectivity not observed). Assets were in a "
        "good state for 87.5 % of the time; there is nothing from the week before to compare with. "
        "12 m 00 s of 2 d 12 h (0.3 %) were observed. So far, Attacks met their target of 50 % in "
        "the 12 m 00 s that were observed, with 75 % of the error budget left."
    )
    assert [cell.level for cell in cells(context)] == [-1, -1, 4, -1, -1, -1, -1]
    words = [cell.words for cell in cells(context)]
    assert words[0] == "Monday 2026-03-02: not observed"
    assert words[2] == "Wednesday 2026-03-04: 3 m 00 s in bad states, 11 h 48 m not observed"
    assert [cell.partly for cell in cells(context)].count(True) == 1
    assert context["plotted"]["days"]["minutes"] == [None, None, 3.0, None, None, None, None]
    hours = [cell.level for cell in cells(context, "week")]
    assert [n for n, level in enumerate(hours) if level >= 0] == [2 * 24 + 11]


def test_of_the_week_before_a_product_there_are_no_figures(new: None, client: Client):
    week = "/summary/?period=week&date=2026-02-25&scenario=attack"
    answer = client.get(week)
    assert answer.context["sentence"] == (
        "Not observed: the first record is from 2026-03-04 11:48:00 UTC. "
        "The target of 50 % is not judged, as nothing was observed."
    )
    tiles = (*answer.context["tiles"], *answer.context["classes"])
    assert {each.value for each in tiles} == {"not observed"}
    assert {cell.level for cell in cells(answer.context)} == {-1}
    page = answer.content.decode()
    assert '<td class="num" data-value="">not observed</td>' in page
    assert "nothing in bad states" not in page
    now = lines(client, "figures", week)[0]
    assert (now["observed"], now["observed_ms"], now["incidents"], now["bad_ms"]) == (
        "not observed", "0", "", "",
    )  # fmt: skip
    for table in ("days", "hours"):
        assert {(each["observed"], each["bad_ms"]) for each in lines(client, table, week)} == {
            ("not observed", "")
        }
    rest = client.get(f"/api/v1/summary?{week.partition('?')[2]}").json()
    assert (rest["now"]["observed"], rest["now"]["incidents"]) == ("not observed", None)
    assert {each["bad_ms"] for each in rest["days"]} == {None}
    assert {hour for day in rest["week"] for hour in day} == {None}


def test_the_first_record_is_told_in_the_zone_of_the_summary():
    ReportingZone.objects.create(name="Asia/Tokyo")
    present(NOW - 12 * MINUTE_MS)
    report = summary(Question(("attack",), containing(WEEK, utc_datetime(NOW - 7 * DAY_MS).date())))
    assert "the first record is from 2026-03-04 20:48:00 JST." in phrases.sentence(report)


def test_a_digest_of_a_time_that_was_not_observed_says_so(new: None):
    report = summary(Question(("attack",), containing(WEEK, utc_datetime(NOW - 7 * DAY_MS).date())))
    mail = content_of(report, "Attacks", "every week", "https://x/end")
    assert mail.subject == "Attacks, Week 9 of 2026: not observed"
    assert mail.sentence.startswith(
        "Not observed: the first record is from 2026-03-04 11:48:00 UTC."
    )
    assert mail.sentence == phrases.sentence(report)
    assert {each.now for each in mail.changes} == {"not observed"}
    so_far = summary(Question(("attack",), containing(DAY, utc_datetime(NOW).date())))
    mail = content_of(so_far, "Attacks", "every day", "https://x/end")
    assert ("Time in bad states", "3 m 00 s") in {each[:2] for each in mail.changes}
    assert mail.sentence == phrases.sentence(so_far)
    assert " 12 m 00 s of 12 h 00 m (1.6 %) were observed." in mail.sentence
    assert {each.before for each in mail.changes} == {"not observed"}
    assert {row.before for row in mail.rows} == {"not observed"}


# ---- a time to come ---------------------------------------------------------------------------


def test_a_week_to_come_has_no_incidents_though_some_go_on(new: None, client: Client):
    answer = client.get("/summary/?period=week&date=2026-03-11&scenario=attack")
    assert answer.context["sentence"].startswith("Not observed: this time has not begun.")
    assert tile(answer.context, "incidents").value == "not observed"
    assert answer.context["timelines"] == []
    assert {cell.words.rpartition(": ")[2] for cell in cells(answer.context)} == {"not observed"}
    page = answer.content.decode()
    assert "level--1" in page
    assert '<p class="lead">2026-03-09 to 2026-03-15, not begun</p>' in page


# ---- hours without the job --------------------------------------------------------------------


@pytest.fixture
def silent() -> None:
    """Two sites for a month. On Tuesday the job was not heard of from 8:20 to 11:00; one was under
    attack from 8 to 12."""
    for asset in ("shop", "bank"):
        present(MONDAY - 28 * DAY_MS, asset=asset)
    bad(MONDAY + DAY_MS + 8 * HOUR_MS, 4 * HOUR_MS)
    gap(MONDAY + DAY_MS + 8 * HOUR_MS + 20 * MINUTE_MS, MONDAY + DAY_MS + 11 * HOUR_MS)
    Target.objects.create(scenario="attack", percent=97)


@pytest.mark.parametrize("summed", [False, True])
def test_hours_without_the_job_count_neither_as_good_nor_as_bad(
    silent: None, client: Client, summed: bool
):
    if summed:
        sum_up_all()
    context = client.get(TUESDAY).context
    now = context["summary"].whole.now
    seen = DAY_MS - 160 * MINUTE_MS
    assert now.times == (2 * seen - 80 * MINUTE_MS, 80 * MINUTE_MS, 0, 0)
    assert now.observed == (seen, DAY_MS, True)
    assert context["sentence"] == (
        "There was 1 attack on 1 asset. Assets were in a good state for 96.875 % of the time; too "
        "little was observed for a comparison with the day before. 21 h 20 m of 1 d 00 h (88.8 %) "
        "were observed. The target of 97 % is missed by 0.125 points in the 21 h 20 m that were "
        "observed: 3 m 12 s more than the error budget was spent."
    )
    assert tile(context, "availability").note == (
        "target 97 %, judged over 21 h 20 m of 1 d 00 h (88.8 %)"
    )
    tuesday = cells(context, "week")
    assert len(tuesday) == 24
    assert [cell.level for cell in tuesday[8:12]] == [2, -1, -1, 4]
    assert [n for n, cell in enumerate(tuesday) if cell.partly] == [8]
    assert tuesday[8].words == "Tue 08:00 to 09:00: 20 m 00 s in bad states, 40 m 00 s not observed"
    assert context["gaps"] == [(347.2, 111.1)]
    assert lines(client, "days", TUESDAY)[0]["observed"] == "partly"
    rest = client.get(f"/api/v1/summary?{TUESDAY.partition('?')[2]}").json()
    low = MONDAY + DAY_MS + 8 * HOUR_MS + 20 * MINUTE_MS
    assert rest["unobserved"] == [{"begin": low, "end": low + 160 * MINUTE_MS}]
    assert rest["week"][1][8:12] == [20 * MINUTE_MS, None, None, 60 * MINUTE_MS]


def test_a_day_without_the_job_has_no_figures_though_an_attack_goes_on(client: Client):
    present(MONDAY - 28 * DAY_MS)
    bad(MONDAY, None)
    gap(MONDAY + 20 * HOUR_MS, MONDAY + 50 * HOUR_MS)
    sum_up_all()
    context = client.get(TUESDAY).context
    assert context["sentence"] == "Not observed: the job sent no heartbeat."
    assert tile(context, "incidents").value == tile(context, "bad").value == "not observed"
    assert context["worst"] == context["timelines"] == []
    week = client.get(f"{THIS_WEEK}&scenario=attack").context
    assert [cell.level for cell in cells(week)][:3] == [4, -1, 2]
    assert week["summary"].whole.now.times.bad == 30 * HOUR_MS


def test_a_job_that_is_silent_now_observes_nothing(client: Client):
    present(MONDAY)
    heard(NOW - 3 * HOUR_MS)
    sum_up_all()
    today = client.get("/summary/?period=day&date=2026-03-04&scenario=attack").context
    assert "9 h 00 m of 12 h 00 m (75 %) were observed." in today["sentence"]
    assert today["summary"].whole.now.times == (9 * HOUR_MS, 0, 0, 0)
    BucketStatus.objects.update(at=NOW - 4 * MINUTE_MS)  # a restart
    today = client.get("/summary/?period=day&date=2026-03-04&scenario=attack").context
    assert "were observed" not in today["sentence"]


def test_the_first_heartbeat_after_a_silence_leaves_a_gap(client: Client):
    present(MONDAY)
    write(SinkBatch(beats={"attack/0": beat(NOW - 5 * HOUR_MS)}), scenarios(), NOW - 5 * HOUR_MS)
    sum_up_all()
    for beaten in (NOW - 2 * HOUR_MS, NOW - 2 * HOUR_MS + 1_000, NOW - 2 * HOUR_MS + 4 * MINUTE_MS):
        write(SinkBatch(beats={"attack/0": beat(beaten)}), scenarios(), beaten)
    assert list(Gap.objects.values_list("scenario", "begin", "end")) == [
        ("attack", NOW - 5 * HOUR_MS, NOW - 2 * HOUR_MS)
    ]
    assert Progress.objects.get(scenario="attack").dirty_since == NOW - 5 * HOUR_MS


def test_heartbeats_that_the_materialiser_reads_late_are_no_gap():
    present(MONDAY)
    heard(NOW - 5 * HOUR_MS)
    sum_up_all()  # while nothing is heard, as if the job were silent
    for beaten in range(NOW - 5 * HOUR_MS, NOW, 4 * MINUTE_MS):
        write(SinkBatch(beats={"attack/0": beat(beaten)}), scenarios(), NOW)
    assert not Gap.objects.exists()
    assert Progress.objects.get(scenario="attack").dirty_since == NOW - 5 * HOUR_MS
    sum_up_all()
    report = summary(Question(("attack",), containing(DAY, utc_datetime(NOW).date())))
    assert report.whole.now.times == (12 * HOUR_MS, 0, 0, 0)


@pytest.mark.parametrize("path", ["/summary/history/", "/summary/alarms/"])
def test_the_lists_behind_figures_say_what_of_their_time_was_not_observed(
    silent: None, client: Client, path: str
):
    def said(start: str, end: str) -> str:
        answer = client.get(path, {"scenario": "attack", "start": start, "end": end})
        note: str = answer.context["unobserved"]
        assert note in answer.content.decode()
        return note

    assert said("2026-03-02T00:00", "2026-03-03T00:00") == ""
    assert said("", "") == "Of this time, 2 h 40 m were not observed."
    assert said("2026-03-03T00:00", "2026-03-04T00:00") == said("", "")
    assert said("2026-03-03T09:00", "2026-03-03T10:00") == "Nothing of this time was observed."
    assert said("2026-01-01T00:00", "2026-01-02T00:00") == "Nothing of this time was observed."
    assert said("2026-03-05T00:00", "2026-03-06T00:00") == "Nothing of this time was observed."
    assert said("2026-03-04T11:00", "2026-03-04T14:00") == (
        "Of this time, 2 h 00 m were not observed."
    )


@pytest.mark.parametrize(("minutes", "compared"), [(143, True), (144, True), (145, False)])
@pytest.mark.parametrize("which", ["now", "before"])
def test_days_of_which_less_than_nine_tenths_was_observed_are_not_compared(
    client: Client, minutes: int, compared: bool, which: str
):
    present(MONDAY - 28 * DAY_MS)
    bad(MONDAY + DAY_MS + 20 * HOUR_MS, HOUR_MS)
    day = MONDAY + (DAY_MS if which == "now" else 0)
    gap(day + HOUR_MS, day + HOUR_MS + minutes * MINUTE_MS)
    answer = client.get(TUESDAY)
    context = answer.context
    marks = [tile(context, name).change for name in ("availability", "incidents", "bad")]
    marks += [context["scenario_rows"][0].change, context["worst"][0].change]
    assert [mark is not None for mark in marks] == [compared] * 5
    assert ("1 more than the day before" in context["sentence"]) is compared
    assert ("worse" in context["sentence"]) is compared
    assert ("Each is compared with the day before" in answer.content.decode()) is compared
    why = "too little was" if which == "now" else "too little of the day before was"
    assert (f"; {why} observed for a comparison" in context["sentence"]) is not compared
    digest = content_of(context["summary"], "Attacks", "every day", "https://x/end")
    assert (f"; {why} observed for a comparison" in digest.sentence) is not compared


def test_the_share_that_was_observed_is_alike_everywhere(silent: None, client: Client):
    context = client.get(TUESDAY).context
    share = (24 * 60 - 160) / (24 * 60)
    assert context["scenario_rows"][0].observed == "21 h 20 m of 1 d 00 h (88.8 %)"
    for table in ("figures", "scenarios", "targets", "days"):
        assert float(lines(client, table, TUESDAY)[0]["observed_share"]) == pytest.approx(share)
    rest = client.get(f"/api/v1/summary?{TUESDAY.partition('?')[2]}").json()
    parts = (rest["now"], rest["scenarios"][0]["now"], rest["days"][0])
    assert [part["observed_share"] for part in parts] == [pytest.approx(share)] * 3
    mail = content_of(context["summary"], "Attacks", "every day", "https://x/end")
    assert mail.changes[0][:2] == ("Observed", "21 h 20 m of 1 d 00 h (88.8 %)")
    week = client.get(f"{THIS_WEEK}&scenario=attack").context["summary"]
    assert [round(each.share, 3) for each in week.heat] == [1, 0.889, 1, 0, 0, 0, 0]


def test_a_note_on_deleted_changes_is_only_where_some_were(client: Client):
    present(MONDAY)
    Transition.objects.create(
        scenario="attack", asset="shop", place="0", version="1.1.0", at=MONDAY, state="clear",
        cause_type="report", cause="{}",
    )  # fmt: skip
    sum_up_all()
    ReportingZone.objects.choose("Europe/Berlin")
    sum_up_all()  # empty hours too, as far back as changes are kept
    hour = HourRow.objects.filter(end__lte=MONDAY - 20 * DAY_MS).latest("begin")
    quarter = "/summary/?period=quarter&date=2026-03-04&scenario=attack"
    assert "Single changes are known since" not in client.get(quarter).content.decode()
    HourRow.objects.filter(pk=hour.pk).update(good=HOUR_MS)
    assert "Single changes are known since" in client.get(quarter).content.decode()


def test_the_bad_time_before_is_unknown_where_nothing_was_observed(new: None, client: Client):
    [asset] = client.get(f"/api/v1/summary?{THIS_WEEK.partition('?')[2]}").json()["worst"]
    assert (asset["asset"], asset["before"]) == ("shop", None)


# ---- several scenarios ------------------------------------------------------------------------


@pytest.fixture
def several() -> None:
    """Attacks, outages, and clients that are challenged, in a week that was observed."""
    for name in ("attack", "connectivity", "clients"):
        present(MONDAY - 28 * DAY_MS, name, asset=f"a-{name}")
    bad(MONDAY, 6 * HOUR_MS, asset="a-attack")
    bad(MONDAY, HOUR_MS, "connectivity", "a-connectivity", "degraded")
    bad(MONDAY, 9 * HOUR_MS, "clients", "a-clients")
    sum_up_all()


MONDAY_PAGE = "/summary/?period=day&date=2026-03-02"


def test_incidents_are_counted_by_scenario_and_those_of_life_cycles_are_not(
    several: None, client: Client
):
    answer = client.get(MONDAY_PAGE)
    context = answer.context
    assert "There were 2 incidents on 2 assets (1 attack, 1 outage)" in context["sentence"]
    assert tile(context, "bad").value == "7 h 00 m"
    assert tile(context, "bad").note == (
        "Attacks: Under attack or Suspicious; Connectivity: Down or Degraded; all assets together"
    )
    assert [each.asset.asset for each in context["worst"]] == ["a-attack", "a-connectivity"]
    assert {each.asset for each in context["timelines"]} == {"a-attack", "a-connectivity"}
    page = answer.content.decode().partition("<main")[2]
    assert "Under attack by day" not in page
    assert "Time under attack" not in page
    networks = client.get(f"{MONDAY_PAGE}&scenario=connectivity")
    assert "There was 1 outage on 1 asset," in networks.context["sentence"]
    assert tile(networks.context, "bad").note == "Down or Degraded; all assets together"
    titles = [tile(each, "incidents").title for each in (context, networks.context)]
    assert titles == ["Incidents", "Outages"]
    said = networks.content.decode().partition('<p class="sentence">')[2]
    assert "nder attack" not in said
    only = client.get(f"{MONDAY_PAGE}&scenario=clients").context
    assert "There was 1 incident on 1 asset" in only["sentence"]


def test_targets_that_differ_are_told_each_by_itself(several: None, client: Client):
    Target.objects.create(scenario="attack", percent=90)
    Target.objects.create(scenario="connectivity", percent=95)
    context = client.get(MONDAY_PAGE).context
    assert context["sentence"].endswith(
        " Attacks missed their target of 90 % by 15 points; Connectivity met its target of 95 %, "
        "with 17 % of the error budget left."
    )
    assert tile(context, "budget").value == "1 of 2"
    assert tile(context, "budget").note == "missed: Attacks"
    rows = {row.group.name: (row.target, row.left) for row in context["scenario_rows"]}
    assert rows["attack"] == ("90 %, missed", "−3 h 36 m")
    assert rows["connectivity"] == ("95 %, met", "12 m 00 s")


def test_what_one_scenario_has_left_helps_no_other_with_the_same_target(
    several: None, client: Client
):
    for name, percent in (("attack", 80), ("connectivity", 80)):
        Target.objects.create(scenario=name, percent=percent)
    answer = client.get(f"/api/v1/summary?{MONDAY_PAGE.partition('?')[2]}").json()
    whole = answer["now"]
    assert 0.8 < whole["availability"] < 0.9
    assert [whole[f"{name}"] for name in ("target_percent", "target_met", "budget_left_ms")] == [
        None, None, None,
    ]  # fmt: skip
    met = {each["name"]: each["now"]["target_met"] for each in answer["scenarios"]}
    assert (met["attack"], met["connectivity"], met["clients"]) == (False, True, None)
    assert "Attacks missed their target of 80 % by 5 points; Connect" in answer["sentence"]
    rows = {each["scenario"]: each for each in lines(client, "scenarios", MONDAY_PAGE)}
    assert rows["attack"]["period"] == "before" or rows["attack"]["target_met"]


def test_a_target_has_a_line_and_burn_rates_alike_on_the_page_in_files_and_in_rest(
    several: None, client: Client
):
    for name, percent in (("attack", 90), ("connectivity", 95)):
        Target.objects.create(scenario=name, percent=percent)
    context = client.get(MONDAY_PAGE).context
    attack, network = context["target_rows"]
    assert [words for words, _ in attack.burn] == ["0.0 ×", "0.0 ×", "0.8 ×"]
    assert (attack.left, network.left) == ("−3 h 36 m", "12 m 00 s")
    lefts = [each.left / MINUTE_MS for each in attack.status.line]
    assert lefts == [144, 84, 24, -36, -96, -156, *[-216] * 19]
    assert attack.line.points.startswith("0.0,0.0 41.7,6.7 ")
    assert (attack.line.zero, network.line.zero) == (16.0, 40.0)
    assert attack.line.words == "2 h 24 m at first, −3 h 36 m left"
    rest = client.get(f"/api/v1/summary?{MONDAY_PAGE.partition('?')[2]}").json()["targets"]
    assert [each["scenario"] for each in rest] == ["attack", "connectivity"]
    assert [each["left_ms"] / MINUTE_MS for each in rest[0]["line"]] == lefts
    assert [each["rate"] for each in rest[0]["burn"]] == [0, 0, pytest.approx(6 / 72 / 0.1)]
    row, _ = lines(client, "targets", MONDAY_PAGE)
    assert (row["target_met"], row["budget_left_ms"]) == ("False", str(-216 * MINUTE_MS))
    assert float(row["burn_3d"]) == rest[0]["burn"][2]["rate"]
    budgets = [row for row in lines(client, "budgets", MONDAY_PAGE) if row["scenario"] == "attack"]
    assert [int(row["left_ms"]) / MINUTE_MS for row in budgets] == lefts
    assert budgets[1]["at"] == "2026-03-02T01:00:00.000Z"


def test_a_line_and_a_burn_rate_say_what_was_not_observed(silent: None, client: Client):
    context = client.get("/summary/?period=day&date=2026-03-03&scenario=attack").context
    [row] = context["target_rows"]
    unseen = [n for n, each in enumerate(row.status.line) if not each.seen]
    assert unseen == [10, 11]
    assert row.line.gaps == [(375.0, 41.7), (416.7, 41.7)]
    assert [words for words, _ in row.burn] == ["0.0 ×", "0.0 ×", "0.3 × of 2 d 21 h"]
    week = client.get("/summary/?period=week&date=2026-01-07&scenario=attack").context
    [row] = week["target_rows"]
    assert (row.line, row.left) == (None, "–")
    assert {words for words, _ in row.burn} == {"not observed"}


def test_a_target_is_not_judged_where_no_state_was_confirmed(client: Client):
    present(MONDAY - 28 * DAY_MS)
    ImpairedSpan.objects.create(
        scenario="attack", asset="shop", place="0", begin=MONDAY - 28 * DAY_MS, state="clear",
        unconfirmed=True,
    )  # fmt: skip
    Target.objects.create(scenario="attack", percent=90)
    context = client.get(f"{MONDAY_PAGE}&scenario=attack").context
    assert context["sentence"].endswith(
        "The target of 90 % is not judged, as no asset had a confirmed state."
    )
    assert tile(context, "budget").value == "–"
