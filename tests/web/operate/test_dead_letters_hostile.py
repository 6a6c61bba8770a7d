"""Hostile letters and hostile forms on the pages of dead letters: shown as text, never a fault."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from dashboard.core.common.times import now_ms
from dashboard.operate.dead_letters.ingestion import ingest_letters
from dashboard.operate.dead_letters.models import OPEN, DeadLetter
from support.histories.hostile import TEXTS, calm, texts_for

pytestmark = pytest.mark.django_db
MAX_LINE = 16_000
VALUES = {
    "nothing": None,
    "empty": b"",
    "nul": b"\0" * 100,
    "no text": bytes(range(256)) * 256,
    "alternating": b"a\xff" * 32_768,
    "deep": b"[" * 60_000,
    "deep objects": b'{"a":' * 10_000,
    "many fields": b"{" + b",".join(b'"f%d":%d' % (n, n) for n in range(5_000)) + b"}",
    "long number": b'{"type":"report","agent":"a","state":"clear","reported_at":'
    + b"9" * 6_000
    + b"}",
    "markup": b'{"type":"<script>alert(1)</script>","state":"<script>alert(1)</script>"}',
    "bidi": '{"type":"report","agent":"\u202eevil"}'.encode(),
    "half a pair": b'{"state":"\\ud800","agent":"\\udc00"}',
    "repeated": b'{"state":1,"state":{},"state":"x","agent":[]}',
    "utf-16": '{"state": "clear"}'.encode("utf-16"),
}


def kept(key: bytes | None, value: bytes | None, reason: str = "not-json") -> DeadLetter:
    """A letter as the materialiser keeps it."""
    value = None if value is None else value[:65_536]
    letter = DeadLetter(
        reason=reason, scenario="attack", topic="attack.reports", partition=0, offset=1,
        appended_at=now_ms(), noted_at=now_ms(), key=key, value=value, size=len(value or b""),
        dead_partition=0, dead_offset=1, last_dead_offset=1,
    )  # fmt: skip
    ingest_letters([letter])
    return DeadLetter.objects.get()


@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
@pytest.mark.spread(2)
def test_any_letter_can_be_looked_at(admin, value: bytes | None):
    one = kept(b"\xffshop", value)
    response = admin.get(f"/dead-letters/{one.pk}/")
    assert response.status_code == 200
    assert len(response.content) < 1_500_000
    assert b"<script>alert(1)" not in response.content
    assert "\u202e" not in response.content.decode().partition("<textarea")[0].partition("<pre")[2]
    review = admin.post("/dead-letters/many/", {"do": "redrive", "id": one.pk}, follow=True)
    assert review.status_code == 200
    assert b"<script>alert(1)" not in review.content


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    "name", ["reason", "scenario", "status", "q", "start", "end", "sort", "after"]
)
def test_a_field_of_the_filter(admin, name: str):
    kept(b"shop", b"{")
    for text in texts_for(name):
        value = quote(text[:MAX_LINE].encode(errors="surrogatepass"))
        calm(admin.get(f"/dead-letters/?{name}={value}"), text)
        export: Any = admin.get(f"/dead-letters/export/csv/?{name}={value}")
        assert export.status_code in (200, 422)


def test_a_part_of_an_address(admin):
    for text in TEXTS.values():
        name = quote(text[:MAX_LINE].encode(errors="surrogatepass"), safe="")
        calm(admin.get(f"/dead-letters/{name}/"), text)
        calm(admin.get(f"/dead-letters/export/{name}/"), text)


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("{}/redrive/", "key"), ("{}/redrive/", "value"), ("{}/discard/", "why"),
        ("many/", "do"), ("many/", "id"), ("many/", "ids"), ("many/", "filter"),
        ("many/redrive/", "ids"), ("many/discard/", "ids"), ("many/discard/", "why"),
    ],
)  # fmt: skip
def test_a_field_of_a_form(world, admin, path: str, name: str):
    sendable = TEXTS | {"surrogate": "\ufffd"}  # what a browser sends in its place
    for text in sendable.values():
        DeadLetter.objects.all().delete()
        one = kept(b"shop", b"{")
        form = {"key": "shop", "value": "{", "do": "redrive-all", "ids": str(one.pk), name: text}
        calm(admin.post(f"/dead-letters/{path.format(one.pk)}", form), text)
        one.refresh_from_db()
        assert one.status == OPEN or name == "why"
        assert "\0" not in one.why
    ends = world.bus.offsets([world.gateway.topics.reports("attack")])
    assert {end for _, end in ends.values()} == {1}  # the scenario's own record
