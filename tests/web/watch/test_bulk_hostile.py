"""Hostile input in every field of bulk and stale: refused by name, never a fault, nothing sent."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.core.common.access import Limit
from dashboard.watch.bulk import views
from dashboard.watch.bulk.models import Item, Run
from support.histories.hostile import TEXTS, calm, texts_for
from support.run.selection import sampled
from support.web.web_fixtures import make_user, show

pytestmark = pytest.mark.django_db

MAX_LINE = 16_384
SENDABLE = TEXTS | {"surrogate": "\ufffd", "long": "x" * 100_000}
"""As a browser sends them; of the long one as much as tells."""
FORM = {
    "scenario": "attack", "by": "names", "names": "shop", "kind": "purge", "reason": "a drill",
}  # fmt: skip


def sendable_for(field: str) -> Sequence[str]:
    """The texts to try in a field: a plain run tries one in three, others in the next field."""
    return sampled(list(SENDABLE.values()), 3, len(field) % 3)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(views, "REVIEWS", Limit("reviews", 10_000))
    monkeypatch.setattr(views, "start_task", lambda task: None)
    show("attack", "shop", "clear")
    client = Client()
    client.force_login(make_user("operator"))
    return client


@pytest.mark.parametrize(
    "name",
    ["scenario", "by", "names", "q", "state", "kind", "to", "reason", "end", "until_at", "zone",
     "why", "n", "unit", "id", "asset", "unchanged"],
)  # fmt: skip
@pytest.mark.spread(2)
def test_a_field_of_the_form(client: Client, name: str) -> None:
    kind = "set" if name in ("to", "end", "until_at", "zone") else "purge"
    for text in sendable_for(name):
        form = {**FORM, "kind": kind, "to": "clear", name: text}
        calm(client.post("/bulk/review/", form, follow=True), 2 * text)
        calm(client.post("/bulk/review/", {"scenario": "attack", name: text}), 2 * text)
    for run in Run.objects.all():
        assert "\0" not in run.reason + run.chosen
        assert len(run.reason) <= 500
    assert not any("\0" in asset for asset in Item.objects.values_list("asset", flat=True))


@pytest.mark.parametrize("by", ["filter", "stale"])
@pytest.mark.parametrize("name", ["q", "state", "why", "n", "unit"])
@pytest.mark.spread(2)
def test_a_field_of_what_is_chosen(client: Client, by: str, name: str) -> None:
    for text in sendable_for(name):
        form = {**FORM, "by": by, name: text}
        calm(client.post("/bulk/review/", form, follow=True), 2 * text)


def test_a_list_that_is_none(client: Client) -> None:
    for text in (*TEXTS.values(), "\n" * 100_000, "x" * 300 + "\n"):
        file = SimpleUploadedFile("../list", text.encode(errors="surrogatepass"))
        response: Any = client.post("/bulk/review/", {**FORM, "file": file}, follow=True)
        calm(response, "")


@pytest.mark.parametrize("name", ["scenario", "why", "n", "unit", "after", "state", "q", "page"])
@pytest.mark.parametrize("path", ["/stale/", "/bulk/"])
@pytest.mark.spread(2)
def test_a_field_of_an_address(client: Client, path: str, name: str) -> None:
    for text in texts_for(name):
        value = quote(text[:MAX_LINE].encode(errors="surrogatepass"))
        calm(client.get(f"{path}?{name}={value}"), text)


def test_a_field_of_a_runs_page(client: Client) -> None:
    client.post("/bulk/review/", {**FORM, "names": "shop\n<script>alert(1)</script>\n\u202eevil"})
    run = Run.objects.get()
    for text in SENDABLE.values():
        value = quote(text[:MAX_LINE])
        calm(client.get(f"/bulk/{run.pk}/?show={value}&page={value}"), text)
        calm(client.post(f"/bulk/{run.pk}/ask/", {"do": text}), text)
    assert Run.objects.get().status == "review"
    calm(client.post(f"/bulk/{run.pk}/start/", {"confirm": TEXTS["long"]}), "")
    calm(client.get(f"/bulk/{uuid.uuid4()}/"), "")
