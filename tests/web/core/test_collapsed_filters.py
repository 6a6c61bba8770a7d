"""The filter above a list: collapsed on a phone, unless it is short or has a mistake."""

from __future__ import annotations

import re

import pytest
from django.test import Client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]


def line_of(client: Client, path: str) -> list[tuple[str, str]]:
    """Whether the page's filter is open, and what its line says."""
    body = client.get(path).content.decode()
    return re.findall(r'<details class="filter-fields"( open)?>\s*<summary>(.*?)</summary>', body)


@pytest.mark.parametrize("path", ["/events/", "/incidents/groups/", "/handover/"])
def test_a_long_filter_is_one_line(admin: Client, path: str) -> None:
    assert line_of(admin, path) == [("", "Filter")]


def test_the_line_says_how_many_fields_narrow_the_list(admin: Client) -> None:
    assert line_of(admin, "/events/?scenario=attack&q=shop") == [("", "Filter: 2 set")]


def test_a_filter_with_a_mistake_is_open(admin: Client) -> None:
    assert line_of(admin, "/events/?q=state:") == [(" open", "Filter: 1 set")]


def test_a_short_filter_and_what_is_no_list_stay_as_they_are(admin: Client) -> None:
    assert line_of(admin, "/users/") == []
    assert line_of(admin, "/as-of/?scenario=attack") == []
