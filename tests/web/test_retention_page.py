"""The page of what is kept, and times of single scenarios."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from web_fixtures import error_of

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.states.models import Transition
from dashboard.notify.notifications.models import SENT, Message
from dashboard.operate.administration.models import Period, Remainder
from dashboard.operate.administration.retention import adjustable, set_period
from dashboard.operate.administration.tasks import apply_retention
from dashboard.watch.incidents.models import Incident

pytestmark = [pytest.mark.django_db, pytest.mark.role("admin")]

KEY = "states.transition"
FORM = {"key": KEY, "scenario": "attack", "days": "30"}


def change(scenario: str, days: float) -> None:
    """A change so many days ago."""
    at = now_ms() - round(days * DAY_MS)
    Transition.objects.create(
        scenario=scenario, asset="shop", place=f"{at:020d}", version="1", at=at, state="clear",
        cause_type="report", cause="{}",
    )  # fmt: skip


def kept() -> list[tuple[str, int]]:
    """Scenario and age in days of the changes that there are."""
    rows = Transition.objects.order_by("scenario", "at").values_list("scenario", "at")
    return [(scenario, round((now_ms() - at) / DAY_MS)) for scenario, at in rows]


@pytest.fixture
def changes(user: User) -> User:
    """Changes of two scenarios."""
    for scenario in ("attack", "connectivity"):
        for days in (400, 100, 40, 1):
            change(scenario, days)
    return user


def test_each_scenario_keeps_its_changes_for_its_own_time(changes: User):
    each = adjustable()[KEY]
    set_period(each, "attack", 30 * DAY_MS, changes, now_ms())
    set_period(each, "connectivity", 365 * DAY_MS, changes, now_ms())
    assert apply_retention()["changes of assets"] == 4
    assert kept() == [("attack", 1), ("connectivity", 100), ("connectivity", 40),
                      ("connectivity", 1)]  # fmt: skip
    set_period(each, "connectivity", None, changes, now_ms())
    assert apply_retention() == {"changes of assets": 1}


def test_what_is_of_several_scenarios_is_counted_among_all(user: User):
    for scenario in ("attack", ""):
        Message.objects.create(
            scenario=scenario, kind="test", status=SENT, subject="one", created_at=1,
            ended_at=now_ms(),
        )  # fmt: skip
    apply_retention()
    rows = Remainder.objects.filter(what="messages and their tries")
    assert {row.scenario: row.rows for row in rows} == {"": 2, "attack": 1}


def test_a_run_notes_what_it_leaves_and_what_it_could_not_do(
    changes: User, client: Client, monkeypatch: pytest.MonkeyPatch
):
    apply_retention()
    rows = {row.scenario: row for row in Remainder.objects.filter(what="changes of assets")}
    assert {name: row.rows for name, row in rows.items()} == {
        "": 4, "attack": 2, "connectivity": 2,
    }  # fmt: skip
    assert (rows[""].deleted, rows["attack"].fault) == (4, "")
    assert round((now_ms() - (rows[""].oldest or 0)) / DAY_MS) == 40

    def fail(*_given: Any) -> int:
        raise OSError("the disk is full")

    monkeypatch.setattr(Retention, "apply", fail)
    with pytest.raises(ExceptionGroup):
        apply_retention()
    assert "OSError: the disk is full" in client.get("/console/retention/").content.decode()


def test_a_shorter_time_says_what_it_deletes_before_it_is_set(changes: User, client: Client):
    page = client.post("/console/retention/set/", FORM)
    assert page.status_code == 422
    assert "deletes 3 rows for good" in error_of(page, "confirm")
    assert 'value="30"' in page.content.decode()
    assert not Period.objects.exists()
    assert client.post("/console/retention/set/", FORM | {"confirm": "on"}).status_code == 302
    assert Period.objects.get().kept_ms == 30 * DAY_MS
    entry = AuditEntry.objects.get(action="retention.changed")
    assert (entry.scenario, entry.target) == ("attack", "changes of assets")


def test_a_longer_time_needs_no_confirmation_and_empty_is_the_default(
    changes: User, client: Client
):
    client.post("/console/retention/set/", FORM | {"days": "7300"})
    assert Period.objects.get().kept_ms == 7300 * DAY_MS
    assert "7,300" in client.get("/console/retention/").content.decode()
    client.post("/console/retention/set/", FORM | {"days": "", "confirm": "on"})
    assert not Period.objects.exists()


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("days", "0", "greater than or equal to 1"),
        ("days", "7321", "less than or equal to 7320"),
        ("scenario", "lost", "Select a valid choice"),
        ("key", "auth.user", "Select a valid choice"),
    ],
)
def test_a_form_says_what_it_expects(client: Client, field: str, given: str, words: str):
    page = client.post("/console/retention/set/", FORM | {field: given})
    assert page.status_code == 422
    assert words in error_of(page, field)


def test_the_page_lists_all_that_is_declared(client: Client):
    Incident.objects.create(
        scenario="attack", asset="shop", place="1", began_at=5, state="clear", worst="clear"
    )
    apply_retention()
    page = client.get("/console/retention/").content.decode()
    assert "incidents" in page
    assert "drafts of forms" in page
    assert "outlive the changes" in page
