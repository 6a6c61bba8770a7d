"""Figures of summaries, against a count of the same records minute by minute."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps as django_apps
from django.core.management import CommandError, call_command
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bus.base import ConsumerRecord
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.scenarios import scenarios
from dashboard.notify.summaries import calculation, raw_history, tasks
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.figures import Delays, Figures, PeriodSummary, Question
from dashboard.notify.summaries.management.commands import check_summaries
from dashboard.notify.summaries.models import (
    Alarm,
    AssetDay,
    FigureCheck,
    Gap,
    HourRow,
    ImpairedSpan,
    ImportedHistory,
    Issue,
    KeptSum,
    Presence,
    Progress,
    ReportingZone,
    StatusPage,
    Subscription,
    Target,
)
from dashboard.notify.summaries.rollups import sum_up_day
from dashboard.watch.annotations.models import Acknowledgement
from dashboard.watch.incidents.maintenance import keep
from dashboard.watch.incidents.models import (
    Excluded,
    Incident,
    Window,
    WindowQuerySet,
    windows_changed,
)
from domain.history.periods import Period, between, containing
from domain.scenario import Scenario
from support.run.selection import examples
from support.web.clocks import at
from support.web.independent_summary import Counted, History, Spans, spread, unbroken
from support.web.lived_month import (
    ASSETS,
    BEGUN,
    DAY,
    ENDED,
    HOUR,
    MINUTE,
    SERVICE,
    TIERS,
    ZONE,
    Topic,
    history,
    lived,
    set_up,
)
from support.web.row_cache import cached_rows
from support.web.summaries import materialise, sum_up

pytestmark = pytest.mark.django_db


def lenient() -> dict[str, Scenario]:
    """The scenarios by a rule to which suspicious is good."""
    attack = scenarios()["attack"]
    states = tuple(
        replace(spec, colour="green") if spec.name == "suspicious" else spec
        for spec in attack.states
    )
    return scenarios() | {"attack": replace(attack, states=states)}


WINDOWS = {
    "shop": [(at("2026-03-20T10:00"), at("2026-03-21T02:30"))],
    "bank": [
        (at("2026-03-29T00:10"), at("2026-03-29T02:20")),
        (at("2026-03-29T02:00"), at("2026-03-29T03:00")),
    ],
    "gone": [(at("2026-02-25T00:00"), at("2026-04-02T00:00"))],
}
EVERYWHERE = at("2026-03-28T23:30"), at("2026-03-29T00:30")
ALL_WINDOWS = {asset: [EVERYWHERE, *WINDOWS.get(asset, ())] for asset in ASSETS}
CHANGED_AT = at("2026-03-18T12:00")


def materialise_by_both_rules(messages: list[ConsumerRecord]) -> None:
    """Write records; from CHANGED_AT on by the other rule."""
    materialise([each for each in messages if each.timestamp < CHANGED_AT])
    materialise([each for each in messages if each.timestamp >= CHANGED_AT], lenient())


@pytest.fixture
def maintained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of maintenance on some assets."""

    def windows(_: WindowQuerySet, scenario: str, begin: int, end: int) -> Excluded:
        low, high = EVERYWHERE
        everywhere = [(max(low, begin), min(high, end))] if low < end and high > begin else []
        by_asset = {
            asset: [(max(a, begin), min(b, end)) for a, b in spans if a < end and b > begin]
            for asset, spans in WINDOWS.items()
            if any(a < end and b > begin for a, b in spans)
        }
        return Excluded(everywhere, by_asset)

    monkeypatch.setattr(WindowQuerySet, "excluded", windows)


@pytest.fixture
def month(maintained: None) -> Topic:
    """A month with a change of the clock, and of the rule, in its middle."""
    set_up()

    def write() -> Topic:
        topic = Topic()
        lived(topic, BEGUN, ENDED, seed=7)
        materialise_by_both_rules(topic.messages)
        return topic

    return cached_rows("a month of summaries", write)


def local(day: date) -> int:
    """The beginning of a day, by a count of minutes."""
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000) - DAY
    while datetime.fromtimestamp(begin / 1000, ZoneInfo(ZONE)).date() != day:
        begin += MINUTE
    return begin


def spans_of(period: Period, now: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The period's time and that of the one before, clipped."""
    begin, end = local(period.first), local(period.after)
    before = period.before
    low, high = local(before.first), local(before.after)
    if now < end:
        end = max(begin, now)
        high = min(high, low + end - begin)
    return (begin, end), (low, high)


def check(answer: PeriodSummary, past: History, now: int, gaps: Spans = ()) -> None:
    """Compare each figure of an answer about `attack`. gaps: what was not observed."""
    question = answer.question
    spans = spans_of(question.period, now)
    service = SERVICE if question.service else None
    counts = [past.count(*span, ZONE, ALL_WINDOWS, service, gaps) for span in spans]
    (group,) = answer.scenarios
    for figures, whole, span, counted in zip(
        (group.now, group.before), (answer.whole.now, answer.whole.before), spans, counts,
        strict=True,
    ):  # fmt: skip
        assert figures == whole
        assert tuple(figures.times) == counted.total()
        assert figures.false_alarms == counted.false_alarms
        check_attacks(figures, past, span)
        check_budget(figures)
    check_targets(answer, counts[0], spans[0])
    check_burns(answer, past, spans[0], service, gaps)
    check_labels(answer, past, spans, counts)
    check_lists(answer, past, spans, counts, observed_any(past, spans[1], gaps))


def observed_any(past: History, span: tuple[int, int], gaps: Spans) -> bool:
    """Whether any minute of a time was observed."""
    first = min((own[0].at for own in past.conditions.values()), default=span[1])
    return any(
        minute >= first and not any(low <= minute < high for low, high in gaps)
        for minute in range(*span, MINUTE)
    )


def check_attacks(figures: Figures, past: History, span: tuple[int, int]) -> None:
    incidents = past.during(*span)
    assert figures.incidents == len(incidents)
    assert figures.assets == len({each.asset for each in incidents})
    assert figures.flapping == past.flapping(*span)
    ended = [e.end - e.begin for e in past.incidents if e.end and span[0] <= e.end < span[1]]
    cleared = [ms for ms in ended if ms]
    assert figures.cleared == Delays(*spread(cleared))
    begun = [e for e in past.during(*span) if e.begin >= span[0]]
    answered = [acknowledged_after(each.begin) for each in begun]
    assert figures.acknowledged == Delays(*spread([ms for ms in answered if ms]))


def check_budget(figures: Figures) -> None:
    assert figures.budget is not None
    counted = figures.times.good + figures.times.bad
    assert figures.budget.target == 99.5
    assert figures.budget.whole == round(counted * 5 / 1000)
    assert figures.budget.left == figures.budget.whole - figures.times.bad
    if counted:
        assert figures.times.availability == figures.times.good / counted


def steps(period: Period, begin: int, end: int) -> list[int]:
    """When days begin, or hours of a single day that have another number, and the end."""
    if period.days > 1:
        days = (local(period.first + timedelta(days=n)) for n in range(period.days))
        return [*(day for day in days if begin <= day < end), end]
    clock = [
        (minute, datetime.fromtimestamp(minute / 1000, ZoneInfo(ZONE)).hour)
        for minute in range(begin, end, MINUTE)
    ]
    changed = [two[0] for one, two in pairwise(clock) if one[1] != two[1]]
    return [begin, *changed, end]


def check_targets(answer: PeriodSummary, counted: Counted, span: tuple[int, int]) -> None:
    """Compare the line of the budget with what was bad until each of its points."""
    [status] = answer.targets
    assert status.figures == answer.whole.now
    begin, end = span
    period, zone = answer.question.period, ZoneInfo(ZONE)
    if begin >= end:
        assert status.line == ()
        return
    assert [point.at for point in status.line] == steps(period, begin, end)
    first, *others = status.line
    assert first.left == status.budget.whole
    for point in others:
        last = datetime.fromtimestamp((point.at - MINUTE) / 1000, zone)
        if period.days > 1:
            bad = [ms for day, ms in counted.days.items() if day <= last.date()]
        else:
            bad = [ms for (_, hour), ms in counted.slots.items() if hour <= last.hour]
        assert point.left == status.budget.whole - sum(bad)
    assert others[-1].left == status.budget.left


def check_burns(
    answer: PeriodSummary, past: History, span: tuple[int, int], service: Any, gaps: Spans
) -> None:
    """Compare the burn rates of the last hour, six hours and three days."""
    [status] = answer.targets
    begin, end = span
    windows = (HOUR, 6 * HOUR, 3 * DAY) if begin < end else ()
    assert tuple(each.window_ms for each in status.burn) == windows
    for each in status.burn:
        own = past.count(end - each.window_ms, end, ZONE, ALL_WINDOWS, service, gaps)
        good, bad, *_ = own.total()
        expected = bad / (good + bad) / 0.005 if good + bad else None
        assert each.rate == (expected and pytest.approx(expected))


def check_labels(answer: PeriodSummary, past: History, spans: Any, counts: Any) -> None:
    if not answer.question.label:
        assert answer.labels == ()
        return
    members: dict[str, set[str]] = {}
    for asset in past.conditions:
        members.setdefault(TIERS.get(asset, ""), set()).add(asset)
    assert {group.name for group in answer.labels} <= members.keys()
    for group in answer.labels:
        own = members[group.name]
        for figures, span, counted in zip((group.now, group.before), spans, counts, strict=True):
            assert tuple(figures.times) == counted.total(own), group.name
            incidents = [each for each in past.during(*span) if each.asset in own]
            assert figures.incidents == unbroken((each.begin, each.end) for each in incidents)
            assert figures.assets == len({each.asset for each in incidents})


def check_lists(
    answer: PeriodSummary, past: History, spans: Any, counts: Any, compared: bool
) -> None:
    """Compare the lists. compared: whether anything of the time before was observed."""
    now, before = counts
    assert {each.day: each.bad for each in answer.heat if each.bad} == +now.days
    slots = {(day, hour): ms for day, row in enumerate(answer.week) for hour, ms in enumerate(row)}
    assert {place: ms for place, ms in slots.items() if ms} == +now.slots
    expected = [
        (
            times["bad"],
            times["unconfirmed"],
            asset,
            before.times[asset]["bad"] if compared else None,
        )
        for asset, times in now.times.items()
        if times["bad"] or times["unconfirmed"]
    ]
    expected.sort(key=lambda row: (-row[0], -row[1], row[2]))
    assert [(w.bad, w.unconfirmed, w.asset, w.before) for w in answer.worst] == expected
    incidents = past.during(*spans[0])
    for row in answer.worst:
        assert row.incidents == sum(each.asset == row.asset for each in incidents)
    listed = sorted((each.asset, each.began_at, each.ended_at) for each in answer.incidents)
    assert listed == sorted((each.asset, each.begin, each.end) for each in incidents)
    within = [each.within for each in answer.incidents]
    assert within == sorted(within, reverse=True)
    assert answer.incidents_total == len(incidents)


def acknowledged_after(begun: int) -> int:
    """How long after an incident's beginning it was acknowledged in these tests; 0: never."""
    return begun // MINUTE % 7 * MINUTE


def acknowledge_all() -> None:
    for row in Incident.objects.all():
        if after := acknowledged_after(row.began_at):
            Incident.objects.filter(pk=row.pk).update(acknowledged_at=row.began_at + after)


NOW = at("2026-04-01T13:37")
PERIODS = {
    "the day on which the clock is put forward": containing("day", date(2026, 3, 29)),
    "its week": containing("week", date(2026, 3, 29)),
    "the month": containing("month", date(2026, 3, 1)),
    "the day so far": containing("day", date(2026, 4, 1)),
    "the week so far": containing("week", date(2026, 4, 1)),
    "the quarter so far": containing("quarter", date(2026, 4, 1)),
    "the year so far": containing("year", date(2026, 4, 1)),
    "some dates": between(date(2026, 3, 10), date(2026, 3, 31)),
    "the day of the change of the rule": containing("day", date(2026, 3, 18)),
    "before anything": containing("week", date(2026, 1, 7)),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("service", [False, True], ids=["all hours", "service hours"])
@pytest.mark.parametrize("name", PERIODS)
def test_every_figure_is_as_counted_minute_by_minute(month: Topic, name: str, service: bool):
    acknowledge_all()
    past = history(month.messages, CHANGED_AT)
    question = Question(("attack",), PERIODS[name], "tier", service)
    check(summary(question, NOW), past, NOW)  # raw history alone
    sum_up(at("2026-03-11T09:10"))
    sum_up(NOW)
    assert HourRow.objects.exists()
    check(summary(question, NOW), past, NOW)
    check(summary(question, NOW), past, NOW)  # from what is kept of the last one


GAPS = [
    (at("2026-03-10T08:20"), at("2026-03-10T08:40")),
    (at("2026-03-19T22:17"), at("2026-03-21T04:40")),
    (at("2026-03-29T00:30"), at("2026-03-29T01:10")),
    (at("2026-03-31T09:00"), at("2026-03-31T12:00")),
    (at("2026-04-01T13:20"), at("2026-04-01T13:31")),
]
"""Within an hour, over days, over the change of the clock, from hour to hour, and of late."""


@pytest.mark.spread(1)
@pytest.mark.parametrize("service", [False, True], ids=["all hours", "service hours"])
@pytest.mark.parametrize("name", PERIODS)
def test_what_was_not_observed_counts_in_no_figure_of_time(month: Topic, name: str, service: bool):
    acknowledge_all()
    past = history(month.messages, CHANGED_AT)
    question = Question(("attack",), PERIODS[name], "tier", service)
    first, *late = [Gap(scenario="attack", begin=low, end=high) for low, high in GAPS]
    first.save()
    sum_up(at("2026-03-31T09:10"))
    Gap.objects.bulk_create(late)  # as heartbeats tell of them once the job is back
    Progress.objects.mark({"attack": late[0].begin})
    sum_up(NOW)
    check(summary(question, NOW), past, NOW, GAPS)
    for model in (HourRow, AssetDay, Progress, KeptSum):
        model.objects.all().delete()
    check(summary(question, NOW), past, NOW, GAPS)  # raw history alone
    check_observed(summary(question, NOW), spans_of(question.period, NOW)[0])


def check_observed(answer: PeriodSummary, span: tuple[int, int]) -> None:
    """Compare how much was observed at all hours, minute by minute."""
    first = min(Presence.objects.values_list("begin", flat=True))
    minutes = [
        minute
        for minute in range(*span, MINUTE)
        if minute >= first and not any(low <= minute < high for low, high in GAPS)
    ]
    assert sum(each.ms for each in answer.unobserved) == span[1] - span[0] - len(minutes) * MINUTE
    own = answer.whole.now.observed
    assert own.seen is bool(minutes)
    for one, two in pairwise(answer.targets[0].line):
        assert two.seen is any(one.at <= minute < two.at for minute in minutes)
    if not answer.question.service:
        assert (own.ms, own.whole) == (len(minutes) * MINUTE, span[1] - span[0])
    zone = ZoneInfo(ZONE)
    clock = [datetime.fromtimestamp(minute / 1000, zone) for minute in minutes]
    assert {each.day for each in answer.heat if each.bad is not None} == {m.date() for m in clock}
    slots = {(minute.weekday(), minute.hour) for minute in clock}
    assert slots == {
        (day, hour)
        for day, row in enumerate(answer.week)
        for hour, ms in enumerate(row)
        if ms is not None
    }


def test_sums_follow_what_comes_late(maintained: None):
    """Half of the records come after the hours that they are about were summed up."""
    set_up()
    topic = Topic()
    lived(topic, BEGUN, ENDED, seed=11)
    half = len(topic.messages) // 2
    materialise_by_both_rules(topic.messages[:half])
    sum_up(NOW)
    materialise_by_both_rules(topic.messages[half:])
    assert Progress.objects.get().dirty_since
    sum_up(NOW)
    assert Progress.objects.get().dirty_since is None
    acknowledge_all()
    question = Question(("attack",), PERIODS["the month"], "tier")
    check(summary(question, NOW), history(topic.messages, CHANGED_AT), NOW)


def answers(now: int) -> list[PeriodSummary]:
    questions = [Question(("attack",), period, "tier") for period in PERIODS.values()]
    return [summary(question, now) for question in questions]


@pytest.mark.extensive(
    guard="tests/web/notify/test_summary_figures.py::test_a_second_change_of_zone_waits_for_the_first"
)
@pytest.mark.spread(1)
@pytest.mark.parametrize("new", ["Asia/Kathmandu", "America/St_Johns", "UTC"])
def test_while_a_change_of_zone_is_summed_up_the_former_zone_is_shown(month: Topic, new: str):
    acknowledge_all()
    past = history(month.messages, CHANGED_AT)
    sum_up(NOW)
    ReportingZone.objects.choose(new)
    names = ("its week", "the month", "the quarter so far", "the day so far")
    questions = [Question(("attack",), PERIODS[name], "tier") for name in names]
    for n in range(100):
        answered = summary(questions[n % len(questions)], NOW)
        if answered.zone == new:
            break
        assert (answered.zone, answered.next_zone) == (ZONE, new)
        if n % 22 == 0 or (n > 60 and n % 7 == 0):  # in March more often
            check(answered, past, NOW)
        assert sum_up_day("attack", NOW)
    assert n > 40
    assert answered.next_zone == ""
    report = summary(questions[1], NOW)
    counted = past.count(*report.span, new, ALL_WINDOWS)
    assert (tuple(report.whole.now.times), report.zone) == (counted.total(), new)
    assert {each.day: each.bad for each in report.heat if each.bad} == +counted.days
    assert not sum_up_day("attack", NOW)


@pytest.mark.role("admin")
def test_a_second_change_of_zone_waits_for_the_first(month: Topic, client: Client):
    sum_up(NOW)
    ReportingZone.objects.choose("UTC")
    with pytest.raises(ValueError, match="while one is being summed up"):
        ReportingZone.objects.choose("Asia/Kathmandu")
    page = client.get("/summary/?period=month&date=2026-03-01&scenario=attack").content.decode()
    assert "Days and hours are still those of Europe/Berlin" in page
    answer = client.post("/summary/settings/", {"zone": "Asia/Kathmandu"})
    assert answer.status_code == 422
    assert "History is still being summed up in UTC." in answer.content.decode()
    sum_up(NOW)
    assert client.post("/summary/settings/", {"zone": "Asia/Kathmandu"}).status_code == 302
    assert ReportingZone.objects.chosen().key == "Asia/Kathmandu"


@pytest.mark.spread(1)
@pytest.mark.parametrize("which", ["all", "the last of each"])
def test_records_that_come_again_change_nothing(month: Topic, which: str):
    """As a rebuild brings them: the same, in a new epoch."""
    sum_up(NOW)
    before = answers(NOW)
    again = Topic(epoch=2)
    lived(again, BEGUN, ENDED, seed=7)
    last = {message.key: message for message in again.messages}
    materialise_by_both_rules(again.messages if which == "all" else list(last.values()))
    sum_up(NOW)
    assert answers(NOW) == before


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), hour=st.integers(0, 40 * 24), minute=st.integers(0, 59))
@example(seed=208, hour=264, minute=0)  # one ends as the period begins
def test_any_history_is_counted_alike_at_any_time(
    django_db_blocker: Any, transactional_scope: Any, seed: int, hour: int, minute: int
):
    now = BEGUN + hour * HOUR + minute * MINUTE
    with transactional_scope():
        ReportingZone.objects.choose(ZONE)
        Target.objects.choose("attack", 99.5, SERVICE)
        topic = Topic()
        lived(topic, BEGUN, now, seed)
        materialise(topic.messages)
        sum_up(now - seed % 5 * HOUR)
        acknowledge_all()
        day = datetime.fromtimestamp(now / 1000, ZoneInfo(ZONE)).date()
        unit = ("day", "week", "month")[seed % 3]
        question = Question(("attack",), containing(unit, day), service=bool(seed % 2))
        past = history(topic.messages)
        with no_windows():
            check(summary(question, now), past, now)


@pytest.fixture
def transactional_scope() -> Any:
    """A transaction for each example, rolled back."""
    from contextlib import contextmanager

    from django.db import transaction

    @contextmanager
    def scope() -> Iterator[None]:
        with transaction.atomic():
            yield
            transaction.set_rollback(True)

    return scope


def no_windows() -> Any:
    from unittest.mock import patch

    return patch.dict(ALL_WINDOWS, clear=True)


# ---- held against raw history -----------------------------------------------------------------


def checked(*arguments: str) -> tuple[int, str]:
    """Exit code and output of `manage.py check_summaries`."""
    out = io.StringIO()
    try:
        call_command("check_summaries", *arguments, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


COMPARED = check_summaries.COMPARED
NOTHING = f"{COMPARED}\nNo difference.\n"


def test_sums_are_checked_against_the_changes_of_states(
    maintained: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(check_summaries, "now_ms", lambda: NOW)
    set_up()
    topic = Topic()
    lived(topic, BEGUN, ENDED, seed=3)
    materialise(topic.messages)
    assert checked() == (0, "\n".join(f"{n}: nothing is summed up yet." for n in scenarios())
                         + f"\n{NOTHING}")  # fmt: skip
    sum_up(NOW)
    assert checked("--scenario", "attack") == (0, NOTHING)
    row = HourRow.objects.filter(bad__gt=0, begin__gt=at("2026-03-12T00:00")).earliest("begin")
    HourRow.objects.filter(pk=row.pk).update(bad=row.bad - 1)
    code, output = checked("--scenario", "attack")
    assert code == 1
    day = datetime.fromtimestamp(row.begin / 1000, ZoneInfo(ZONE)).date()
    assert f"bad: kept {row.bad - 1}, counted {row.bad}\n" in output
    assert f"Shown by /summary/?period=day&date={day}&scenario=attack\n" in output
    assert output.endswith(f"{COMPARED}\n1 difference.\n")
    assert checked("--scenario", "attack", "--to", "2026-03-11") == (0, NOTHING)
    with pytest.raises(CommandError, match="expected one of attack"):
        checked("--scenario", "nope")


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A month that is summed up, and in which nothing differs."""
    monkeypatch.setattr(check_summaries, "now_ms", lambda: NOW)

    def write() -> None:
        topic = Topic()
        lived(topic, BEGUN, NOW, seed=3)
        materialise(topic.messages)
        sum_up(NOW)
        assert checked("--scenario", "attack") == (0, NOTHING)

    cached_rows("a month that is summed up", write)


def differing() -> list[str]:
    """What the command lists, without scenario and time.

    Where it kept answers that took it long, on a slow machine, those may differ as well.
    """
    code, output = checked("--scenario", "attack")
    assert code == 1
    *lines, compared, number = (
        each for each in output.splitlines() if not each.startswith("Shown")
    )
    assert compared == COMPARED
    assert number == ("1 difference." if len(lines) == 1 else f"{len(lines)} differences.")
    rows = [line.partition("UTC ")[2] or line for line in lines]
    return [row for row in rows if not row.startswith("kept answer")] or rows


def test_a_deleted_incident_and_an_extra_one_are_named(summed: None):
    *_, gone = Incident.objects.exclude(ended_at=None).order_by("began_at")
    gone.delete()
    assert differing() == [f"{gone.asset} incident: kept none, counted one"]
    gone.save()
    assert checked("--scenario", "attack")[0] == 0
    gone.pk, gone.place = None, gone.place[:-1] + "7"
    gone.save()
    assert differing() == [f"{gone.asset} incident: kept one, counted none"]


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("model", "column", "value", "what"),
    [
        (Incident, "began_at", 1, "incident, began_at"),
        pytest.param(Incident, "ended_at", 1, "incident, ended_at", marks=pytest.mark.extensive),
        pytest.param(Incident, "changes", 1, "incident, changes", marks=pytest.mark.extensive),
        pytest.param(Incident, "worst", "x", "incident, worst", marks=pytest.mark.extensive),
        (Presence, "end", 1, "time on the board, end"),
        pytest.param(
            ImpairedSpan, "state", "x", "time of trouble, state", marks=pytest.mark.extensive
        ),
        (ImpairedSpan, "begin", 1, "time of trouble, begin"),
    ],
)
def test_a_bent_row_of_history_is_named(
    summed: None, model: Any, column: str, value: int | str, what: str
):
    ending = "ended_at" if model is Incident else "end"
    *_, row = model.objects.exclude(**{ending: None}).order_by(ending)
    counted = getattr(row, column)
    kept = counted + value if isinstance(value, int) else value
    model.objects.filter(pk=row.pk).update(**{column: kept})
    assert f"{row.asset} {what}: kept {kept}, counted {counted}" in differing()


# ---- whatever is falsified ------------------------------------------------------------------


ATTACKS = ("--scenario", "attack", "--to", "2026-04-01")
"""What is checked; kept answers are not, which take long."""


@pytest.fixture
def targeted(summed: None) -> None:
    """The same month with a target, in a zone whose clock changes."""

    def write() -> None:
        set_up()
        sum_up(NOW)

    cached_rows("a month with a target that is summed up", write)


def ended(model: Any, column: str = "end") -> list[Any]:
    """The rows of a table that have ended, without the oldest and the newest ones."""
    recent = {f"{column}__gt": at("2026-03-12T00:00"), f"{column}__lt": at("2026-03-31T00:00")}
    return list(model.objects.filter(**recent).order_by(column))


def sums() -> list[HourRow]:
    rows = HourRow.objects.filter(begin__gt=at("2026-03-12T00:00"), incidents__gt=0, bad__gt=0)
    return list(rows.order_by("begin"))


def days() -> list[AssetDay]:
    first, last = date(2026, 3, 13).toordinal(), date(2026, 3, 30).toordinal()
    return list(AssetDay.objects.filter(day__gt=first, day__lt=last, bad__gt=0).order_by("day"))


def gaps() -> list[Gap]:
    """Three silences of the job, which the sums know."""
    for low, high in GAPS[:3]:
        Gap.objects.create(scenario="attack", begin=low, end=high)
    Progress.objects.mark({"attack": GAPS[0][0]})
    sum_up(NOW)
    assert checked(*ATTACKS) == (0, NOTHING)
    return list(Gap.objects.order_by("begin"))


def answers_kept() -> list[KeptSum]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_history, "SLOW_S", 0.0)
        tasks.keep_answers(NOW)
    return list(KeptSum.objects.order_by("key"))


def acknowledged() -> list[Incident]:
    """Incidents, and people's acknowledgements of some."""
    rows = [row for row in ended(Incident, "ended_at") if row.ended_at - row.began_at > MINUTE]
    for row in rows[::2]:
        at_ = row.began_at + MINUTE // 2
        Acknowledgement.objects.create(
            scenario="attack", asset=row.asset, username="ada", at=at_, until=at_ + DAY,
            ended_at=row.ended_at, state=row.worst, severity=0, place=row.place,
        )  # fmt: skip
        Incident.objects.filter(pk=row.pk).update(acknowledged_at=at_, acknowledged_by="ada")
    assert checked(*ATTACKS) == (0, NOTHING)
    return list(Incident.objects.filter(pk__in=[row.pk for row in rows[::2]]).order_by("pk"))


def targets() -> list[Target]:
    record(Actor.shell(), "summary.target", scenario="attack",
           **Target.objects.get(scenario="attack").facts)  # fmt: skip
    assert checked(*ATTACKS) == (0, NOTHING)
    return list(Target.objects.all())


def zones() -> list[ReportingZone]:
    record(Actor.shell(), "summary.zone", target=ZONE, before="UTC")
    assert checked(*ATTACKS) == (0, NOTHING)
    return list(ReportingZone.objects.all())


FIGURES: dict[Any, tuple[Any, tuple[str, ...]]] = {
    Presence: (lambda: ended(Presence), ()),
    ImpairedSpan: (lambda: ended(ImpairedSpan), ()),
    Alarm: (lambda: [row for row in ended(Alarm) if row.came_true is False], ()),
    Gap: (gaps, ()),
    Progress: (
        lambda: list(Progress.objects.all()),
        # What makes the worker count again, and no figure
        ("dirty_since", "taken_since", "turn", "answered_to", "scenario"),
    ),
    HourRow: (sums, ()),
    AssetDay: (days, ()),
    KeptSum: (answers_kept, ()),
    Target: (targets, ("scenario", "burning")),  # what rules know of it
    ReportingZone: (zones, ("former",)),  # the worker empties it
    Incident: (acknowledged, ("case",)),  # which work it belongs to
}
"""The tables that figures come from: rows to falsify, and columns that no figure has."""
NO_FIGURES = {Subscription, Issue, FigureCheck, ImportedHistory, StatusPage}
"""The other tables: who gets mail, what was checked, and what was brought in."""


def test_every_table_of_figures_is_falsified():
    tables = set(django_apps.get_app_config("summaries").get_models())
    assert tables - NO_FIGURES == set(FIGURES) - {Incident}


def falsified(row: Any, column: str) -> Any:
    """Another value of a column."""
    value = getattr(row, column)
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "Asia/Tokyo" if isinstance(row, ReportingZone) else f"{value}7"
    if isinstance(value, list):
        return [[9]] * 7
    if column == "summed_to":
        return value + DAY
    return (value or 0) + (400 if column == "day" else 1)  # no other row has that day


def columns_of(model: Any) -> list[str]:
    _, aside = FIGURES[model]
    stored = [each for each in model._meta.concrete_fields if not each.generated]
    return [each.name for each in stored if each.name not in ("id", *aside)]


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    ("model", "column"),
    [
        (model, column)
        for model in FIGURES
        for column in (*columns_of(model), "")
        if column or model not in (Progress, KeptSum)  # who deletes these has them counted again
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_whoever_falsifies_a_row_is_found(targeted: None, model: Any, column: str):
    """One row is changed in one column, or deleted."""
    rows = FIGURES[model][0]()
    row = rows[len(rows) // 2]
    own = model.objects.filter(pk=row.pk)
    if column:
        own.update(**{column: falsified(row, column)})
    else:
        own.delete()
    code, output = checked(*(ATTACKS[:2] if model is KeptSum else ATTACKS))
    assert code == 1, f"nobody has noticed that {column} of {row} is another"
    assert "No difference" not in output


def test_a_bent_answer_is_named(summed: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(raw_history, "SLOW_S", 0.0)
    tasks.keep_answers(NOW)
    assert checked("--scenario", "attack")[0] == 0
    bent, *_ = KeptSum.objects.filter(key__startswith="worst").exclude(data="[]")
    data = json.loads(bent.data)
    data[0][1] += 1
    KeptSum.objects.filter(pk=bent.pk).update(data=json.dumps(data))
    assert differing() == [f"kept answer {bent.key}: another one is counted"]


def test_what_was_not_observed_is_checked_as_such(summed: None):
    low, high = at("2026-03-19T22:17"), at("2026-03-21T04:40")
    Gap.objects.create(scenario="attack", begin=low, end=high)
    assert checked("--scenario", "attack")[0] == 1
    Progress.objects.mark({"attack": low})
    sum_up(NOW)
    assert checked("--scenario", "attack") == (0, NOTHING)


@pytest.mark.parametrize("name", ["incidents", "false_alarms"])
def test_numbers_of_hours_are_checked(summed: None, name: str):
    rows = HourRow.objects.filter(begin__gte=at("2026-03-12T00:00"))
    row = rows.filter(**{f"{name}__gt": 0}).earliest("begin")
    rows.filter(pk=row.pk).update(**{name: 7})
    assert differing() == [f"{name}: kept 7, counted {getattr(row, name)}"]


def test_an_alarm_is_judged_by_the_state_after_it(summed: None):
    recent = Alarm.objects.filter(end__gte=at("2026-03-12T00:00"))
    false = recent.filter(came_true=False, end__lt=at("2026-04-01T00:00")).earliest("end")
    recent.filter(pk=false.pk).update(came_true=True)
    Progress.objects.mark({"attack": at("2026-01-10T00:00")})
    sum_up(NOW)
    row, hour = (line.partition(":")[0] for line in differing())
    assert (row, hour) == (f"{false.asset} alarm {false.place}", "false_alarms")


def test_sums_of_assets_and_days_are_checked(summed: None):
    days = AssetDay.objects.filter(day__gte=date(2026, 3, 12).toordinal(), bad__gt=0)
    changed, gone = days.order_by("day", "asset")[:2]
    days.filter(pk=changed.pk).update(service_bad=1)
    days.filter(pk=gone.pk).delete()
    AssetDay.objects.create(
        scenario="attack", asset="nobody", day=date(2026, 3, 30).toordinal(), bad=5, unconfirmed=0,
        maintenance=0, service_bad=0, service_unconfirmed=0, service_maintenance=0,
    )  # fmt: skip
    lines = differing()
    assert lines[0] == f"{changed.asset} service_bad: kept 1, counted {changed.service_bad}"
    assert f"{gone.asset} bad: kept None, counted {gone.bad}" in lines
    assert lines[-1] == "nobody bad: kept 5, counted 0"
    assert checked("--scenario", "attack", "--to", "2026-03-10") == (0, NOTHING)


def test_the_day_that_goes_on_is_checked_as_far_as_it_is_summed_up(summed: None):
    """Unless the sums of its assets are of more than its hours that are right."""
    today = AssetDay.objects.filter(day=date(2026, 4, 1).toordinal(), bad__gt=0).first()
    assert today
    AssetDay.objects.filter(pk=today.pk).update(bad=today.bad + 1)
    assert differing() == [f"{today.asset} bad: kept {today.bad + 1}, counted {today.bad}"]
    Progress.objects.mark({"attack": at("2026-04-01T06:00")})
    assert checked("--scenario", "attack") == (0, NOTHING)


def test_a_window_that_is_planned_afterwards_is_cut_out(world_zone: None):
    """Sums follow when somebody says later that there was maintenance."""
    topic = Topic()
    begun = at("2026-03-30T06:00")
    topic.put(begun, "shop", "under-attack")
    topic.put(begun, "bank", "clear")
    materialise(topic.messages)
    now = begun + 10 * HOUR
    sum_up(now)
    question = Question(("attack",), containing("day", date(2026, 3, 30)))
    assert summary(question, now).whole.now.times == (10 * HOUR, 10 * HOUR, 0, 0)
    low, high = begun + HOUR, begun + 3 * HOUR + MINUTE
    Window.objects.create(
        name="works", covers="all", begin=low, end=high, planned_end=high, created_at=now
    )
    windows_changed.send(None, scenario="", begin=low, end=high)
    for _ in range(2):  # from raw history, then from sums
        ms = 2 * HOUR + MINUTE
        times = summary(question, now).whole.now.times
        assert times == (10 * HOUR - ms, 10 * HOUR - ms, 0, 2 * ms)
        sum_up(now)
    assert Progress.objects.get().dirty_since is None


def test_a_window_that_is_written_down_afterwards_covers_what_was_on_the_board_then():
    """By its filter too: also what has been purged since, and nothing that was purged before."""
    set_up()
    topic, begun = Topic(), at("2026-03-30T06:00")
    for asset in ("shop", "bank", "press"):
        topic.put(begun, asset, "under-attack")
    topic.put(begun + HOUR, "bank", "")
    topic.put(begun + 4 * HOUR, "shop", "")
    materialise(topic.messages)
    now = begun + 10 * HOUR
    sum_up(now)
    low, high = begun + 2 * HOUR, begun + 6 * HOUR
    window = Window.objects.create(
        name="works", scenario="attack", covers="filter", filter="tier:gold", begin=low, end=high,
        planned_end=high, created_at=now,
    )  # fmt: skip
    question = Question(("attack",), containing("day", date(2026, 3, 30)))
    expected = (0, (1 + 2 + 10) * HOUR, 0, 2 * HOUR)  # until the purge of "shop"
    keep(now)
    for _ in range(2):  # from raw history, then from sums
        assert summary(question, now).whole.now.times == expected
        sum_up(now)
    assert list(window.assets.values_list("asset", flat=True)) == ["shop"]


@pytest.fixture
def world_zone() -> None:
    ReportingZone.objects.choose(ZONE)


def test_the_worker_sums_up_and_keeps_what_takes_long(
    month: Topic, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tasks, "now_ms", lambda: NOW)
    monkeypatch.setattr(raw_history, "SLOW_S", 0.0)
    while tasks.sum_up():
        pass
    assert Progress.objects.get().summed_to == at("2026-04-01T13:00")
    assert KeptSum.objects.exists()
    question = Question(("attack",), containing("year", date(2026, 4, 1)), "tier")
    acknowledge_all()
    monkeypatch.setattr(calculation, "LIVE_MOST", -1)
    full_hour = at("2026-04-01T13:00")
    as_of_the_hour = summary(question, full_hour)
    check(as_of_the_hour, history(month.messages, CHANGED_AT), full_hour)
    later = summary(question, NOW)
    assert later.whole.now.cleared == as_of_the_hour.whole.now.cleared
    assert later.whole.now.times != as_of_the_hour.whole.now.times


def test_after_a_full_hour_a_page_does_not_wait_for_the_worker(
    month: Topic, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(raw_history, "SLOW_S", 0.0)  # whatever is calculated is kept
    acknowledge_all()
    question = Question(("attack",), containing("year", date(2026, 4, 1)))
    clock = [NOW - HOUR]
    monkeypatch.setattr(tasks, "now_ms", lambda: clock[0])
    while tasks.sum_up():
        pass
    sum_up(NOW)
    assert Progress.objects.get().answered_to == at("2026-04-01T12:00")
    calculated = set(KeptSum.objects.values_list("key", flat=True))
    answer = summary(question, NOW)
    assert set(KeptSum.objects.values_list("key", flat=True)) == calculated
    clock[0] = NOW
    tasks.sum_up()
    assert Progress.objects.get().answered_to == at("2026-04-01T13:00")
    later = summary(question, NOW)
    assert set(KeptSum.objects.values_list("key", flat=True)) > calculated
    assert (later.whole, later.worst) == (answer.whole, answer.worst)
