"""Scheduled tasks in a browser: begun on an asset's page, listed, run, cancelled."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import (
    Open,
    Send,
    live,
    row,
    serious,
    serious_in_both,
    too_wide_in,
)


def schedule(page: Page, asset: str, **fields: str) -> None:
    """Fill in the form of the asset's panel, and send it."""
    row(live(page), asset).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(asset)
    page.locator("#panel summary", has_text="Schedule a task").click()
    form = page.locator("#panel .command-schedule form")
    for name, value in fields.items():
        field = form.locator(f"[name={name}]")
        if name == "do":
            field.select_option(value)
        else:
            field.fill(value)
    form.get_by_role("button", name="Schedule").click()


def test_a_task_is_scheduled_runs_and_is_told(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}order"
    send("orders", asset, "desk", "picking")
    page = open_as("operator", f"/s/orders/?q={prefix}")
    schedule(page, asset, do="set", state="shipped", after="2s", reason="the truck leaves then")
    expect(page.locator("#panel .command-following .phase-applied")).to_be_visible()
    expect(row(page, asset).locator(".col-state")).to_contain_text("Shipped")
    expect(page.locator("#facts")).to_contain_text("the truck leaves then")
    listed = open_as("operator", f"/schedules/?q={prefix}&status=over")
    line = listed.locator("#schedules tbody tr")
    expect(line).to_contain_text("ran for the last time")
    expect(line).to_contain_text("applied")


@pytest.mark.extensive(
    guard="tests/web/watch/test_schedules.py::"
    "test_a_form_schedules_at_a_time_in_the_users_zone_until_another"
)
def test_a_task_begins_at_a_time_and_ends_at_another(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}order"
    send("orders", asset, "desk", "picking")
    page = open_as("operator", f"/s/orders/?q={prefix}", 390)
    row(live(page), asset).locator(".asset").click()
    page.locator("#panel summary", has_text="Schedule a task").click()
    form = page.locator("#panel .command-schedule form")
    expect(form.locator("[name=state]")).to_be_hidden()
    form.locator("[name=do]").select_option("set")
    expect(form.locator("[name=state]")).to_be_visible()
    form.locator("[name=state]").fill("shipped")
    form.locator("[name=run_at]").fill("2035-01-31T10:00")
    form.locator("[name=every]").fill("1h")
    form.locator("[name=run_until]").fill("2035-01-31T09:00")
    form.locator("[name=reason]").fill("the yearly drill")
    assert serious(page) == []
    form.get_by_role("button", name="Schedule").click()
    expect(form.locator(".field-run_until")).to_contain_text("Expected a time after the first run.")
    form.locator("[name=run_until]").fill("2035-01-31T12:00")
    form.get_by_role("button", name="Schedule").click()
    expect(page.locator("#facts .note-tasks")).to_contain_text("every 1 h, until 2035-01-31")
    expect(page.locator("#panel")).to_contain_text(
        "If nobody reports, a task of operator pins it in"
    )
    listed = open_as("operator", f"/schedules/?q={prefix}", 390)
    expect(listed.locator("#schedules tbody tr")).to_contain_text("every 1 h, until 2035-01-31")
    assert too_wide_in(listed) == []


@pytest.mark.extensive(
    guard="tests/web/watch/test_schedules.py::test_an_assets_page_schedules_lists_and_cancels"
)
@pytest.mark.parametrize("width", [1440, 390])
def test_tasks_are_listed_and_cancelled(open_as: Open, send: Send, prefix: str, width: int) -> None:
    asset = f"{prefix}order"
    send("orders", asset, "desk", "picking")
    page = open_as("operator", f"/s/orders/?q={prefix}")
    schedule(page, asset, do="notify", every="1h", times="3", reason="watch it")
    expect(page.locator("#panel .command-following .phase-applied")).to_be_visible()
    expect(page.locator("#facts")).to_contain_text("Scheduled")
    assert serious(page) == []

    listed = open_as("operator", f"/schedules/?q={prefix}", width)
    line = listed.locator("#schedules tbody tr")
    expect(line).to_contain_text("every 1 h, 3 more")
    expect(line).to_contain_text("Waiting")
    assert serious(listed) == []
    assert too_wide_in(listed) == []
    line.get_by_role("button", name="Cancel").press("Enter")
    expect(listed.locator(".command-following")).to_contain_text("pplied")
    listed.goto(listed.url.split("/s/")[0] + f"/schedules/?q={prefix}&status=over")
    expect(listed.locator("#schedules tbody tr")).to_contain_text("cancelled")


@pytest.mark.extensive(
    guard="tests/web/watch/test_schedules.py::test_a_task_that_may_hide_an_attack_is_confirmed"
)
@pytest.mark.parametrize("width", [1440, 390])
def test_a_task_that_may_hide_an_attack_is_confirmed(
    open_as: Open, send: Send, prefix: str, width: int
) -> None:
    asset = f"{prefix}shop"
    send("attack", asset, "waf-1", "under-attack")
    page = open_as("operator", f"/s/attack/?q={prefix}", width)
    schedule(page, asset, do="purge", after="1h", reason="the site is moved then")
    warning = page.locator("#panel .command-warning")
    expect(warning).to_contain_text("This may hide an attack: time alone will remove the row")
    expect(warning).to_be_focused()
    assert serious_in_both(page) == []
    page.get_by_role("button", name="Schedule anyway").click()
    expect(page.locator("#panel .command-following .phase-applied")).to_be_visible()
    expect(page.locator("#facts .note-tasks")).to_contain_text("may hide an attack")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
