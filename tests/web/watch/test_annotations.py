"""Acknowledgements and notes: given, ended by time, state and people; what pages say of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import now_ms
from dashboard.watch.annotations import acknowledgements, models
from dashboard.watch.annotations.models import NOTE_EDITED_FOR_MS, Acknowledgement, Mark, Note
from support.histories.hostile import calm, text
from support.web.retention import apply_all
from support.web.web_fixtures import make_user
from support.web.world import World

pytestmark = pytest.mark.django_db

HOUR_MS = 3_600_000
MAX_LINE = 16_000
"""Longest address that a test asks for, characters."""


def acknowledge(client: Client, *assets: str, **more: Any) -> Any:
    """By the form, as the board's script sends it."""
    form = {"asset": assets, "end": "1h", "reason": "on it"} | more
    return client.post("/s/attack/acknowledge/", form, headers={"Accept": "application/json"})


def mark(asset: str) -> Mark:
    return Mark.objects.get(scenario="attack", asset=asset)


def ended(asset: str) -> list[str]:
    """Why the asset's acknowledgements ended, oldest first; "" of one that has not."""
    return [
        ack.ended_why for ack in Acknowledgement.objects.filter(asset=asset).order_by("at", "pk")
    ]


@pytest.fixture
def attacked(world: World) -> World:
    """Two sites under attack, one suspicious, one clear."""
    world.report("a", "under-attack")
    world.report("b", "under-attack")
    world.report("s", "suspicious")
    world.report("c", "clear")
    world.write()
    return world


# ---- a note on many ----


def noted(client: Client, *assets: str, note: str = "seen") -> Any:
    """Send the same note on several, as the board's script does."""
    form = {"asset": assets, "text": note}
    return client.post("/s/attack/notes/", form, headers={"Accept": "application/json"})


def test_one_note_is_written_on_each_that_has_room(
    attacked: World, client: Client, user: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(acknowledgements, "MOST_NOTES", 1)
    Note.objects.create(
        scenario="attack", asset="b", user=user, username=user.username, text="x", at=1
    )
    answer = noted(client, "a", "b", "nobody").json()
    assert answer["taken"] == ["a", "nobody"]
    assert [asset for asset, _ in answer["left"]] == ["b"]
    assert answer["words"].startswith("Noted on 2 sites. Not noted: b, ")
    assert set(Note.objects.filter(text="seen").values_list("asset", flat=True)) == {"a", "nobody"}
    assert mark("a").notes == 1
    assert AuditEntry.objects.filter(action="note.written").count() == 2


def test_a_note_on_many_needs_a_text_and_names(attacked: World, client: Client):
    refused = noted(client, "a", note="")
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == ["text"]
    assert noted(client).status_code == 422
    assert not Note.objects.exists()


# ---- acknowledging --------------------------------------------------------------------------


def test_what_is_not_calm_is_acknowledged_and_the_rest_is_named(attacked: World, client: Client):
    answer = acknowledge(client, "a", "c", "nobody", "a").json()
    assert answer["taken"] == ["a"]
    assert answer["left"] == [["c", "it is Clear already"], ["nobody", "it is not on the board"]]
    assert "Acknowledged 1 site" in answer["words"]
    ack = Acknowledgement.objects.get()
    assert (ack.username, ack.reason, ack.state) == ("operator", "on it", "under-attack")
    assert abs(ack.until - ack.at - HOUR_MS) < 5_000
    assert (mark("a").ack_by, mark("a").ack_until) == ("operator", ack.until)


def test_the_newest_state_counts_though_the_database_lacks_it(attacked: World, client: Client):
    attacked.report("n", "under-attack")
    attacked.tail()
    assert acknowledge(client, "n").json()["taken"] == ["n"]
    attacked.write()
    assert ended("n") == [""], "the database has only got the state that it was given on"


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"end": "at", "until_at": "soon"}, "until_at"),
        ({"end": "at", "until_at": "2001-01-01T00:00"}, "until_at"),
        ({"end": "at", "until_at": "2999-01-01T00:00"}, "until_at"),
        ({"end": "never"}, "end"),
        ({"reason": "x" * 501}, "reason"),
        ({"asset": []}, "__all__"),
        ({"asset": ["a\0"]}, "__all__"),
    ],
)
def test_a_form_that_is_wrong_says_where(attacked: World, client: Client, form: Any, field: str):
    response = acknowledge(client, "a", **form)
    assert response.status_code == 422
    assert list(response.json()["errors"]) == [field]
    assert not Acknowledgement.objects.exists()


def test_without_a_script_the_form_leads_back(attacked: World, client: Client):
    form = {"asset": "a", "end": "15m", "reason": ""}
    response = client.post("/s/attack/acknowledge/", form, follow=True)
    page = response.content.decode()
    assert "Acknowledged 1 site." in page
    assert "Acknowledged by <bdi>operator</bdi>" in page
    wrong = client.post(
        "/s/attack/acknowledge/", form | {"end": "at", "until_at": "x", "reason": "y"}
    )
    assert wrong.status_code == 422
    assert 'value="y"' in wrong.content.decode()


# ---- its end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asset", "state", "why"),
    [("s", "under-attack", "worse"), ("a", "suspicious", ""), ("s", "clear", "calm")],
)
def test_it_ends_with_a_worse_state_and_with_the_calm_one(
    attacked: World, client: Client, asset: str, state: str, why: str
):
    acknowledge(client, asset)
    attacked.report(asset, state)
    attacked.write()
    attacked.later(400_000)  # past every hold, within the votes' lifetime
    attacked.write()
    assert ended(asset) == [why]
    assert bool(mark(asset).ack_by) == (not why)


def test_it_ends_with_a_purge_and_the_notes_stay(attacked: World, client: Client):
    acknowledge(client, "a")
    client.post("/s/attack/note/a/", {"text": "call them first"})
    attacked.command("purge", "a")
    attacked.write()
    assert ended("a") == ["purged"]
    assert (mark("a").ack_by, mark("a").notes) == ("", 1)
    assert "call them first" in client.get("/s/attack/a/a/").content.decode()


def test_what_was_before_it_does_not_end_it(attacked: World, client: Client):
    """A replay of the topic tells again how the state came about."""
    acknowledge(client, "a")
    attacked.job.run()
    attacked.write()
    assert ended("a") == [""]


def test_its_time_ends_it(attacked: World, client: Client, user: User, monkeypatch: Any):
    acknowledge(client, "a")
    ack = Acknowledgement.objects.get()
    assert ack.in_force(ack.until - 1)
    assert (ack.in_force(ack.until), ack.end(ack.until)) == (False, ack.until)
    Acknowledgement.objects.update(until=now_ms() - 1)
    page = client.get("/s/attack/a/a/").content.decode()
    assert "Acknowledged by" not in page
    assert "Acknowledged</span>" in page, "the history lists it"


def test_it_is_taken_back_and_replaced(attacked: World, client: Client):
    acknowledge(client, "a", "b")
    acknowledge(client, "a", reason="still on it")
    assert ended("a") == ["replaced", ""]
    response = client.post("/s/attack/take-back/", {"asset": ["a", "s"]},
                           headers={"Accept": "application/json"})  # fmt: skip
    assert response.json()["taken"] == ["a"]
    assert ended("a") == ["replaced", "taken back"]
    assert (mark("a").ack_by, mark("b").ack_by) == ("", "operator")
    page = client.get("/s/attack/a/a/").content.decode()
    assert page.count("Acknowledged</span>") == 2
    assert "taken back" in page


def test_a_revision_rises_with_each_change(attacked: World, client: Client):
    revisions = []
    for _ in range(3):
        acknowledge(client, "a")
        revisions.append(mark("a").revision)
    assert revisions == sorted(set(revisions))


def test_too_many_are_refused(attacked: World, client: Client, monkeypatch: Any):
    monkeypatch.setattr(acknowledgements, "LIMIT", acknowledgements.Limit("acknowledgements", 3))
    assert acknowledge(client, "a", "b", "s").status_code == 200
    refused = acknowledge(client, "a")
    assert refused.status_code == 429
    assert "At most 3 acknowledgements" in str(refused.json())


# ---- notes ----------------------------------------------------------------------------------


def test_a_note_is_text_with_links_that_can_be_followed(attacked: World, client: Client):
    text = "<b>see</b> https://status.example/a?b=1&c=2. and javascript:alert(1) \u202eevil"
    assert client.post("/s/attack/note/a/", {"text": text}).status_code == 302
    page = client.get("/s/attack/a/a/").content.decode()
    link = 'href="https://status.example/a?b=1&amp;c=2"'
    assert link in page
    assert "&lt;b&gt;see&lt;/b&gt;" in page
    assert 'href="javascript' not in page
    assert mark("a").notes == 1


def test_who_wrote_it_edits_it_for_a_while_and_deletes_it(attacked: World, client: Client):
    client.post("/s/attack/note/a/", {"text": "first"})
    note = Note.objects.get()
    assert "first" in client.get(f"/notes/{note.pk}/edit/").content.decode()
    client.post(f"/notes/{note.pk}/edit/", {"text": "second"})
    note.refresh_from_db()
    assert (note.text, note.edited_at is not None) == ("second", True)
    Note.objects.update(at=now_ms() - NOTE_EDITED_FOR_MS)
    assert client.post(f"/notes/{note.pk}/edit/", {"text": "third"}).status_code == 403
    other = Client()
    other.force_login(make_user("admin"))
    assert other.post(f"/notes/{note.pk}/delete/").status_code == 403
    assert client.post(f"/notes/{note.pk}/delete/").status_code == 302
    note.refresh_from_db()
    assert (note.text, note.deleted_at is not None) == ("second", True)
    assert "second" not in client.get("/s/attack/a/a/").content.decode()
    assert mark("a").notes == 0
    assert client.post(f"/notes/{note.pk}/delete/").status_code == 404


def test_a_note_that_is_too_long_comes_back(attacked: World, client: Client):
    response = client.post("/s/attack/note/a/", {"text": "x" * 2_001})
    assert response.status_code == 422
    assert "x" * 2_001 in response.content.decode()
    assert not Note.objects.exists()


def test_an_asset_has_so_many_notes(attacked: World, client: Client, monkeypatch: Any):
    monkeypatch.setattr(acknowledgements, "MOST_NOTES", 1)
    client.post("/s/attack/note/a/", {"text": "one"})
    response = client.post("/s/attack/note/a/", {"text": "two"})
    assert response.status_code == 409
    assert "two" in response.content.decode()


# ---- hostile texts --------------------------------------------------------------------------


@text
@pytest.mark.spread(2)
def test_a_text_of_a_note_a_reason_or_a_name(attacked: World, client: Client, text: str):
    text = text.encode(errors="replace").decode()  # no browser sends half a pair
    calm(client.post("/s/attack/note/a/", {"text": text}, follow=True), text)
    for form in ({"reason": text}, {"asset": text}, {"end": text, "until_at": text, "zone": text}):
        response = acknowledge(client, "a", **form)  # JSON, which no browser takes for a page
        assert response.status_code in (200, 400, 413, 422)
        assert response.status_code in (400, 413) or response["Content-Type"] == "application/json"
        given = {"asset": "a", "end": "1h"} | form
        calm(client.post("/s/attack/acknowledge/", given, follow=True), text)
    calm(client.post("/s/attack/take-back/", {"asset": text}), text)
    calm(client.get("/s/attack/a/a/"), text)
    calm(client.get("/"), text)


@text
@pytest.mark.spread(2)
def test_a_text_for_the_next_shift_and_of_its_address(attacked: World, client: Client, text: str):
    sent = text.encode(errors="replace").decode()  # no browser sends half a pair
    calm(client.post("/handover/shift/text/", {"text": sent}, follow=True), text)
    query = quote(text.encode(errors="surrogatepass"))[:MAX_LINE]
    for name in ("scenario", "hours", "at", "since", "zone"):
        calm(client.get(f"/handover/?{name}={query}"), text)
        plain = client.get(f"/handover/text/?{name}={query}")
        assert plain.status_code in (200, 422)
        assert plain["Content-Type"].partition(";")[0] in ("text/plain", "text/markdown")


# ---- what is kept ---------------------------------------------------------------------------


def test_what_is_over_goes_after_its_time_and_notes_stay(attacked: World, client: Client):
    acknowledge(client, "a", "b")
    client.post("/s/attack/note/b/", {"text": "stays"})
    later = now_ms() + models.KEPT_MS + 2 * HOUR_MS
    assert apply_all(models.KEPT, now_ms()) == 0
    apply_all(models.KEPT, later)
    assert not Acknowledgement.objects.exists()
    assert [mark.asset for mark in Mark.objects.filter(notes__gt=0)] == ["b"]
    Note.objects.update(deleted_at=1)
    apply_all(models.KEPT, later)
    assert not Note.objects.exists()
