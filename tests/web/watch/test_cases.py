"""Incidents as people work on them: which assets are one, and what is done to them as one."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS, SECOND_MS, now_ms
from dashboard.core.states.ingestion import StateChange
from dashboard.notify.notifications import texts
from dashboard.notify.notifications.models import (
    QUEUED,
    STATUSES,
    Group,
    GroupIncident,
    Message,
    Rule,
)
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import Acknowledgement, Label, Mark
from dashboard.watch.annotations.row_marks import MarkChanges, marks_of
from dashboard.watch.incidents import cases
from dashboard.watch.incidents.ingestion import MOST_VOTES, join_cases, record, votes_text
from dashboard.watch.incidents.models import Case, Incident, WorstMoment
from dashboard.watch.incidents.report import worst_votes
from dashboard.watch.incidents.views import CASE_ACTS
from domain.notifications.group import Member
from domain.notifications.machine import Send
from domain.records import Report
from support.web.web_fixtures import bearer, logged_in_as, make_user, show
from support.web.world import World
from wire.sink import VoteValue

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
    assert "is resolved: reopen it first" in page.content.decode()
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
        ("?scenario=connectivity", 0), ("?q=-blo", 0), ("?q=owner:nobody", 1),
        ("?q=owner:no*", 0), ("?q=owner:*", 0), ("?q=-owner:olga", 1), ("?q=ticket:*", 0),
        ("?q=-ticket:*", 1), ("?q=asset:shop", 1), ("?q=-asset:s*", 0),
    ],
)  # fmt: skip
def test_the_list_is_filtered(attacked: Case, client: Client, query: str, count: int):
    page = client.get(f"/incidents/{query.format(pk=attacked.pk)}")
    assert page.status_code == 200
    assert len(page.context["page"].rows) == count


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
        assert len(client.get("/incidents/").context["page"].rows) == 30


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


# ---- worked on -----------------------------------------------------------------------------------


def do(client: Client, case: Case, act: str, **form: Any) -> Any:
    """The answer to one of the forms on the page of a case."""
    answer = client.post(f"{case.get_absolute_url()}{act}/", form)
    case.refresh_from_db()
    return answer


def kinds(case: Case) -> list[tuple[str, str]]:
    return list(case.entries.order_by("pk").values_list("kind", "text"))


def test_it_is_handed_to_a_colleague_and_given_back(attacked: Case, client: Client, user: User):
    bob = make_user("admin")
    assert do(client, attacked, "owner", owner="admin", text="your customer").status_code == 302
    assert attacked.owner == bob.username
    Case.objects.update(acknowledged_at=now_ms(), acknowledged_by="admin")
    assert do(client, attacked, "owner", owner="", seen="admin").status_code == 302
    assert (attacked.owner, attacked.status) == ("", "open")
    assert kinds(attacked) == [("owner", "admin: your customer"), ("owner", "nobody")]
    entries = AuditEntry.objects.filter(action="incident.owner", target=attacked.number)
    assert [json.loads(each.facts)["owner"] for each in entries.order_by("number")] == ["admin", ""]


def test_who_may_not_command_cannot_own_it(attacked: Case, client: Client):
    make_user("manager")
    assert do(client, attacked, "owner", owner="manager").status_code == 422
    assert attacked.owner == ""


def test_two_who_take_it_at_once_learn_of_each_other(attacked: Case, client: Client, user: User):
    make_user("admin")
    Case.objects.update(owner="admin")
    answer = do(client, attacked, "owner", owner=user.username, seen="", text="mine")
    assert answer.status_code == 409
    body = answer.content.decode()
    assert "Its owner is admin by now." in body
    assert 'value="mine"' in body
    assert attacked.owner == "admin"


def test_what_is_given_back_when_all_is_good_resolves_itself(user: User):
    log = Log()
    case = wave(log, "a")
    Case.objects.update(owner=user.username)
    write(log.change("a", GOOD, 100))
    cases.hand_over(case, user, "", "", now_ms())
    assert (case.status, case.resolved_by) == ("resolved", "")


def test_notes_and_the_ticket_are_on_the_timeline(attacked: Case, client: Client):
    assert do(client, attacked, "note", text="called *them*").status_code == 302
    assert do(client, attacked, "ticket", ticket="SOC-7").status_code == 302
    assert do(client, attacked, "note", text="").status_code == 422
    assert do(client, attacked, "ticket", ticket="x" * 101).status_code == 422
    assert attacked.ticket == "SOC-7"
    assert kinds(attacked) == [("note", "called *them*"), ("ticket", "SOC-7")]
    body = client.get(attacked.get_absolute_url()).content.decode()
    assert "called *them*" in body
    report = client.get(f"{attacked.get_absolute_url()}report.md").content.decode()
    assert r"note by operator: called \*them\*" in report
    assert "| Ticket | SOC\\-7 |" in report or "| Ticket | SOC-7 |" in report


def test_it_is_resolved_whatever_its_assets_are_and_opened_again(
    attacked: Case, client: Client, user: User, world: World
):
    assert do(client, attacked, "resolve", text="a drill").status_code == 302
    assert (attacked.status, attacked.resolved_by) == ("resolved", user.username)
    assert do(client, attacked, "resolve").status_code == 409
    assert do(client, attacked, "owner", owner=user.username).status_code == 409
    world.report("shop", "suspicious")
    world.write()
    attacked.refresh_from_db()
    assert attacked.status == "resolved"
    assert do(client, attacked, "reopen", text="not over").status_code == 302
    assert (attacked.status, attacked.owner) == ("open", user.username)
    assert do(client, attacked, "reopen").status_code == 302  # nothing changes
    assert kinds(attacked) == [("resolved", "a drill"), ("reopened", "not over")]


def test_a_manager_has_no_form_and_no_act(attacked: Case):
    manager = logged_in_as("manager")
    for act in CASE_ACTS:
        assert manager.post(f"{attacked.get_absolute_url()}{act}/", {}).status_code == 403
    assert not attacked.entries.exists()


def test_entries_are_bounded(attacked: Case, client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cases, "MOST_ENTRIES", 1)
    assert do(client, attacked, "note", text="one").status_code == 302
    answer = do(client, attacked, "note", text="two")
    assert answer.status_code == 409
    assert "has 1 entries already" in answer.content.decode()


# ---- worked on by REST ---------------------------------------------------------------------------


def rest(client: Client, method: str, path: str, **body: Any) -> Any:
    send = getattr(client, method)
    return send(f"/api/v1/incidents/{path}", body, content_type="application/json")


def test_rest_does_what_the_forms_do(attacked: Case, client: Client, user: User):
    make_user("admin")
    number = attacked.pk
    known = rest(client, "post", f"{number}/acknowledge", reason="on it").json()
    assert (known["status"], known["owner"]) == ("acknowledged", user.username)
    assert rest(client, "put", f"{number}/owner", owner="admin").json()["owner"] == "admin"
    assert rest(client, "put", f"{number}/owner", owner="nobody-here").status_code == 409
    assert rest(client, "post", f"{number}/notes", text="a note").status_code == 200
    assert rest(client, "put", f"{number}/ticket", ticket="SOC-7").json()["ticket"] == "SOC-7"
    known = rest(client, "post", f"{number}/resolve", text="over").json()
    assert (known["status"], known["resolved_by"]) == ("resolved", user.username)
    assert rest(client, "post", f"{number}/resolve").status_code == 409
    assert rest(client, "post", f"{number}/reopen").json()["status"] == "acknowledged"
    assert rest(client, "post", f"{number}9/notes", text="a note").status_code == 404
    assert rest(client, "post", f"{number}/acknowledge", until=1).status_code == 422
    timeline = client.get(f"/api/v1/incidents/{number}").json()["timeline"]
    acts = [each["kind"] for each in timeline if each["who"]]
    assert acts == ["acknowledged", "owner", "note", "ticket", "resolved", "reopened"]


def test_a_token_that_only_reads_changes_nothing(attacked: Case, user: User):
    answer = Client().post(
        f"/api/v1/incidents/{attacked.pk}/notes", {"text": "x"},
        content_type="application/json", headers=bearer(user, "read"),
    )  # fmt: skip
    assert answer.status_code == 403
    assert not attacked.entries.exists()


def test_a_ticket_that_was_closed_elsewhere_is_noted_once(attacked: Case, client: Client):
    Case.objects.update(ticket="SOC-7")
    for _ in range(2):
        answer = rest(client, "post", "ticket-closed", ticket="SOC-7", text="done by Ada")
        assert answer.json() == {"numbers": [attacked.number]}
    assert kinds(attacked) == [("closed", "SOC-7: done by Ada")]
    attacked.refresh_from_db()
    assert attacked.status == "open"
    assert rest(client, "post", "ticket-closed", ticket="SOC-8").json() == {"numbers": []}
    body = client.get(attacked.get_absolute_url()).content.decode()
    assert "ticket closed by" in body


# ---- in messages and at the handover -------------------------------------------------------------


def message(case: Case) -> Send:
    members = tuple(
        Member("attack", row.asset, row.place, row.began_at, row.state, row.worst)
        for row in case.members
    )
    return Send("scenario=attack", 1, "opened", (0,), members)


def test_messages_carry_number_owner_ticket_and_status(attacked: Case, settings: Any):
    Case.objects.update(owner="olga", ticket="SOC-7", acknowledged_at=1, acknowledged_by="olga")
    payload = texts.payload(message(attacked), "Attacks", "")
    assert {each["number"] for each in payload["incidents"]} == {attacked.number}
    url = f"{settings.TALLYBOARD.own_url}{attacked.get_absolute_url()}"
    assert payload["numbers"][attacked.number] == {
        "status": "acknowledged", "owner": "olga", "ticket": "SOC-7", "ticket_url": "", "url": url,
    }  # fmt: skip
    assert f"{attacked.number}: {url}" in texts.as_text(message(attacked), "", "")
    assert f'<a href="{url}">{attacked.number}</a>' in texts.as_html(message(attacked), "", "")


def test_the_handover_lists_them_by_owner(attacked: Case, client: Client):
    link = f"{attacked.number}</a> <bdi>3 sites"
    assert link in client.get("/handover/").content.decode()
    Case.objects.update(owner="olga", ticket="SOC-7")
    text = client.get("/handover/text/").content.decode()
    assert re.search(rf"olga: \*\*{attacked.number}\*\* 3 sites, open, 3 of 3 in trouble", text)
    Case.objects.update(resolved_at=1, resolved_by="olga")
    assert link not in client.get("/handover/").content.decode()


# ---- votes at the worst, messages and commands ---------------------------------------------------


def test_it_keeps_the_votes_and_figures_of_the_worst_moment(world: World, client: Client):
    world.job.put("attack", Report("shop", "waf-1", "suspicious", detail='{"rps": 40}'))
    world.report("shop", "suspicious", "waf-2")
    world.write()
    world.job.put(
        "attack", Report("shop", "waf-1", BAD, detail='{"rps": 9000, "labels": {"a": "b"}}')
    )
    world.report("shop", BAD, "waf-2")
    world.write()
    world.job.put("attack", Report("shop", "waf-1", "suspicious", detail='{"rps": 50}'))
    world.report("shop", "suspicious", "waf-2")
    world.write()
    votes = {vote.agent: vote for vote in worst_votes(list(case_of("shop").members))}
    assert {vote.state for vote in votes.values()} <= {BAD, "suspicious"}
    assert votes["waf-1"].state == BAD
    assert votes["waf-1"].figures == {"rps": 9_000}
    url = case_of("shop").get_absolute_url()
    assert "rps 9000" in client.get(url).content.decode()
    assert "rps 9000" in client.get(f"{url}report.md").content.decode()
    rest_votes = client.get(f"/api/v1/incidents/{case_of('shop').pk}").json()["worst_votes"]
    assert {each["agent"]: each["figures"] for each in rest_votes}["waf-1"] == {"rps": 9_000}


def test_a_log_that_is_read_again_keeps_the_votes_of_the_worst_moment(attacked: Case):
    known = list(WorstMoment.objects.order_by("asset").values_list("asset", "at", "votes"))
    assert len(known) == 3
    row = attacked.members[0]
    write(StateChange("attack", row.asset, row.place, row.began_at, row.state, ""))
    assert WorstMoment.objects.count() == 3


def test_many_votes_and_long_figures_are_bounded():
    attack = scenarios()["attack"]
    plain: dict[str, Any] = {
        "state": BAD,
        "reported_at": 1,
        "time": 1,
        "offset": 1,
        "expires": 1,
        "weight": 1,
    }
    votes = [VoteValue(agent=f"waf-{n}", **plain) for n in range(50)]
    votes.append(VoteValue(agent="a", detail=msgspec.Raw(b'{"x": "' + b"y" * 600 + b'"}'), **plain))
    kept = json.loads(votes_text(attack, votes))
    assert len(kept) == MOST_VOTES
    assert kept[0] == {"agent": "a", "state": BAD, "silent": False, "figures": None}


def test_commands_that_were_tried_are_on_the_timeline(attacked: Case, client: Client, bus: Any):
    form = {"id": str(uuid.uuid4()), "state": "clear", "reason": "a drill", "end": "1h"}
    assert client.post("/s/attack/command/set/shop/", form).status_code == 302
    page = client.get(attacked.get_absolute_url())
    (command,) = [each for each in page.context["moments"] if each.kind == "command.set"]
    assert (command.asset, command.who) == ("shop", "operator")
    assert "a drill" in command.text
    assert "state set by" in page.content.decode()


def test_messages_are_on_the_timeline_of_those_who_may_read_them(attacked: Case, client: Client):
    rule = Rule.objects.create(name="Attacks", changed_at=1)
    group = Group.objects.create(rule=rule, key="scenario=attack", opened_at=1)
    row = attacked.members[0]
    GroupIncident.objects.create(group=group, scenario="attack", asset=row.asset, place=row.place)
    Message.objects.create(
        kind="opened", subject="3 sites under attack", means="mail", recipient="soc@example.org",
        group=group, rule=rule, created_at=now_ms(),
    )  # fmt: skip
    words = f"3 sites under attack, to soc@example.org, {STATUSES[QUEUED]}"
    url = attacked.get_absolute_url()
    assert words in client.get(url).content.decode()
    manager = logged_in_as("manager")
    for each in (url, f"{url}report.md", f"/api/v1/incidents/{attacked.pk}"):
        assert "soc@" in re.sub(r"\\", "", client.get(each).content.decode())
        assert "soc@" not in re.sub(r"\\", "", manager.get(each).content.decode())


# ---- merged and split ----------------------------------------------------------------------------


def two_cases(user: User) -> tuple[Case, Case]:
    """Two cases of sites, an hour apart; the second one has an owner, a ticket and a note."""
    log = Log()
    write(log.change("a", BAD, 0), log.change("b", BAD, 3_600), log.change("c", BAD, 3_601))
    first, second = case_of("a"), case_of("b")
    Case.objects.filter(pk=second.pk).update(owner="olga", ticket="SOC-7")
    cases.write_note(second, user, "called them", now_ms())
    return first, second


def test_a_merged_one_is_a_part_of_the_other(client: Client, user: User):
    first, second = two_cases(user)
    answer = client.post(f"{second.get_absolute_url()}merge/", {"into": first.number})
    assert answer.status_code == 302
    first.refresh_from_db()
    assert case_of("a") == case_of("b") == case_of("c") == first
    assert (first.owner, first.ticket) == ("olga", "SOC-7")
    assert [kind for kind, _ in kinds(first)] == ["note", "merged"]
    assert list(Case.objects.shown()) == [first]
    moved = client.get(second.get_absolute_url())
    assert moved.headers["Location"] == first.get_absolute_url()
    entry = AuditEntry.objects.get(action="incident.merged")
    assert (entry.target, json.loads(entry.facts)["into"]) == (second.number, first.number)


def test_what_begins_with_a_merged_wave_joins_what_it_was_merged_into(user: User):
    first, second = two_cases(user)
    cases.merge(second, user, first, now_ms())
    log = Log()
    log.offset = 100
    write(log.change("d", BAD, 3_700), log.change("b", BAD, 3_601))
    assert case_of("d") == first
    assert Case.objects.count() == 2


def test_it_is_not_merged_with_itself_another_scenario_or_nothing(client: Client, user: User):
    first, _ = two_cases(user)
    other = Case.objects.create(scenario="connectivity", began_at=1, owner="olga")
    for into, status in ((first.number, 409), (other.number, 409), ("INC-0", 422), ("shop", 422)):
        answer = client.post(f"{first.get_absolute_url()}merge/", {"into": into})
        assert answer.status_code == status
        assert f'value="{into}"' in answer.content.decode()
    assert Case.objects.filter(merged_into=None).count() == 3


def test_assets_are_split_off_under_a_number_of_their_own(client: Client, user: User):
    _, case = two_cases(user)
    page = f"{case.get_absolute_url()}split/"
    assert client.post(page, {"assets": ["b"]}).status_code == 302
    own = case_of("b")
    assert own != case == case_of("c")
    assert (own.owner, own.ticket, own.began_at) == ("olga", "", BEGAN + 3_600_000)
    words = f"{own.number} off {case.number}"
    assert kinds(own) == [("split", words)]
    assert kinds(case)[-1] == ("split", words)
    assert client.post(page, {"assets": ["c"]}).status_code == 409
    assert client.post(page, {"assets": ["b"]}).status_code == 422


def numbers() -> dict[str, int | None]:
    """Which incident each site's row names, by its mark."""
    return {mark.asset: mark.case for mark in Mark.objects.order_by("asset")}


def test_a_row_has_the_number_of_its_incident_while_its_trouble_goes_on(client: Client, user: User):
    log = Log()
    case = wave(log, "a", "b")
    live = MarkChanges()
    assert sorted(live.read()["attack"]) == sorted(marks_of("attack", ["a", "b"]))
    assert numbers() == {"a": case.pk, "b": case.pk}
    acknowledgements.write_note("attack", "a", user, "looking", now_ms())
    assert numbers() == {"a": case.pk, "b": case.pk}
    before = Mark.objects.get(asset="a").revision
    write(log.change("a", GOOD, 100))
    assert numbers() == {"a": None, "b": case.pk}
    assert Mark.objects.get(asset="a").revision > before
    assert {mark.asset: mark.case for mark in live.read()["attack"]} == numbers()
    show("attack", "b", BAD)
    page = client.get("/?scenario=attack").content.decode()
    row = re.search(r'data-asset="b".*?</tr>', page, re.DOTALL)
    assert row
    assert f'href="/incidents/{case.number}/">{case.number}</a>' in row[0]


def test_a_row_follows_what_is_merged_and_split(user: User):
    first, second = two_cases(user)
    Incident.objects.filter(asset="a").update(ended_at=BEGAN + 1)
    cases.merge(second, user, first, now_ms())
    assert {numbers()[asset] for asset in "bc"} == {first.pk}
    own = cases.split(first, user, ["c"], now_ms())
    assert (numbers()["b"], numbers()["c"]) == (first.pk, own.pk)


def test_rest_merges_and_splits(client: Client, user: User):
    first, second = two_cases(user)
    own = rest(client, "post", f"{second.pk}/split", assets=["c"]).json()
    assert own["subject"] == "c"
    assert rest(client, "post", f"{second.pk}/split", assets=["x"]).status_code == 409
    merged = rest(client, "post", f"{own['id']}/merge", into=first.pk).json()
    assert (merged["number"], merged["assets"]) == (first.number, 2)
    assert rest(client, "post", f"{first.pk}/merge", into=99_999).status_code == 404
