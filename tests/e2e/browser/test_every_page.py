"""Every page, visited once: to be read by everybody, in both themes and in windows of any width.

A plain run looks at half of the pages in the dark theme, and at the others in the light one.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from django.urls import URLResolver, get_resolver
from playwright.sync_api import Page, Route
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from dashboard.core.common.navigation import every_page
from dashboard.core.common.times import HOUR_MS, field_text, now_ms
from support.browser.browser_pages import (
    COLOURS,
    Open,
    Send,
    resize,
    send_refused,
    serious,
    too_wide_in,
    view_at,
)
from support.run.selection import is_whole
from support.run.stack import ROOT, Stack, wait_until

PHONE, DESK = 390, 1440
"""Of windows, px."""
ARRIVES_S = 120
"""Until a worker has sent a message, on a machine that may be busy, s."""


@dataclass(frozen=True)
class Walk:
    """A walk in a tab. mine: begins the names of this test's own assets. send: reports of one.
    open_as: opens a tab of somebody else.
    """

    product: Stack
    page: Page
    mine: str
    send: Send
    open_as: Open


Step = str | Callable[[Walk], object]
"""A step to a page: an address, in which `{mine}` may stand, or what is done on the page before."""

# ---- steps ----------------------------------------------------------------------------------

LINKS = "main => [...main.querySelectorAll('a[href]')].map(each => each.href)"

SEND = """(button, fields) => {
  const { form } = button;
  const is = (box, text) => box.value === text || box.labels[0].innerText.startsWith(text);
  for (const [name, value] of Object.entries(fields)) {
    const controls = [...form.elements].filter((each) => each.name === name);
    const boxes = controls.filter((each) => ["checkbox", "radio"].includes(each.type));
    if (boxes.length) boxes.find((each) => is(each, value)).checked = true;
    else controls[0].value = value;
  }
  const { name, value } = button;
  if (name) form.append(Object.assign(document.createElement("input"), { name, value }));
  form.submit();
}"""
"""Sends a button's form with these fields, by their names, as a browser without scripts does; of
boxes, the one of this value or text is checked."""


def linked(name: str) -> Step:
    """Follow the page's first link to a view of this name, which may come in a moment."""

    def follow(walk: Walk) -> None:
        page = walk.page

        def there() -> bool:
            if link_to(page, name):
                return True
            page.reload()
            return False

        wait_until(there, ARRIVES_S, f"no link to {name} at {page.url}")
        page.goto(link_to(page, name))

    return follow


def link_to(page: Page, name: str) -> str:
    """Return the first of a page's links to a view of this name; empty where there is none."""
    links: list[str] = page.locator("main").first.evaluate(LINKS)
    return next((each for each in links if view_at(each) == name), "")


def sent(button: str, **fields: str) -> Step:
    """Fill in the form of this button, field by name, and send it."""

    def send_form(walk: Walk) -> None:
        words = re.compile(rf"^\s*{re.escape(button)}\s*$")
        given = {name: each.format(mine=walk.mine) for name, each in fields.items()}
        with walk.page.expect_navigation():
            walk.page.locator("main button", has_text=words).first.evaluate(SEND, given)

    return send_form


def by_admin(*way: Step) -> Step:
    """Have an admin take these steps first, in a tab of their own."""

    def lead(walk: Walk) -> None:
        page = walk.open_as("admin", "/account/login/", base_url=walk.product.url)
        go(replace(walk, page=page), way)
        page.close()

    return lead


def uploaded(walk: Walk) -> None:
    """Send a table of labels, to be looked at."""
    content = f"asset,key,value\n{walk.mine}order,tier,{walk.mine}\n".encode()
    walk.page.locator("#label-file").set_input_files(
        {"name": "labels.csv", "mimeType": "text/csv", "buffer": content}
    )
    walk.page.get_by_role("button", name="Review…").click()
    walk.page.wait_for_url("**/labels/upload/*/")


def attacked(walk: Walk) -> None:
    """Have an incident begin."""
    walk.send("attack", f"{walk.mine}site", "waf-1", "under-attack")


def to_the_link_of_a_digest(walk: Walk) -> None:
    """Open the link that the newest subscription's mails will have."""
    path = walk.product.data_dir / "tallyboard.sqlite3"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        number, token = database.execute(NEWEST_SUBSCRIPTION).fetchone()
    walk.page.goto(f"/digests/unsubscribe/{number}.{token}/")


def to_a_link_that_is_none(walk: Walk) -> None:
    """Open the page of a guessed link of a message."""
    open_refused(walk.page, "/notifications/reply/guessed/")


def open_refused(page: Page, path: str) -> None:
    """Open a page whose status would be a fault in the console."""

    def answer_ok(route: Route) -> None:
        route.fulfill(response=route.fetch(), status=200)

    page.route("**/notifications/reply/*/", answer_ok)
    page.goto(path)
    page.unroute("**/notifications/reply/*/", answer_ok)


def to_the_links_of_a_message(walk: Walk) -> None:
    """Open a link of a message about this test's attack, press its button, and open another one
    that has expired; each page is looked at."""
    program = [sys.executable, "tests/support/web/reply_links.py", f"{walk.mine}site"]
    own = walk.product.environment()
    *_, last = subprocess.check_output(program, cwd=ROOT, env=own, text=True).splitlines()
    links = json.loads(last)
    walk.page.goto(links["acknowledge"])
    looked_at = {"before": wrong_with(walk.page, REPLY)}
    with walk.page.expect_navigation():
        walk.page.locator("main form button").click()
    looked_at |= {"after": wrong_with(walk.page, REPLY)}
    assert looked_at == {"before": [], "after": []}
    open_refused(walk.page, links["expired"])


NEWEST_SUBSCRIPTION = "SELECT id, token FROM summaries_subscription ORDER BY id DESC LIMIT 1"


def cancelled(walk: Walk) -> None:
    """Cancel the batch query that the page is of, unless it has ended."""
    cancel = walk.page.locator("form[action*='/batch-queries/'] button")
    if cancel.count():
        # It may end meanwhile: the page renews itself, without the form, and nothing is sent.
        with suppress(PlaywrightTimeout), walk.page.expect_navigation(timeout=10_000):
            cancel.first.evaluate(SEND, {})


# ---- pages ----------------------------------------------------------------------------------

ORDER, REPLY = "/s/orders/a/{mine}order/", "notifications:reply"
AN_HOUR_AGO = field_text(now_ms() // HOUR_MS * HOUR_MS - HOUR_MS)
STORE_CHANNEL = sent("Save", name="{mine}mail", address="{mine}soc@example.invalid")
AT_ONCE = {
    "scenarios": "*", "group_by": "asset", "window": "0s", "most": "999",
    "stage-0-targets": "{mine}mail",
}  # fmt: skip
"""Fields of a rule that tells of each incident, by a channel that an admin has made."""

PAGES: dict[str, dict[str, Step | tuple[Step, ...]]] = {
    "admin": {
        "dead_letters:letters": "/dead-letters/?q={mine}",
        "dead_letters:letter": linked("dead_letters:letter"),
        "dead_letters:review": ("/dead-letters/?q={mine}", sent("Redrive all that match…")),
        "notifications:channels": "/notifications/channels/",
        "notifications:new-channel": "/notifications/channels/new/mail/",
        "notifications:edit-channel": (STORE_CHANNEL, linked("notifications:edit-channel")),
        "rules:change": "/scenarios/orders/change/",
        "rules:review": sent("Review the change", vote_lifetime="9m"),
        "state_store:readings": "/state-store/?scenario=attack",
        "state_store:reading": sent("Read it"),
        "what_if:trial": (cancelled, "/what-if/?scenario=attack", sent("Try it", min_voters="1")),
        "replays:replay": (cancelled, "/replay/"),
        "retention:retention": "/console/retention/",
        "audit:entries": "/audit/",
        "users:users": "/users/",
        "users:user": linked("users:user"),
        "users:new-user": "/users/new/",
        "users:roles": "/users/roles/",
        "accounts:all-tokens": "/users/tokens/",
        "summaries:settings": "/summary/settings/",
        "status:new": "/status-pages/new/",
        "status:pages": sent(
            "Save",
            title="Acme",
            slug="acme",
            scenarios="attack",
            labels="customer=Acme",
            published="on",
        ),
        "status:edit": linked("status:edit"),
        "status:page": linked("status:page"),
    },
    "operator, told of an incident": {
        "notifications:rules": (
            by_admin("/notifications/channels/new/mail/", STORE_CHANNEL),
            "/notifications/rules/",
        ),
        "notifications:new-rule": "/notifications/rules/new/",
        "notifications:rule": sent("Save", name="{mine}rule", **AT_ONCE),
        "notifications:edit-rule": linked("notifications:edit-rule"),
        "incidents:by-asset": (attacked, "/incidents/by-asset/?q={mine}"),
        "incidents:incidents": "/incidents/?q={mine}",
        "incidents:incident": linked("incidents:incident"),
        "board:asset": linked("board:asset"),
        "board:record": linked("board:record"),
        "incidents:groups": (
            "/s/attack/a/{mine}site/",
            sent("Add", key="customer", value="{mine}"),
            "/incidents/groups/?scenario=attack&label=customer",
        ),
        "incidents:group": linked("incidents:group"),
        # what a worker sends meanwhile
        "mail_catcher:mails": "/console/mail/",
        "mail_catcher:mail": linked("mail_catcher:mail"),
        "notifications:messages": "/notifications/messages/?q={mine}site",
        "notifications:message": linked("notifications:message"),
        "notifications:acknowledge": linked("notifications:acknowledge"),
    },
    "operator, at the board": {
        "commands:status": (
            ORDER,
            sent("Set", state="shipped", reason="a drill"),
            linked("commands:status"),
        ),
        "annotations:edit-note": (
            ORDER,
            sent("Add note", text="a drill"),
            linked("annotations:edit-note"),
        ),
        "board:board": "/",
        "board:scenario": "/s/orders/?q=order-",  # the demo's own, as others leave hundreds
        "board:events": "/events/?all=on&q=shop.example",
        "board:overrides": "/overrides/",
        "agents:agents": "/agents/?scenario=attack",
        "agents:agent": linked("agents:agent"),
        "orders:where": "/orders/where/?order=order-10007",
        "filters:kept": "/filters/",
        "labels:labels": "/labels/?scenario=orders",
        "labels:table": uploaded,
        "handover:handover": "/handover/?hours=1",
        "maintenance:new": "/maintenance/new/?scenario=attack&q={mine}racks",
        "maintenance:window": sent("Plan maintenance", name="{mine}racks"),
        "maintenance:edit": linked("maintenance:edit"),
        "schedules:schedules": "/schedules/",
    },
    "operator, at the console": {
        "bulk:stale": "/stale/?scenario=orders",
        "bulk:bulk": "/bulk/?scenario=orders",
        "bulk:run": sent("Review…", kind="release", by="filter", q="{mine}", reason="a drill"),
        "notifications:rotas": "/notifications/rotas/",
        "notifications:rota": sent("Create it", name="{mine}rota"),
        "console:job": "/job/",
        "console:partitions": "/partitions/?scenario=orders&asset=42",
        "rules:scenarios": "/scenarios/",
        "rules:scenario": "/scenarios/attack/",
        "topic_views:views": "/views/",
        "topic_views:view": "/views/orders/?key=order-*",
        "what_if:trials": "/what-if/",
        "accounts:sessions": "/account/sessions/",
        "accounts:tokens": "/account/tokens/",
        "push:browsers": "/account/notifications/",
        "notifications:inbox": "/account/messages/",
        REPLY: to_a_link_that_is_none,
        "account_change_password": "/account/password/change/",
        "account_logout": "/account/logout/",
        "mfa_index": "/account/2fa/",
        "account_reauthenticate": "/account/2fa/totp/activate/",
    },
    "manager": {
        "summaries:summary": "/summary/",
        "summaries:spans": "/summary/history/",
        "summaries:alarms": "/summary/alarms/",
        "digests:own": ("/account/digests/", sent("Save", every="week")),
        "digests:unsubscribe": to_the_link_of_a_digest,
        "board:asset": "/s/attack/a/shop.example/",  # without a form
        "board:as-of": "/as-of/?scenario=attack",
        "board:wall": "/wall/",
        "invoices:invoices": "/invoices/",
        "maintenance:windows": "/maintenance/",
        "glossary": "/glossary/",
    },
    "": {
        "account_login": "/account/login/",
        "account_inactive": "/account/inactive/",
        "account_signup": "/account/signup/",
        REPLY: (attacked, to_the_links_of_a_message),
    },
}
"""By role, and what it is about, the names of views, each with the way to it."""

# ---- what is none, and what is looked at elsewhere --------------------------------------------

NO_PAGES = {
    "board:tabs", "board:palette", "bulk:names", "filters:complete", "handover:text",
    "invoices:hourly", "mail_catcher:html", "healthz", "readyz", "metrics",
}  # fmt: skip
"""Parts of pages, and what programs read."""
LEAD_ON = {
    "filters:use",
    "incidents:of-asset",
    "account_confirm_login_code",
    "dead_letters:outcomes",
}
"""To another page."""
NOT_OFFERED = {
    "account_email", "account_email_verification_sent", "account_set_password",
    "account_reset_password", "account_reset_password_done", "account_confirm_email",
    "account_reset_password_from_key", "account_reset_password_from_key_done",
}  # fmt: skip
"""Pages of the login library that need mail."""
ELSEWHERE = {
    "test_second_factor.py": {
        "mfa_activate_totp", "mfa_authenticate", "mfa_reauthenticate", "mfa_deactivate_totp",
        "mfa_view_recovery_codes", "mfa_generate_recovery_codes",
    },
}  # fmt: skip
"""By the file that looks at them, pages that no walk reaches."""


def page_views(patterns: list[Any], space: str = "") -> Iterator[str]:
    """Yield the names of the views of a resolver that answer with a page when they are asked."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
            yield from page_views(pattern.url_patterns, inner)
        elif pattern.name and not (is_file(str(pattern.pattern)) or is_form(pattern.callback)):
            yield f"{space}{pattern.name}"


def is_file(route: str) -> bool:
    """Whether a route ends as a file's name does."""
    return "." in route.rpartition("/")[2] or route.endswith(("export/<str:form>/", "download/"))


def is_form(view: Any) -> bool:
    """Whether a view, below its decorators, leads on to the page that has its form."""
    while view is not None:
        code = getattr(view, "__code__", None)
        if code and code.co_qualname.startswith("form_of."):
            return True
        view = getattr(view, "__wrapped__", None)
    return False


# ---- the walk --------------------------------------------------------------------------------


@pytest.fixture
def walk(product: Stack, send: Send, prefix: str, open_as: Open) -> Callable[[str], Walk]:
    """Begins a walk in a tab, with an order and a refused record of this test's own."""
    send("orders", f"{prefix}order", "desk", "picking")
    send_refused(product, f"{prefix}shop")
    return lambda role: Walk(
        product, open_as(role, "/account/login/", base_url=product.url), prefix, send, open_as
    )


def go(walk: Walk, way: Step | tuple[Step, ...]) -> None:
    """Take the steps to a page."""
    for step in way if isinstance(way, tuple) else (way,):
        if callable(step):
            step(walk)
        else:
            walk.page.goto(step.format(mine=walk.mine))


def theme_of(name: str) -> Literal["light", "dark"]:
    """Return the theme of a page's look: in a plain run half of the pages are dark."""
    return "dark" if zlib.crc32(name.encode()) % 2 and not is_whole() else "light"


def wrong_with(page: Page, name: str) -> list[str]:
    """What is wrong with a page that is to be of the view of this name."""
    faults = [] if view_at(page.url) == name else [f"is {page.url}"]
    heads = page.locator("h1").count()
    faults += [] if heads == 1 else [f"has {heads} headings of the first level"]
    page.emulate_media(color_scheme=theme_of(name), reduced_motion="reduce")
    faults += serious(page)
    faults += [f"is too wide for {width} px" for width in too_wide_in(page)]
    if is_whole():
        resize(page, PHONE)
        page.emulate_media(color_scheme="dark")
        faults += serious(page, *COLOURS)
    resize(page, DESK)
    return faults


@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", PAGES)
def test_every_page_can_be_read_by_everybody(walk: Callable[[str], Walk], which: str) -> None:
    taken = walk(which.partition(",")[0])
    wrong: dict[str, list[str]] = {}
    for name, way in PAGES[which].items():
        go(taken, way)
        wrong[name] = wrong_with(taken.page, name)
    assert {name: faults for name, faults in wrong.items() if faults} == {}


def test_no_page_is_left_out() -> None:
    visited = {name for pages in PAGES.values() for name in pages}
    assert {page.view for page in every_page()} <= visited
    for others in (NO_PAGES, LEAD_ON, NOT_OFFERED, *ELSEWHERE.values()):
        assert visited.isdisjoint(others)
        visited |= others
    view_names = set(page_views(get_resolver().url_patterns))
    assert {name for name in view_names if not name.startswith("api-")} == visited


@pytest.mark.parametrize("file", ELSEWHERE)
def test_what_is_looked_at_elsewhere_is(file: str) -> None:
    assert "serious(" in (Path(__file__).parent / file).read_text(encoding="utf-8")
