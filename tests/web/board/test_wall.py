"""The wall of all boards: what is unhandled large, what is not good by name, the rest in a line."""

from __future__ import annotations

import re
import time

import pytest
from django.test import Client

from dashboard.board.assets import wall
from dashboard.board.live.live_view import live_view
from dashboard.core.common.scenarios import scenarios
from dashboard.watch.annotations.acknowledgements import acknowledge
from support.web.pages import text_of
from support.web.web_fixtures import make_user, show
from wire.job import bucket_name

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh")]

NOW = int(time.time() * 1000)


@pytest.fixture
def fresh(world: object):
    live_view.cache_clear()
    yield
    live_view.cache_clear()


@pytest.fixture
def client() -> Client:
    """A manager's; on the boards are two attacked sites, one of them in hand, and calm ones."""
    for asset in ("bank", "shop"):
        show("attack", asset, "under-attack")
    for asset in ("blog", "mail"):
        show("attack", asset, "clear")
    show("connectivity", "192.0.2.0/25", "up")
    show("orders", "o-1", "received")
    who = make_user("operator")
    acknowledge(scenarios()["attack"], ["bank"], who, "", NOW + 3_600_000, NOW)
    made = Client()
    made.force_login(make_user("manager"))
    return made


def all_is_live() -> None:
    """The job is heard of in all buckets."""
    signs, now = live_view().signs, int(time.time() * 1000) + 60_000
    for name, scenario in scenarios().items():
        for at in range(scenario.partitions):
            signs.remember(bucket_name(name, at), now, now, "python", epoch=1)
    signs.reached(now)


def body(client: Client, address: str = "/wall/") -> str:
    return client.get(address).content.decode()


def keys(page: str, turns: str) -> list[str]:
    """What is named, in order."""
    return re.findall(rf'data-key="([^"]+)" data-turns="{turns}"', page)


def lines(page: str) -> list[str]:
    """The last line of each board, as text."""
    _, _, rest = page.partition('id="walls-rest"')
    boards = re.findall(r"<li .*?</li>", rest, re.DOTALL)
    return [text_of(each) for each in boards]


def test_what_is_unhandled_is_large_and_what_is_handled_is_named(client: Client):
    page = body(client)
    assert keys(page, "unhandled") == ["attack/shop"]
    assert keys(page, "other") == ["attack/bank"]
    sums = text_of(page[: page.index('<div class="walls-body"')])
    assert "Attacks 1 unhandled 2 Under attack 0 Suspicious 2 Clear" in sums
    assert "Connectivity 0 unhandled 0 Down 0 Degraded 1 Up" in sums
    assert "Orders" not in page.partition("<main")[2]


def test_the_rest_is_a_line_that_says_whether_it_is_sure(client: Client):
    all_is_live()
    assert lines(body(client)) == [
        "Attacks 2 Clear all confirmed",
        "Connectivity 1 Up all confirmed",
    ]
    show("attack", "mail", "clear", offset=2, unconfirmed=True, unconfirmed_reason="1 of 2 voters")
    assert lines(body(client))[0] == "Attacks 2 Clear 1 unconfirmed"


def test_what_is_good_and_disputed_is_named_and_no_part_of_the_rest(client: Client):
    show("attack", "mail", "clear", offset=2, disputed="under-attack")
    page = body(client)
    assert keys(page, "other") == ["attack/bank", "attack/mail"]
    assert lines(page)[0].startswith("Attacks 1 Clear")


def test_a_board_that_is_not_live_says_so_and_confirms_nothing(client: Client):
    page = body(client)  # the job has never been heard of
    assert page.count('class="sum is-stale"') == 2
    assert len(re.findall(r'class="sum-problem"', page)) == 2
    assert "all confirmed" not in page
    assert lines(page)[0] == "Attacks 2 Clear as they were then"
    all_is_live()
    assert "is-stale" not in body(client).partition("<main")[2]


def test_of_very_many_the_wall_says_how_many_have_no_place(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(wall, "MOST", 1)
    page = body(client)
    assert keys(page, "unhandled") == ["attack/shop"]
    assert keys(page, "other") == []
    assert "1 more that are not good" in page


def test_an_address_names_boards(client: Client):
    page = body(client, "/wall/?scenario=connectivity")
    assert "Attacks" not in page.partition("<main")[2]
    assert client.get("/wall/?scenario=none").status_code == 404


def test_it_renews_itself_by_its_own_address(client: Client):
    answer = client.get("/wall/?scenario=attack", headers={"HX-Request": "true"})
    part = answer.content.decode().strip()
    assert part.startswith('<div class="walls-boards"')
    assert 'data-refresh="/wall/?scenario=attack"' in part
