"""The nightly check of all figures: when it begins, and what the summary says of it."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.core.common.times import HOUR_MS, MINUTE_MS
from dashboard.notify.summaries import tasks
from dashboard.notify.summaries.models import FigureCheck, ReportingZone
from dashboard.watch.incidents.models import Incident
from support.web.clocks import at
from support.web.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

NIGHT = at("2026-11-24T03:00")


def begun(at: int) -> FigureCheck:
    """A check that began at this time and has found nothing."""
    check = FigureCheck.objects.create(begun_at=at)
    check.end(0, [], (), at + MINUTE_MS)
    return check


def test_the_first_one_waits_for_a_night():
    due = [hour for hour in range(24) if FigureCheck.objects.is_due(NIGHT + (hour - 3) * HOUR_MS)]
    assert due == [3]


def test_one_a_night_is_enough():
    begun(NIGHT + 10 * MINUTE_MS)
    assert not FigureCheck.objects.is_due(NIGHT + 20 * MINUTE_MS)
    assert not FigureCheck.objects.is_due(NIGHT + 24 * HOUR_MS - 1)
    assert FigureCheck.objects.is_due(NIGHT + 24 * HOUR_MS)


def test_one_that_a_standstill_prevented_is_made_up_for():
    begun(NIGHT)
    assert FigureCheck.objects.is_due(NIGHT + 34 * HOUR_MS)


def test_the_night_is_the_reporting_zones():
    ReportingZone.objects.create(name="Asia/Tokyo")
    begun(NIGHT - 24 * HOUR_MS)
    assert FigureCheck.objects.is_due(NIGHT - 9 * HOUR_MS)


def test_a_process_is_started_once_a_night(monkeypatch: pytest.MonkeyPatch):
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(tasks, "now_ms", lambda: NIGHT)
    assert tasks.check_nightly()
    begun(NIGHT)
    assert not tasks.check_nightly()
    [[python, _, command]] = started
    assert (python, command) == (sys.executable, "check_summaries")


def page(client: Client) -> str:
    return client.get("/summary/").content.decode()


def exit_code() -> int:
    """Check all figures; return the command's exit code."""
    try:
        call_command("check_summaries", stdout=io.StringIO())
    except SystemExit as ended:
        return int(str(ended.code))
    return 0


def test_the_summary_tells_what_the_check_has_found(client: Client, world: World):
    world.report("shop", "under-attack")
    world.write()
    assert "Never checked against the changes" in page(client)
    assert exit_code() == 0
    assert "against the changes of states: no difference." in page(client)
    Incident.objects.all().delete()
    assert exit_code() == 1
    assert "against the changes of states: 1 difference." in page(client)
    assert "shop incident: kept none, counted one" in page(client)


def test_most_lines_are_kept_and_all_are_counted():
    check = FigureCheck.objects.create(begun_at=NIGHT)
    check.end(70_000, [f"line {n}" for n in range(60)], [f"/{n}" for n in range(60)], NIGHT)
    check.refresh_from_db()
    assert check.differences == 70_000
    assert (len(check.lines), len(check.pages)) == (50, 50)
