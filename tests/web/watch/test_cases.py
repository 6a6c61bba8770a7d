"""Incidents as people work on them: which assets are one, and what is done to them as one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS, SECOND_MS, now_ms
from dashboard.core.states.ingestion import StateChange
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import Acknowledgement, Label
from dashboard.watch.incidents import cases
from dashboard.watch.incidents.ingestion import join_cases, record
from dashboard.watch.incidents.models import Case, Incident
from support.web.web_fixtures import logged_in_as
from support.web.world import World

pytestmark = pytest.mark.django_db

BEGAN = 1_760_000_000_000
BAD, GOOD = "under-attack", "clear"


class Log:
    """Changes of states of sites, in the order of the log."""

    def __init__(self) -> None:
        self.offset = 0
        self.states: dict[str, str] = {}
        self.moves: list[StateChange] = []

    def change(self, asset: str, state: str, at_s: float) -> StateChange:
        """Return a change so many seconds after BEGAN, and remember it."""
        self.offset += 1
        at, before = BEGAN + int(at_s * SECOND_MS), self.states.get(asset, "")
        self.states[asset] = state
        move = StateChange("attack", asset, f"{self.offset:020d}.0", at, state, before)
        self.moves.append(move)
        return move


def write(*moves: StateChange) -> None:
    join_cases(record(moves, scenarios()))


def case_of(asset: str) -> Case:
    """The case of an asset's newest incident."""
    case = Incident.objects.filter(asset=asset).latest("began_at").case
    assert case is not None
    return case


def wave(log: Log, *assets: str) -> Case:
    """The one case of sites whose attack begins a minute apart each."""
    write(*(log.change(asset, BAD, 60 * n) for n, asset in enumerate(assets)))
    (case,) = {case_of(asset) for asset in assets}
    return case


# ---- which assets are one ------------------------------------------------------------------------


def test_what_begins_within_the_window_is_one_and_what_begins_later_another():
    log = Log()
    write(log.change("a", BAD, 0), log.change("b", BAD, 299), log.change("c", BAD, 301))
    write(log.change("d", BAD, 300))  # read later, begun before
    assert case_of("a") == case_of("b") == case_of("d")
    assert case_of("c") != case_of("a")
    assert case_of("a").number == f"INC-{case_of('a').pk}"


def test_without_a_window_each_is_its_own(settings: Any):
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"incident_window_s": 0})
    log = Log()
    write(log.change("a", BAD, 0), log.change("b", BAD, 1))
    assert case_of("a") != case_of("b")


def test_with_a_label_only_assets_of_one_value_are_one(settings: Any):
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"incident_label": "customer"})
    for asset, value in {"a": "Acme", "b": "Other", "c": "Acme"}.items():
        Label.objects.create(
            scenario="attack", asset=asset, key="customer", value=value, source="person",
            name="x", at=1,
        )  # fmt: skip
    log = Log()
    write(*(log.change(asset, BAD, n) for n, asset in enumerate("abcde")))
    assert case_of("a") == case_of("c") != case_of("b")
    assert case_of("d") == case_of("e") != case_of("a")
    assert case_of("a").label == "Acme"


def test_an_asset_that_comes_back_while_others_go_on_is_of_the_same():
    log = Log()
    case = wave(log, "a", "b")
    write(log.change("a", GOOD, 100), log.change("a", BAD, 4_000))
    assert case_of("a") == case
    assert case.facts.assets == 2
    assert case.facts.going_on == 2


def test_it_resolves_itself_with_its_last_asset_and_opens_again_within_the_window():
    log = Log()
    case = wave(log, "a", "b")
    write(log.change("a", GOOD, 100))
    assert case_of("a").status == "open"
    write(log.change("b", GOOD, 120))
    case.refresh_from_db()
    assert (case.status, case.resolved_at, case.resolved_by) == ("resolved", BEGAN + 120_000, "")
    write(log.change("c", BAD, 200))
    case.refresh_from_db()
    assert (case_of("c"), case.status) == (case, "open")
    write(log.change("c", GOOD, 210), log.change("c", BAD, 400))
    assert case_of("c") != case


def test_what_somebody_owns_waits_for_its_owner():
    log = Log()
    case = wave(log, "a")
    Case.objects.filter(pk=case.pk).update(owner="olga")
    write(log.change("a", GOOD, 100))
    case.refresh_from_db()
    assert case.status == "open"
    assert case.facts.going_on == 0


def test_nothing_joins_what_somebody_had_resolved_before():
    log = Log()
    case = wave(log, "a")
    resolved = {"resolved_at": BEGAN + 50_000, "resolved_by": "olga"}
    Case.objects.filter(pk=case.pk).update(**resolved)
    write(log.change("b", BAD, 40), log.change("c", BAD, 60))
    assert case_of("b") == case
    assert case_of("c") != case
    case.refresh_from_db()
    assert case.status == "resolved"


# ---- a log that is read again --------------------------------------------------------------------


def test_a_log_that_is_read_again_finds_every_number_owner_and_note(user: User):
    log = Log()
    case = wave(log, "a", "b", "c")
    write(log.change("a", GOOD, 200), log.change("b", GOOD, 210), log.change("c", GOOD, 220))
    write(log.change("a", BAD, 9_000))
    later = case_of("a")
    Case.objects.filter(pk=later.pk).update(owner="olga", ticket="T-1")
    later.write("note", user, now_ms(), "called them")
    known = set(Incident.objects.values_list("asset", "place", "case"))
    moves = log.moves[:]
    for portion in (moves[:2], moves[2:5], moves[5:]):
        write(*portion)
    assert set(Incident.objects.values_list("asset", "place", "case")) == known
    assert Case.objects.count() == 2
    case.refresh_from_db()
    later = Case.objects.get(pk=later.pk)
    assert (case.status, later.status) == ("resolved", "open")
    assert (later.owner, later.ticket, later.entries.get().text) == ("olga", "T-1", "called them")


def test_a_rebuild_under_another_rule_keeps_the_number():
    log = Log()
    case = wave(log, "a", "b")
    Case.objects.filter(pk=case.pk).update(owner="olga")
    again = Log()
    again.offset = 1  # the states change at other places than before
    write(again.change("a", BAD, 20), again.change("b", BAD, 90))
    assert case_of("a") == case_of("b") == case
    assert case.members.count() == Incident.objects.real().count()


def test_a_case_that_a_rebuild_emptied_is_shown_only_if_somebody_owns_it():
    log = Log()
    owned = wave(log, "a")
    Incident.objects.update(ended_at=BEGAN)  # withdrawn: they have no length
    assert not Case.objects.shown().exists()
    Case.objects.filter(pk=owned.pk).update(owner="olga")
    assert Case.objects.shown().get() == owned


# ---- acknowledged as one -------------------------------------------------------------------------


@pytest.fixture
def attacked(world: World) -> Case:
    """Three sites under attack at once."""
    for asset in ("shop", "blog", "mail"):
        world.report(asset, BAD)
    world.write()
    return case_of("shop")


def test_all_assets_are_acknowledged_by_one_act(attacked: Case, client: Client, user: User):
    answer = client.post(
        f"/incidents/{attacked.number}/acknowledge/", {"end": "1h", "reason": "me"}
    )
    assert answer.status_code == 302
    assert Acknowledgement.objects.filter(ended_at=None).count() == 3
    attacked.refresh_from_db()
    assert (attacked.status, attacked.owner) == ("acknowledged", user.username)
    assert set(attacked.members.values_list("acknowledged_by", flat=True)) == {user.username}
    entry = AuditEntry.objects.get(action="incident.acknowledged")
    assert (entry.target, json.loads(entry.facts)["assets"]) == (attacked.number, 3)
    page = client.get(attacked.get_absolute_url())
    acknowledged = [each for each in page.context["moments"] if each.kind == "acknowledged"]
    assert [(each.asset, each.text) for each in acknowledged] == [("", "me")]


def test_who_acknowledges_one_of_its_assets_owns_it(attacked: Case, user: User):
    until = now_ms() + HOUR_MS
    acknowledgements.acknowledge(scenarios()["attack"], ["blog"], user, "", until, now_ms())
    attacked.refresh_from_db()
    assert (attacked.status, attacked.owner) == ("acknowledged", user.username)
    assert attacked.acknowledged_by == user.username


def test_a_resolved_one_is_not_acknowledged(attacked: Case, client: Client):
    Case.objects.update(resolved_at=now_ms(), resolved_by="olga")
    page = client.post(f"/incidents/{attacked.number}/acknowledge/", {"end": "1h", "reason": "me"})
    assert page.status_code == 409
    assert "is resolved: open it again first" in page.content.decode()
    assert 'value="me"' in page.content.decode()
    assert not Acknowledgement.objects.exists()


def test_acts_are_counted_and_refused_beyond_the_limit(
    attacked: Case, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cases, "LIMIT", cases.Limit("incident-changes", 1))
    path = f"/incidents/{attacked.number}/acknowledge/"
    assert client.post(path, {"end": "1h"}).status_code == 302
    assert client.post(path, {"end": "1h"}).status_code == 429


# ---- pages ---------------------------------------------------------------------------------------


def test_an_asset_leads_to_its_incident_and_others_to_their_page(attacked: Case, client: Client):
    assert client.get("/s/attack/incident/blog/").headers["Location"] == attacked.get_absolute_url()
    assert client.get("/s/attack/incident/none/").headers["Location"] == "/s/attack/a/none/"
    assert client.get("/s/nope/incident/blog/").status_code == 404


def test_panel_and_palette_lead_to_it(attacked: Case, client: Client):
    link = f'href="{attacked.get_absolute_url()}"'
    assert link in client.get("/s/attack/a/blog/").content.decode()
    for text in (attacked.number, attacked.number.lower(), str(attacked.pk)):
        assert link in client.get("/palette/", {"q": text}).content.decode()
    assert link not in client.get("/palette/?q=INC-99999").content.decode()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 1), ("?owner=-", 1), ("?status=unresolved", 1), ("?status=open", 1),
        ("?status=resolved", 0), ("?q=blo", 1), ("?q=INC-{pk}", 1), ("?q=INC-{pk}0", 0),
        ("?scenario=connectivity", 0),
    ],
)  # fmt: skip
def test_the_list_is_filtered(attacked: Case, client: Client, query: str, count: int):
    page = client.get(f"/incidents/{query.format(pk=attacked.pk)}")
    assert page.status_code == 200
    assert len(page.context["found"].rows) == count


def test_the_list_says_number_owner_status_and_assets(attacked: Case, client: Client):
    Case.objects.update(owner="olga", acknowledged_at=now_ms(), acknowledged_by="olga")
    body = client.get("/incidents/?owner=olga").content.decode()
    for part in (attacked.number, "olga", "acknowledged", "3 sites", "3 of 3"):
        assert part in body
    answer: Any = client.get("/incidents/incidents.csv")
    (head, line) = b"".join(answer.streaming_content).decode().splitlines()
    assert head.startswith("number,scenario,status,owner,ticket")
    assert line.startswith(f"{attacked.number},attack,acknowledged,olga,")


def test_a_list_of_many_takes_as_few_queries_as_one_of_few(
    client: Client, django_assert_max_num_queries: Any
):
    log = Log()
    write(*(log.change(f"a{n}", BAD, 400 * n) for n in range(30)))
    with django_assert_max_num_queries(25):
        assert len(client.get("/incidents/").context["found"].rows) == 30


def test_a_ticket_is_a_link_by_the_template(attacked: Case, client: Client, settings: Any):
    template = "https://tickets.example.org/browse/{ticket}"
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"ticket_url": template})
    Case.objects.update(ticket="SOC 7/1")
    link = 'href="https://tickets.example.org/browse/SOC%207%2F1"'
    assert link in client.get(attacked.get_absolute_url()).content.decode()
    assert link in client.get("/incidents/").content.decode()


def test_a_manager_reads_it_and_changes_nothing(attacked: Case):
    manager = logged_in_as("manager")
    body = manager.get(attacked.get_absolute_url()).content.decode()
    assert "3 of 3 sites" in body
    assert "I have it" not in body
    assert (
        manager.post(f"/incidents/{attacked.number}/acknowledge/", {"end": "1h"}).status_code == 403
    )
    assert Case.objects.get().status == "open"


def test_rest_has_it_with_its_assets_and_timeline(attacked: Case, client: Client):
    (item,) = client.get("/api/v1/incidents?status=unresolved").json()["items"]
    assert (item["number"], item["assets"], item["going_on"]) == (attacked.number, 3, 3)
    one = client.get(f"/api/v1/incidents/{attacked.pk}").json()
    assert {each["asset"] for each in one["members"]} == {"shop", "blog", "mail"}
    assert {each["asset"] for each in one["timeline"]} == {"shop", "blog", "mail"}
    assert client.get("/api/v1/incidents?owner=olga").json()["items"] == []
