"""Assets whose names read alike: each page names the other one."""

from __future__ import annotations

import unicodedata

import pytest
from django.test import Client

from dashboard.core.states.board_rows import asset_path
from support.web.pages import text_of
from support.web.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stopped_clock")]

SAID = (
    "is another site. Names that differ only in case, spaces, quotes or Unicode form are different"
)


@pytest.mark.parametrize(
    "other",
    [
        "Café.example",
        "café.example ",
        '"café.example"',
        unicodedata.normalize("NFD", "café.example"),
        "CAFÉ.EXAMPLE",
    ],
)
def test_both_pages_name_the_other(world: World, client: Client, other: str) -> None:
    for name in ("café.example", other, "tea.example"):
        world.report(name, "clear")
    world.write()
    for name, twin in (("café.example", other), (other, "café.example")):
        page = client.get(asset_path("attack", name)).content.decode()
        assert f'href="{asset_path("attack", twin)}"' in page
        assert SAID in text_of(page)
    assert SAID not in text_of(client.get(asset_path("attack", "tea.example")).content.decode())


def test_what_is_gone_is_not_named(world: World, client: Client) -> None:
    world.report("shop", "clear")
    world.report("Shop", "clear")
    world.command("purge", "Shop")
    world.write()
    assert SAID not in text_of(client.get(asset_path("attack", "shop")).content.decode())
