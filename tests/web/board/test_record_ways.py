"""From a record of the log to the next and the previous one, of any key or of one."""

from __future__ import annotations

import html
import itertools
import re

import pytest
from django.test import Client

from dashboard.board.assets import log_records
from dashboard.board.assets.log_records import NotShown, seek
from support.web.world import World
from wire.partitioner import partition_of

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

TOPIC = "attack.reports"


def same_partition(n: int) -> list[str]:
    """So many names of one partition of four."""
    names = (f"shop-{each}" for each in range(1_000))
    return [name for name in names if partition_of(name.encode(), 4) == 0][:n]


@pytest.fixture
def log(world: World) -> list[str]:
    """The keys of partition 0, by offset; empty of a record without one."""
    one, other = same_partition(2)
    for name in (one, other, other, one, other):
        world.report(name, "clear", "waf-1")
    begin, end = world.bus.offsets([TOPIC])[TOPIC, 0]
    reader = world.bus.reader({(TOPIC, 0): begin})
    keys = [(message.key or b"").decode() for message in reader.poll(0, 1_000)]
    assert len(keys) == end
    return keys


def places(log: list[str], name: str) -> list[int]:
    return [offset for offset, key in enumerate(log) if key == name]


@pytest.mark.parametrize("stretch", [1, 2, 2_000])
def test_each_record_of_a_key_leads_to_the_next_and_back(
    world: World, log: list[str], monkeypatch, stretch: int
):
    monkeypatch.setattr(log_records, "STRETCH", stretch)
    for name in same_partition(2):
        at = places(log, name)
        for before, after in itertools.pairwise(at):
            assert seek(world.bus, TOPIC, 0, before, name.encode(), "next") == after
            assert seek(world.bus, TOPIC, 0, after, name.encode(), "previous") == before
        with pytest.raises(NotShown, match="has this key"):
            seek(world.bus, TOPIC, 0, at[-1], name.encode(), "next")
        with pytest.raises(NotShown, match="has this key"):
            seek(world.bus, TOPIC, 0, at[0], name.encode(), "previous")


def test_no_more_is_looked_at_than_is_said(world: World, log: list[str], monkeypatch):
    monkeypatch.setattr(log_records, "LOOKED_AT", 1)
    name = same_partition(1)[0]
    first, second = places(log, name)
    with pytest.raises(NotShown, match=f"None of the 1 records after offset {first}"):
        seek(world.bus, TOPIC, 0, first, name.encode(), "next")
    with pytest.raises(NotShown, match=f"None of the 1 records before offset {second}"):
        seek(world.bus, TOPIC, 0, second, name.encode(), "previous")


def test_a_page_leads_on_and_keeps_to_its_key(client: Client, world: World, log: list[str]):
    name = same_partition(1)[0]
    first, second = places(log, name)
    page = client.get(f"/s/attack/record/0/{first}/").content.decode()
    assert f'href="/s/attack/record/0/{first}/?key={name}"' in page
    onward = link(page, "next")
    assert client.get(onward)["Location"] == f"/s/attack/record/0/{first + 1}/"
    keyed = client.get(f"/s/attack/record/0/{first}/", {"key": name}).content.decode()
    there = client.get(link(keyed, "next"))
    assert there["Location"] == f"/s/attack/record/0/{second}/?key={name}"
    again = client.get(there["Location"]).content.decode()
    back = client.get(link(again, "previous"))
    assert back["Location"] == f"/s/attack/record/0/{first}/?key={name}"
    end = client.get(link(again, "next"))
    assert end.status_code == 404
    assert "has this key" in end.content.decode()
    assert link(end.content.decode(), "previous")  # the way back stays


def test_the_first_record_has_none_before_it(client: Client, log: list[str]):
    page = client.get("/s/attack/record/0/0/").content.decode()
    assert 'rel="prev"' not in page
    assert client.get("/s/attack/record/0/0/?seek=previous").status_code == 302


@pytest.mark.parametrize("key", ["", "nothing", "<b>", "\0", "x" * 999, "\u202e", "'"])
@pytest.mark.parametrize("way", ["next", "previous", "sideways", ""])
@pytest.mark.spread(8)
def test_any_key_may_be_asked_for(client: Client, log: list[str], key: str, way: str):
    asked = client.get("/s/attack/record/0/1/", {"key": key, "seek": way}, follow=True)
    assert asked.status_code in (200, 404)
    assert "<b>" not in asked.content.decode()


def link(page: str, way: str) -> str:
    (href,) = re.findall(rf'id="record-{way}" href="([^"]+)"', page)
    return html.unescape(href)
