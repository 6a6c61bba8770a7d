"""Words of the pages: states are no verbs, times are dates, the product's own words are told."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from django.test import Client

from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.navigation import TERMS
from dashboard.core.common.scenarios import scenarios
from dashboard.core.job.models import JobProgress
from dashboard.watch.commands.forms import FORMS, SUGGESTED, expected_state
from support.web.web_fixtures import show
from support.web.world import World

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).parents[3]
ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
SOMEBODY = Actor(None, "ada", "admin", "page")
MS = re.compile(r"\b1[6-9]\d{11}\b")


def test_no_button_is_called_as_a_state_is():
    """`Clear` is a state of the product's own scenarios."""
    labels = {spec.label for one in scenarios().values() for spec in one.states}
    for path in (ROOT / "templates").rglob("*.html"):
        for word in re.findall(
            r"<(?:a|button)\b[^>]*>\s*([A-Z][a-z ]+?)\s*(?:<|…)", path.read_text()
        ):
            assert word not in labels, f"{path.name}: {word}"


def test_a_set_begins_with_no_state_and_with_an_end(admin: Client):
    show("attack", "shop", "clear")
    page = admin.get("/s/attack/a/shop/").content.decode()
    (form,) = re.findall(r'class="command command-set".*?</form>', page, re.DOTALL)
    assert re.search(r'<select name="state"[^>]* required', form)
    assert re.search(r'<option value="" selected>choose…</option>', form)
    assert f'<option value="{SUGGESTED}" selected>' in form
    bulk = admin.get("/bulk/?scenario=attack").content.decode()
    assert f'<option value="{SUGGESTED}" selected>' in bulk


def test_a_state_that_is_missing_or_unknown_is_named_as_people_would(admin: Client):
    attack = scenarios()["attack"]
    assert expected_state(attack, "").startswith("Choose a state: one of under-attack")
    assert expected_state(attack, "odd").startswith("There is no state “odd”; expected one of: ")
    for kind in ("set", "vote"):
        form = FORMS[kind](attack, {"reason": "a drill"})
        assert form.errors["state"] == ["Choose a state."]


def test_the_audit_says_what_was_done(admin: Client):
    record(SOMEBODY, "login.ok")
    record(SOMEBODY, "agent.muted", scenario="attack", target="waf-1", until=1_790_000_000_000)
    page = admin.get("/audit/").content.decode()
    assert '<td class="did">logged in</td>' in page
    [offer] = admin.get("/audit/?complete=action:login.ok").json()["items"]
    assert (offer["text"], offer["note"]) == ("login.ok", "logged in")
    assert '<td class="did">login.ok</td>' not in page
    assert "2026-09-21T14:13:20.000Z" in page
    assert all(not words.startswith(("a ", "an ", "somebody")) for words in ACTIONS.values())


def test_the_facts_of_an_entry_open_below_it(admin: Client):
    record(SOMEBODY, "login.ok")
    page = admin.get("/audit/").content.decode()
    (number,) = set(re.findall(r'aria-controls="facts-(\d+)"', page))
    assert re.search(rf'</tr><tr class="facts-row"[^>]*><td colspan="6" id="facts-{number}">', page)


def test_times_in_csv_are_dates_and_in_ndjson_numbers(admin: Client, world: World):
    world.report("shop", "clear")
    world.report("shop", "under-attack")
    world.write()
    body = b"".join(admin.get("/events/events.csv"))
    rows = list(csv.DictReader(io.StringIO(body.decode())))
    assert rows
    assert all(re.fullmatch(ISO, row["at"]) for row in rows)
    assert not MS.search(body.decode())
    lines = b"".join(admin.get("/events/events.ndjson")).splitlines()
    assert all(isinstance(json.loads(line)["at"], int) for line in lines)
    audit = b"".join(admin.get("/audit/audit.csv")).decode()
    assert all(re.fullmatch(ISO, row["at"]) for row in csv.DictReader(io.StringIO(audit)))


def test_a_record_says_its_times_as_dates(admin: Client, world: World):
    world.report("shop", "clear", "waf-1")
    place = world.command("set", "shop", state="clear", until=1_990_000_000_000)
    assert place
    bodies = [
        admin.get(f"/s/attack/record/{partition}/{offset}/").content.decode()
        for (_, partition), (_, end) in world.bus.offsets(["attack.reports"]).items()
        for offset in range(end)
    ]
    (body,) = [each for each in bodies if "1990000000000" in each]
    facts = body[body.index("What the job reads in it") : body.index("As it came")]
    assert "2033-01-22T09:46:40.000Z" in facts
    assert "1990000000000" not in facts


def test_words_lead_to_the_glossary_from_where_they_first_stand(admin: Client, world: World):
    JobProgress.objects.create(query="kernel", at=1, status="running", epoch=1)
    glossary = admin.get("/glossary/").content.decode()
    for name, term in TERMS.items():
        assert f'<div id="{name}" tabindex="-1"><dt>{term.word}</dt>' in glossary
    leads = {
        "/job/": ("epoch", "bucket", "kernel", "trigger"),
        "/partitions/": ("bucket", "log-time", "epoch"),
        "/scenarios/attack/": ("vote", "raise", "hold"),
    }
    for path, names in leads.items():
        page = admin.get(path).content.decode()
        for name in names:
            assert re.search(rf'<a class="term" href="/glossary/#{name}" title="[^"]+">', page), (
                name
            )
