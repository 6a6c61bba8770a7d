"""The filter language on the board and at its socket, filters that are kept, and labels' pages."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.watch.annotations import labels
from dashboard.watch.filters import models
from dashboard.watch.filters.models import SavedFilter
from support.histories.hostile import calm, text
from support.web.web_fixtures import bearer, make_user
from support.web.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def board(world: World) -> World:
    """Three sites; the shops have labels."""
    world.report("shop-1", "clear", "waf-1", "waf-2")
    world.report("shop-2", "under-attack", "waf-1", "waf-3")
    world.report("mail", "clear", "waf-2", "waf-3")
    world.write()
    labels.put("attack", {"shop-1": {"tier": "gold"}, "shop-2": {"tier": "silver"}}, "ada", 1)
    return world


def shown(client: Client, q: str, **more: Any) -> list[str]:
    page = client.get("/", {"scenario": "attack", "q": q, **more}).content.decode()
    return re.findall(r'data-asset="([^"]+)" data-version', page)


# ---- the board, REST --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "assets"),
    [
        ("tier:gold", ["shop-1"]),
        ("-tier:gold", ["shop-2", "mail"]),
        ("agent:waf-2", ["shop-1", "mail"]),
        ("agent:waf-1=attack", ["shop-2"]),
        ("state:attack,clear shop", ["shop-2", "shop-1"]),
        ("since:>1h", []),
        ("override:yes", []),
    ],
)
def test_the_board_and_rest_find_the_same(
    board: World, client: Client, q: str, assets: list[str]
) -> None:
    assert sorted(shown(client, q)) == sorted(assets)
    answer = client.get("/api/v1/scenarios/attack/assets", {"q": q}).json()
    assert [item["asset"] for item in answer["items"]] == sorted(assets)
    assert answer["next"] is None


def test_a_state_that_there_is_not_is_said_and_shows_no_empty_board(
    board: World, client: Client
) -> None:
    page = client.get("/?scenario=attack&state=bogus").content.decode()
    assert "No state is called bogus. What is shown is without it." in page
    assert 'data-asset="' in page
    refused = client.get("/api/v1/scenarios/attack/assets?state=clear&state=bogus")
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error == {"field": "state", "expected": "one of under-attack, suspicious, clear"}
    assert client.get("/api/v1/scenarios/orders/assets?state=lost").status_code == 200, "open"


def test_a_text_that_is_no_filter_is_said_and_kept(board: World, client: Client) -> None:
    page = client.get("/", {"scenario": "attack", "q": "sate:clear"}).content.decode()
    assert "there is no key sate; did you mean state:?" in page
    assert 'value="sate:clear"' in page
    assert "What is shown is without it" in page
    refused = client.get("/api/v1/scenarios/attack/assets", {"q": "sate:clear"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "q"


def test_rest_tells_labels(board: World, client: Client) -> None:
    answer = client.get("/api/v1/scenarios/attack/assets/shop-1").json()
    assert answer["labels"] == {"tier": "gold"}


def test_rest_writes_labels_all_or_none(board: World, client: Client) -> None:
    headers = bearer(make_user("admin"))
    path = "/api/v1/scenarios/attack/labels"

    def send(method: str, path: str, body: Any = None) -> Any:
        return Client().generic(
            method, path, json.dumps(body), content_type="application/json", headers=headers
        )

    assert send("PUT", f"{path}/new%2Fone", {"labels": {"tier": "gold"}}).status_code == 200
    changed = send("PATCH", f"{path}/new%2Fone", {"labels": {"tier": None, "owner": "bob"}})
    assert changed.json()["labels"] == {"owner": "bob"}
    assert changed.json()["items"][0]["by"] == "admin"
    many = {"items": [{"asset": "a", "labels": {"x": "1"}}, {"asset": "b", "labels": {"X": "1"}}]}
    refused = send("PUT", path, many)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "items.1.labels.X")
    assert labels.labels_of("attack", ["a"]) == {}
    assert send("DELETE", f"{path}/new%2Fone").json()["labels"] == {}
    assert send("GET", path).json() == {"keys": ["tier"]}
    assert AuditEntry.objects.filter(action="labels.changed").count() == 3


# ---- completion -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "first", "start"),
    [
        ("st", "state:", 0),
        ("shop -ti", "tier:", 6),
        ("state:", "under-attack", 6),
        ("state:clear,sus", "suspicious", 12),
        ("agent:waf", "waf-1", 6),
        ("tier:g", "gold", 5),
        ("override:", "yes", 9),
        ("is", "is:", 0),
        ("is:dis", "disputed", 3),
        ("shop -is:disputed,un", "unhandled", 18),
        ("shop -is:disputed,unc", "unconfirmed", 18),
        ("has:", "silent", 4),
        ("since:>", ">10m", 6),
        ('tier:"si', "silver", 5),
    ],
)
def test_what_may_follow_is_offered(
    board: World, client: Client, typed: str, first: str, start: int
) -> None:
    answer = client.get("/filters/complete/", {"scenario": "attack", "q": typed}).json()
    assert answer["items"][0]["text"] == first
    assert (answer["start"], answer["end"]) == (start, len(typed))


@text
@pytest.mark.spread(4)
def test_whatever_is_typed_is_answered(board: World, client: Client, text: str) -> None:
    typed = text.encode(errors="replace").decode()[:5_000]
    calm(client.get("/filters/complete/", {"q": f"state:{typed}", "at": typed}), typed)
    calm(client.get("/", {"scenario": "attack", "q": typed}), typed)
    given = {"scenario": "attack", "q": f'"{typed}', "title": typed, "state": typed}
    calm(client.post("/filters/save/", given, follow=True), typed * 3)
    calm(client.post("/s/attack/labels/shop/", {"key": typed, "value": typed}, follow=True), typed)
    calm(client.post("/labels/chips/", {"scenario": "attack", "key": typed}, follow=True), typed)
    sent = SimpleUploadedFile("a.csv", f"asset,key,value\nshop,tier,{typed}".encode())
    calm(client.post("/labels/upload/", {"scenario": "attack", "file": sent}, follow=True), typed)


# ---- kept filters -----------------------------------------------------------------------------


def save(client: Client, **given: Any) -> Any:
    return client.post("/filters/save/", {"scenario": "attack", "title": "Mine", **given})


def test_a_filter_is_saved_with_the_buttons_states(board: World, client: Client) -> None:
    answer = save(client, q="tier:gold", state=["clear"])
    (kept,) = SavedFilter.objects.all()
    assert kept.text == "state:clear tier:gold"
    assert parse_qs(urlsplit(answer.url).query)["q"] == [kept.text]
    page = client.get(answer.url).content.decode()
    assert "Saved as “Mine”" in page
    assert f'href="/filters/{kept.pk}/"' in page
    assert client.get(f"/filters/{kept.pk}/")["Location"] == answer.url


def test_a_filter_that_is_shared_is_seen_with_its_owner(board: World, client: Client) -> None:
    save(client, q="shop")
    other = Client()
    other.force_login(make_user("manager"))
    (kept,) = SavedFilter.objects.all()
    assert other.get(f"/filters/{kept.pk}/").status_code == 404
    assert client.post(f"/filters/{kept.pk}/change/", {"do": "share"}).status_code == 302
    assert "by <bdi>operator</bdi>" in other.get("/?scenario=attack").content.decode()
    assert other.get(f"/filters/{kept.pk}/").status_code == 302
    assert other.post(f"/filters/{kept.pk}/change/", {"do": "delete"}).status_code == 404
    assert AuditEntry.objects.get(action="filter.shared").target == "Mine"


def test_a_board_begins_with_its_users_filter(board: World, client: Client) -> None:
    save(client, q="tier:gold", default="on")
    begun: Any = client.get("/?scenario=attack&asset=mail")
    assert parse_qs(urlsplit(begun["Location"]).query) == {
        "scenario": ["attack"], "asset": ["mail"], "q": ["tier:gold"],
    }  # fmt: skip
    assert client.get("/?scenario=attack&q=").status_code == 200
    assert client.get("/?scenario=orders").status_code == 200
    (kept,) = SavedFilter.objects.all()
    client.post(f"/filters/{kept.pk}/change/", {"do": "no-default"})
    assert client.get("/?scenario=attack").status_code == 200


def test_what_cannot_be_saved_says_why(
    board: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MOST_OWN", 1)
    refusals = [{"q": ""}, {"q": "sate:x"}, {"q": "shop", "title": " "}]
    for given in refusals:
        answer = save(client, **given, shared="on", state=["nix"])
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "The filter is not saved" in page
        assert not given["q"] or f'name="q" value="{given["q"]}"' in page
        assert f'name="title" value="{given.get("title", "Mine")}"' in page
        assert re.search('name="shared"[^>]* checked', page)
    save(client, q="shop")
    page = save(client, q="mail", title="Other").content.decode()
    assert "name: you have 1 filters, the maximum" in page


def test_a_filter_that_replaces_one_of_its_name_says_so(board: World, client: Client) -> None:
    assert "in place of" not in client.get(save(client, q="shop", shared="on").url).content.decode()
    page = client.get(save(client, q="mail").url).content.decode()
    assert "Saved as “Mine”, in place of “shop”; it is shared, so everybody sees it." in page
    (kept,) = SavedFilter.objects.all()
    assert kept.text == "mail"


def test_a_filter_is_renamed_and_deleted(board: World, client: Client) -> None:
    save(client, q="shop")
    (kept,) = SavedFilter.objects.all()
    client.post(f"/filters/{kept.pk}/change/", {"do": "rename", "title": "Shops  <b>"})
    page = client.get("/filters/").content.decode()
    assert "Shops &lt;b&gt;" in page
    client.post(f"/filters/{kept.pk}/change/", {"do": "delete"})
    assert "None yet" in client.get("/filters/").content.decode()


# ---- labels -----------------------------------------------------------------------------------


def test_the_page_lists_keys_and_values(board: World, client: Client) -> None:
    page = client.get("/labels/?scenario=attack&key=tier").content.decode()
    assert re.search(r'<td class="num" data-value="2">2</td>', page)
    assert "q=tier%3Agold" in page
    table = b"".join(client.get("/labels/labels.csv?scenario=attack").streaming_content)  # type: ignore[attr-defined]
    assert b"shop-1,tier,gold,person" in table


def test_an_asset_is_given_a_label_on_its_page(board: World, client: Client) -> None:
    path = "/s/attack/labels/mail/"
    client.post(path, {"key": "owner", "value": "bob"})
    assert "by <bdi>operator</bdi>" in client.get("/s/attack/a/mail/").content.decode()
    fragment = {"HX-Request": "true"}
    refused = client.post(path, {"key": "Ti er", "value": "x"}, headers=fragment)
    assert refused.status_code == 422
    assert "key: expected a small letter" in refused.content.decode()
    assert 'value="ti er"' in refused.content.decode()
    client.post(path, {"key": "owner", "do": "remove"}, headers=fragment)
    assert labels.labels_of("attack", ["mail"]) == {}


def test_rows_show_the_chosen_keys_and_no_others(board: World, client: Client) -> None:
    labels.put("attack", {"shop-1": {"zone": "a"}}, "ada", 1)
    client.post("/labels/chips/", {"scenario": "attack", "key": ["tier", "", "zone"]})
    assert labels.state("attack").chips == ("tier", "zone")
    client.post("/labels/chips/", {"scenario": "attack", "key": ["tier", "Bad Key"]})
    assert labels.state("attack").chips == ("tier", "zone"), "a bad key changes nothing"
    client.post("/labels/chips/", {"scenario": "attack", "key": ["tier"]})
    page = client.get("/?scenario=attack").content.decode()
    assert page.count('<span class="label-chip"') == 2
    assert '<span class="key">tier</span><bdi>gold</bdi>' in page
