"""The scenarios' pages: what is configured and used, another rule reviewed, sent and followed."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from bus.memory import MemoryBus
from dashboard.core.audit.models import AuditEntry as Entry
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import ingest_progress as take_in_asks
from dashboard.core.job.models import JobProgress, JobRequest
from dashboard.core.job.requests import REQUEST_LIMIT
from dashboard.core.rules.ingestion import RECORDS_KEPT, ingest_rules
from dashboard.core.rules.models import (
    CarriedScenario,
    RuleChange,
    RuleRecord,
    as_carried,
    in_force,
)
from domain.overlay import canonical, digest, overlaid, overlay_text
from domain.scenario_parser import scenario_from_plain
from support.histories.hostile import calm, text
from support.web.heartbeats import heartbeat, store
from support.web.web_fixtures import logged_in_as, show
from wire.job import Carried, Control, JobAnswer, Overlay, QueryReport, decode_control

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]

PAGE = "/scenarios/attack/"
HOLD = {"holds": {"clear": "7s"}}


def tell(keys: Any = None, offset: int = 10, name: str = "attack", **more: Any) -> Carried:
    """The job tells of a scenario: the overlay, and the rule's record in each partition."""
    configured = more.pop("configured", scenarios()[name])
    plain = canonical(configured, keys or {})
    rule = more.pop("rule", overlaid(configured, plain))
    carried = Carried(
        name,
        digest(configured, plain),
        configured.to_plain(),
        rule.to_plain(),
        Overlay(plain, "ada", "a storm", now_ms(), "x") if plain else Overlay(),
        offsets=more.pop("offsets", dict.fromkeys(range(4), offset)),
        **more,
    )
    ingest_rules([QueryReport("kernel", now_ms(), "running", 3, carried=carried)])
    return carried


def beat(offset: int = 20, *partitions: int) -> None:
    """Buckets have come so far."""
    for at in partitions or range(4):
        store(heartbeat(now_ms(), "attack", at, epoch=3, offset=offset))


def body(client: Client, path: str = PAGE) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


# ---- what is shown --------------------------------------------------------------------------


def test_before_the_job_has_told_anything_the_file_is_shown():
    operator = logged_in_as("operator")
    for path in (PAGE, "/scenarios/"):
        page = body(operator, path)
        assert "The job has not reported its rule: check that it runs." in page
        assert "Under attack" in page
    assert "Change…" not in page


def test_a_rule_as_the_file_has_it(admin: Client):
    tell()
    beat()
    page = body(admin)
    for words in (
        "when more than half of the weight of all live votes is for it.",
        "Where none of these holds, the state stays as it is.",
        "when more than half of the weight of all live votes is for it or worse.",
        "2 agents must vote to lower a state, else it is unconfirmed",
        "one agent must vote to raise it", "15 m (three vote lifetimes, at least 15 m)",
        "15 m, as long as silent votes are kept", "Live votes alone raise a state.",
        "scrubber-*", "all others 1", "attack.reports", "attack.states", "kernel",
        "Nothing was changed in the console", "4 of 4",
    ):  # fmt: skip
        assert words in page, words
    assert 'class="note"' not in page
    assert "Revert" not in page
    assert '<span class="state c-red">' in page


def test_what_was_changed_from_here_is_marked_and_can_be_taken_back(admin: Client):
    tell(HOLD)
    beat()
    page = body(admin)
    assert "<bdi>ada</bdi>" in page
    assert "<bdi>a storm</bdi>" in page
    assert page.count('class="differs"') == 1
    assert 'name="take_back" value="holds"' in page
    assert "7 s" in page
    assert "take_back" not in body(logged_in_as("operator"))
    assert "Holds" in body(admin, "/scenarios/")


@pytest.mark.parametrize(
    ("arguments", "reached", "words"),
    [
        ({"offsets": {0: 10, 1: 10, 2: 10}}, 20, "The rule is not in the log yet in partition 3."),
        ({"offset": 30}, 20, "The job has not applied the rule yet."),
        ({"problem": "attack.holds.x: expected y"}, 20, "does not count: attack.holds.x: expected"),
    ],
)
def test_where_the_job_is_not_there_yet_it_is_said(
    admin: Client, arguments: dict[str, Any], reached: int, words: str
):
    tell(HOLD, **arguments)
    beat(reached)
    assert words in body(admin)
    assert words.split(":", maxsplit=1)[0] in body(admin, "/scenarios/")


def test_partitions_that_differ_are_named(admin: Client):
    tell()
    tell(HOLD, offsets={0: 50, 2: 50})
    beat(60)
    page = body(admin)
    assert "The log still has another rule in partitions 1, 3." in page
    assert page.count('<span class="word">another rule</span>') == 2


def test_a_file_that_the_job_has_not_read_yet_is_said(admin: Client):
    tell(configured=replace(scenarios()["attack"], min_voters=9))
    beat()
    assert "The file has changed since the job read it: reload the job" in body(admin)


def test_a_file_with_a_mistake_is_named(
    admin: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    tell()
    file = tmp_path / "broken.toml"
    file.write_text('[attack]\nstates = [{ name = "a" }]\nrule = { kind = "loud" }\n')
    from django.conf import settings

    changed = settings.TALLYBOARD.model_copy(update={"scenarios": file})
    scenarios()
    monkeypatch.setattr(settings, "TALLYBOARD", changed)
    for path in (PAGE, "/scenarios/"):
        assert "broken.toml: attack.rule.kind: expected one of latest" in body(admin, path)


def test_a_scenario_that_is_not_there(admin: Client):
    assert admin.get("/scenarios/nowhere/").status_code == 404
    assert admin.get("/scenarios/nowhere/change/").status_code == 404
    for page in ("review", "confirm"):
        assert admin.post(f"/scenarios/nowhere/{page}/").status_code == 404
        assert admin.post(f"/scenarios/attack/{page}/").status_code == 404  # nothing is told of it


# ---- another rule ---------------------------------------------------------------------------


def fields(client: Client, path: str = f"{PAGE}change/") -> dict[str, Any]:
    """Return what the form has at first."""
    response = client.get(path)
    form = response.context["form"]
    return {name: form[name].value() or "" for name in form.fields}


def review(client: Client, **changes: str) -> Any:
    return client.post(f"{PAGE}review/", fields(client) | changes, follow=True)


def confirm(client: Client, reviewed: Any, **changes: Any) -> Any:
    form = reviewed.context["form"]
    given = {name: form[name].value() or "" for name in form.fields}
    given |= {"reason": "a storm", "name": "attack"} | changes
    return client.post(f"{PAGE}confirm/", given)


def asks_in(gateway: Gateway) -> list[Control]:
    assert isinstance(gateway.bus, MemoryBus)
    reader = gateway.bus.reader({(gateway.topics.control, 0): 0})
    return [decode_control(message.value) for message in reader.poll(0)]


def test_the_form_as_it_is_changes_nothing(admin: Client):
    for keys in ({}, HOLD, {"vote_lifetime": "20m", "rule": {"kind": "latest"}}):
        carried = tell(keys)
        page = review(admin)
        assert page.status_code == 200
        assert "Nothing would change" in page.content.decode()
        assert page.context["proposal"].keys == carried.overlay.keys


def test_voters_and_the_memory_of_silent_votes_are_changed(admin: Client, gateway: Gateway):
    tell()
    beat()
    reviewed = review(admin, min_voters="3", raise_voters="2", forget_after="0s")
    page = reviewed.content.decode()
    for words in (
        "3 agents must vote to lower a state, else it is unconfirmed",
        "2 agents must vote to raise it",
        "never: silent votes are forgotten at once",
    ):
        assert words in page, words
    confirm(admin, reviewed)
    (ask,) = asks_in(gateway)
    keys = {"min_voters": {"lower": 3, "raise": 2}, "forget_after": 0}
    assert ask.parameters["keys"] == keys
    tell(keys)
    at = fields(admin)
    assert (at["min_voters"], at["raise_voters"], at["forget_after"]) == (3, 2, "0s")
    back = review(admin, raise_voters="", forget_after="")
    assert back.context["proposal"].keys == {"min_voters": 3}


def test_a_life_cycle_raises_and_lowers_nothing(admin: Client):
    tell(name="orders")
    page = body(admin, "/scenarios/orders/")
    assert "No state is worse than another" in page
    assert "never: no state is worse than another" in page
    form = admin.get("/scenarios/orders/change/").context["form"]
    assert not {"raise_voters", "forget_after"} & form.fields.keys()
    given = fields(admin, "/scenarios/orders/change/")
    response = admin.post("/scenarios/orders/review/", given, follow=True)
    assert "Nothing would change" in response.content.decode()


def test_an_admin_changes_a_rule_and_follows_it(admin: Client, gateway: Gateway):
    carried = tell()
    beat()
    at = fields(admin)
    hold = next(n for n, v in at.items() if n.startswith("holds") and v == "20s")
    reviewed = review(admin, **{hold: "7s", "electorate": "6"})
    page = reviewed.content.decode()
    assert "weight 6 in all" in page
    assert "7 s" in page
    assert page.count('<span class="word">changes</span>') == 2
    assert confirm(admin, reviewed).url == f"{PAGE}#changes-h"
    ask = JobRequest.objects.get()
    keys = {"electorate": 6, "holds": {"clear": 7_000, "suspicious": 5_000}}
    parameters = {"scenario": "attack", "keys": keys, "base": carried.version}
    assert asks_in(gateway) == [
        Control(str(ask.pk), "kernel", "rule", "admin", "a storm", parameters)
    ]
    assert "sent, waiting for the job" in body(admin)
    for outcome, why in (("accepted", ""), ("done", "attack: electorate = 6")):
        answered = JobAnswer(str(ask.pk), "rule", outcome, why)  # type: ignore[arg-type]
        record = QueryReport("kernel", now_ms(), "running", 3, answer=answered)
        ingest_rules([record])
        take_in_asks([record])
    tell(keys, offset=40)
    page = body(admin)
    assert "attack: electorate = 6" in page
    assert "The job has not applied the rule yet." in page
    beat(40, 0, 1, 2)
    assert "not applied the rule yet in partition 3." in body(admin)
    beat(41)
    assert 'class="note"' not in body(admin)
    entry = Entry.objects.get(action="rule.changed")
    assert (entry.scenario, entry.name, entry.outcome) == ("attack", "admin", "sent")


@pytest.mark.parametrize("key", ["holds", "*"])
def test_an_overlay_is_taken_back(admin: Client, gateway: Gateway, key: str):
    tell({**HOLD, "min_voters": 5})
    reviewed = admin.post(f"{PAGE}review/", {"take_back": key}, follow=True)
    assert confirm(admin, reviewed).status_code == 302
    (ask,) = asks_in(gateway)
    assert ask.parameters["keys"] == ({} if key == "*" else {"min_voters": 5})
    assert RuleChange.objects.get().reverted is (key == "*")
    assert ("All of it was reverted." in body(admin)) is (key == "*")
    entry = Entry.objects.get(action__startswith="rule.")
    assert entry.action == ("rule.reverted" if key == "*" else "rule.changed")


def test_an_overlay_that_does_not_fit_can_be_taken_back(admin: Client, gateway: Gateway):
    plain = scenarios()["attack"].to_plain()
    states = [state for state in plain["states"] if state["name"] != "suspicious"]
    rule = {"kind": "latest"}
    smaller = scenario_from_plain({**plain, "states": states, "rule": rule, "holds": {}})
    carried = tell(HOLD, configured=smaller, rule=smaller, problem="attack.holds.clear: expected")
    CarriedScenario.objects.update(keys=json.dumps({"holds": {"suspicious": 5_000}}))
    assert "does not count" in body(admin)
    reviewed = admin.post(f"{PAGE}review/", {"take_back": "*"}, follow=True)
    assert confirm(admin, reviewed).status_code == 302
    assert asks_in(gateway)[0].parameters == {
        "scenario": "attack",
        "keys": {},
        "base": carried.version,
    }


def test_what_is_gone_already_is_not_taken_back_twice(admin: Client):
    tell()
    response = admin.post(f"{PAGE}review/", {"take_back": "holds"})
    assert (response.status_code, response.headers["Location"]) == (302, PAGE)


@pytest.mark.parametrize(
    ("changes", "field", "why"),
    [
        ({"min_voters": "none"}, "min_voters", "attack.min_voters: expected an integer from 1"),
        ({"raise_voters": "many"}, "raise_voters", "attack.min_voters.raise: expected an integer"),
        ({"forget_after": "soon"}, "forget_after", "attack.forget_after: expected a duration"),
        ({"max_report_age": "2h"}, "max_report_age", "expected at most forget_after"),
        ({"vote_lifetime": "soon"}, "vote_lifetime", "attack.vote_lifetime: expected a duration"),
        ({"vote_lifetime": ""}, "vote_lifetime", "with severity a vote without an end would"),
        ({"electorate": "0"}, "electorate", "attack.electorate: expected an integer"),
        ({"holds-2": "5 minutes"}, "holds-2", "attack.holds.clear: expected a duration"),
        ({"text": "partitions = 8"}, "text", "attack.partitions: expected one of rule"),
        ({"text": "rule = 5"}, "text", "attack.rule: expected a table"),
        ({"text": 'holds = { evil = "1s" }'}, "text", "attack.holds.evil: expected one of"),
        ({"text": 'tasks = [{ on = "under-attack", after = "5m", do = "purge" }]'},
         "text", "attack.tasks[0].do: expected no purge"),
        ({"text": "["}, "text", "expected TOML"),
        ({"text": "weights = { " + ", ".join(f'"{n:0>99}" = 1' for n in range(290)) + " }"},
         None, "Review"),
        ({"min_voters": ""}, "min_voters", "This field is required."),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_what_was_typed_is_kept(
    admin: Client, gateway: Gateway, changes: dict[str, str], field: str | None, why: str
):
    tell()
    response = review(admin, **changes)
    page = response.content.decode()
    assert why in page
    if field is None:
        assert response.status_code == 200
        return
    assert response.status_code == 422
    assert list(response.context["form"].errors) == [field]
    assert response.context["form"][field].value() == changes[field]
    assert asks_in(gateway) == []


@pytest.mark.parametrize(
    ("changes", "status", "why"),
    [
        ({"reason": ""}, 422, "This field is required."),
        ({"reason": "x" * 501}, 422, "at most 500 characters"),
        ({"name": "connectivity"}, 422, "Expected attack."),
        ({"id": "7"}, 422, "Enter a valid UUID."),
        ({"keys": "min_voters = 0"}, 422, "attack.min_voters: expected an integer"),
        ({"base": "of another"}, 409, "Somebody changed the rule meanwhile."),
    ],
)
def test_what_is_not_confirmed_is_not_sent(
    admin: Client, gateway: Gateway, changes: dict[str, str], status: int, why: str
):
    tell()
    response = confirm(admin, review(admin, min_voters="3"), **changes)
    assert response.status_code == status
    assert why in response.content.decode()
    assert asks_in(gateway) == []
    assert not RuleChange.objects.exists()


def test_who_is_second_sees_what_the_first_has_done_and_may_go_on(admin: Client, gateway: Gateway):
    tell()
    reviewed = review(admin, min_voters="3")
    carried = tell(HOLD)
    again = confirm(admin, reviewed)
    assert again.status_code == 409
    assert "7 s" in again.content.decode()
    assert again.context["form"]["reason"].value() == "a storm"
    assert confirm(admin, again).status_code == 302
    assert asks_in(gateway)[0].parameters["base"] == carried.version


def test_the_same_form_twice_is_one_change(admin: Client, gateway: Gateway):
    tell()
    reviewed = review(admin, min_voters="3")
    for _ in range(2):
        assert confirm(admin, reviewed).status_code == 302
    assert len(asks_in(gateway)) == RuleChange.objects.count() == 1


def test_changes_are_limited(admin: Client, gateway: Gateway):
    tell()
    reviewed = review(admin, min_voters="3")
    statuses = [
        confirm(admin, reviewed, id=str(uuid.uuid4())).status_code
        for _ in range(REQUEST_LIMIT.count + 1)
    ]
    assert statuses.count(429) == 1
    assert len(asks_in(gateway)) == RuleChange.objects.count() == REQUEST_LIMIT.count


def test_a_kafka_that_does_not_answer_is_told(
    admin: Client, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dashboard.core.common.kafka.REACH_S", 0.1)
    tell()
    reviewed = review(admin, min_voters="3")
    assert isinstance(gateway.bus, MemoryBus)
    gateway.bus.stop()
    assert confirm(admin, reviewed).status_code == 302
    assert "not sent" in body(admin)


def test_a_proposal_comes_from_an_address_and_goes_into_one(admin: Client):
    tell(HOLD)
    rule = overlay_text({"min_voters": 4, "rule": {"kind": "latest"}})
    client, path = admin, f"{PAGE}change/?{_query(rule)}"
    form = client.get(path).context["form"]
    assert form["min_voters"].value() == 4
    assert 'kind = "latest"' in form["text"].value()
    given = {name: form[name].value() or "" for name in form.fields}
    reviewed = client.post(f"{PAGE}review/", given, follow=True)
    assert reviewed.context["proposal"].keys == {
        "rule": {"kind": "latest"}, "min_voters": 4, "holds": {"clear": 7_000},
    }  # fmt: skip
    assert fields(client, reviewed.context["back"]) == given
    broken = client.get(f"{PAGE}change/?{_query('min_voters = 0')}").content.decode()
    assert "attack.min_voters: expected" in broken
    assert "min_voters = 0</textarea>" in broken


def _query(rule: str) -> str:
    from django.utils.http import urlencode

    return urlencode({"rule": rule})


@text
@pytest.mark.spread(2)
def test_hostile_texts(text: str):
    tell()
    admin = logged_in_as("admin")
    value = text.encode(errors="replace").decode()
    for field in ("min_voters", "vote_lifetime", "holds-0", "text"):
        calm(review(admin, **{field: value}), text)
    calm(admin.post(f"{PAGE}review/", {"take_back": value}, follow=True), text)
    reviewed = review(admin, min_voters="3")
    for field in ("id", "base", "keys", "reason", "name"):
        calm(confirm(admin, reviewed, **{field: value}), text)
    cache.clear()
    calm(admin.get(PAGE), text)
    if len(value) < 10_000:
        calm(admin.get(f"{PAGE}change/?{_query(value)}"), text)


# ---- what the job tells ---------------------------------------------------------------------


def test_what_the_job_tells_is_no_word_on_its_status():
    carried = tell()
    take_in_asks([QueryReport("kernel", 1, "running", 3, carried=carried)])
    assert not JobProgress.objects.exists()


def test_what_cannot_be_read_is_passed_over():
    carried = tell()
    wrong: list[dict[str, Any]] = [
        {"rule": {}},
        {"configured": {"name": "attack"}},
        {"scenario": "x" * 100},
        {"offsets": {-1: 5, 2**40: 5, 3: 2**70}},
    ]
    for changes in wrong:
        parts = {name: getattr(carried, name) for name in Carried.__struct_fields__} | changes
        ingest_rules([QueryReport("kernel", 1, "running", 3, carried=Carried(**parts))])
    ingest_rules(
        [QueryReport("kernel", 1, "running", 3, answer=JobAnswer("no uuid", "rule", "done"))]
    )
    assert CarriedScenario.objects.get().version == carried.version
    assert RuleRecord.objects.count() == 4


def test_records_that_are_kept_are_bounded():
    for offset in range(RECORDS_KEPT + 5):
        tell(offset=offset, offsets={0: offset})
    assert RuleRecord.objects.count() == RECORDS_KEPT
    assert RuleRecord.objects.order_by("offset")[0].offset == 5


def test_a_log_that_begins_anew_is_believed():
    tell(HOLD, offset=50)
    tell(offset=50)
    assert {row.rule for row in RuleRecord.objects.all()} == {CarriedScenario.objects.get().rule}
    tell(offset=3)
    assert set(RuleRecord.objects.values_list("offset", flat=True)) == {3}


def test_an_asset_is_explained_by_the_rule_in_force():
    show("attack", "shop", "clear", offset=12)
    manager, page = logged_in_as("manager"), "/s/attack/a/shop/"
    tell(offset=2)
    tell({"holds": {"suspicious": "77s"}, "min_voters": 1}, offset=13)
    assert "1 m 17 s" not in body(manager, page)  # its bucket is not there yet
    beat(13)
    assert "it must then last 1 m 17 s" in body(manager, page)
    assert "agents must vote" not in body(manager, page)


def test_the_rule_in_force_is_the_one_of_the_log():
    here = scenarios()["attack"]
    assert in_force(here, 0, 5) == here
    tell(offset=10)
    tell(HOLD, offset=30)
    tell({"rule": {"kind": "latest"}}, offset=50)
    assert in_force(here, 0, 5) == here
    assert in_force(here, 0, 29).hold("clear") == here.hold("clear")
    assert in_force(here, 0, 30).hold("clear") == 7_000
    assert in_force(here, 3, 99).to_plain()["rule"] == {"kind": "latest"}
    assert as_carried(here).to_plain()["rule"] == {"kind": "latest"}
    renamed = replace(here, states=tuple(replace(s, label=s.label.upper()) for s in here.states))
    assert in_force(renamed, 0, 99).states == renamed.states
