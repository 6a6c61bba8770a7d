"""The forms in a page of an asset: for whom, with what, and what they follow."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.template import RequestContext, Template
from django.test import RequestFactory
from msgspec.structs import replace

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.watch.commands.models import Command as Row
from support.histories.state_records import as_read, record
from support.web.web_fixtures import make_user

pytestmark = pytest.mark.django_db

PAGE = Template("{% load commands %}{% command_forms scenario asset record %}")


RECORD = as_read(record(version="1.42.0"))


def page(role: str, asset: str = "shop", query: str = "", **more: Any) -> str:
    request = RequestFactory().get(f"/?{query}")
    request.user = make_user(role)
    context = {"scenario": scenarios()["attack"], "asset": asset, "record": None} | more
    return PAGE.render(RequestContext(request, context))


def stored(asset: str = "shop", **more: Any) -> Row:
    fields = {
        "id": uuid.uuid4(), "scenario": "attack", "asset": asset, "kind": "set", "state": "clear",
        "username": "ada", "source": "form", "created_at": now_ms(), "status": "sent",
        "reason": "a drill", "partition": 2, "offset": 1234,
    }  # fmt: skip
    return Row.objects.create(**fields | more)


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_operators_and_admins_get_a_form_for_each_command(role: str):
    assert re.findall(r'action="/s/attack/command/(\w+)/shop/"', page(role)) == [
        "set", "vote", "release", "schedule", "purge",
    ]  # fmt: skip


def test_a_manager_is_told_that_commands_are_for_others():
    shown = page("manager")
    assert "<form" not in shown
    assert "Commands are for operators and admins" in shown


def test_without_a_role_there_is_nothing_to_see():
    assert "<form" not in page("none")


def test_each_form_has_an_id_of_its_own_and_its_csrf_token():
    shown = page("operator")
    ids = re.findall(r'name="id" value="([^"]+)"', shown)
    assert len(set(ids)) == 5
    assert shown.count("csrfmiddlewaretoken") == 5


def test_the_scenario_may_be_named():
    assert "Under attack" in page("operator", scenario="attack")


def test_an_open_vocabulary_is_typed_with_suggestions():
    shown = page("operator", scenario="orders")
    assert '<input type="text" name="state"' in shown
    assert '<option value="picking">Picking</option>' in shown


def test_the_version_shown_goes_with_the_form():
    assert 'name="seen" value="1.42.0"' in page("operator", record=RECORD)


def test_a_command_named_in_the_url_is_followed():
    row = stored()
    shown = page("operator", query=f"command={row.pk}")
    assert f'hx-get="/commands/{row.pk}/"' in shown
    assert "partition 2, offset 1234" in shown


@pytest.mark.parametrize("query", ["command=7", "command=", f"command={uuid.UUID(int=7)}"])
def test_what_is_no_command_is_not_followed(query: str):
    assert "hx-get" not in page("operator", query=query)


def test_another_assets_command_is_not_followed():
    row = stored("other")
    assert "hx-get" not in page("operator", query=f"command={row.pk}")


def test_names_are_escaped():
    shown = page(
        "operator", asset="<script>alert(1)</script>", record=replace(RECORD, version="<b>")
    )
    assert "<script>alert" not in shown
    assert "<b>" not in shown
