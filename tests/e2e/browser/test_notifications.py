"""Notifications in a browser: rules, rotas and messages; the mail that arrives; push messages."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import Locator, Page, expect

from dashboard.core.common.times import HOUR_MS, field_text
from support.browser.browser_pages import Open, Send, serious_in_both, too_wide_in
from support.run.stack import Stack, wait_until
from support.web.push_service import Browser

ARRIVES_MS = 120_000
DEMO_ARRIVES_MS = 300_000  # once an attack on a gold customer has lasted


def sound(page: Page) -> None:
    """Check a page in both themes and in windows of every width."""
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []


@pytest.fixture
def channel(open_as: Open, prefix: str, faults: list[str]) -> str:
    """A channel of mail that an admin has set up by its form."""
    name = f"{prefix}mail"
    page = open_as("admin", "/notifications/channels/")
    page.get_by_role("link", name="New: Mail").press("Enter")
    page.locator("#id_name").fill(name)
    page.get_by_label("Addresses").fill("nobody")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.locator(".field-address")).to_contain_text("mail addresses")
    faults.clear()  # the browser's own word of the status 422
    sound(page)
    page.get_by_label("Addresses").fill(f"{prefix}soc@example.invalid")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.locator("#messages")).to_contain_text(f"The channel {name} is saved")
    return name


def demo_mail(page: Page) -> Locator:
    """Return the line of a mail about an attack of the demo, on an older page where others' mails
    came after it; else wait for one."""
    mails = page.locator("#mails tbody tr", has_text="soc@demo.invalid")
    line = mails.filter(has_not_text="Over: ").first  # the end of an attack is told as well
    older = page.get_by_role("link", name="Older")
    while not line.count() and older.count():
        with page.expect_navigation():
            older.press("Enter")
    if not line.count():
        page.goto(page.url.partition("?")[0])
    expect(line).to_be_visible(timeout=DEMO_ARRIVES_MS)
    return line


@pytest.mark.timeout(500)  # it waits for an attack
@pytest.mark.extensive(
    guard="tests/web/notify/test_notification_demo.py::test_a_lasting_attack_is_told_with_its_end"
)
def test_an_attack_of_the_demo_arrives_as_a_mail(open_as: Open) -> None:
    page = open_as("operator", "/console/mail/")
    line = demo_mail(page)
    sound(page)
    line.get_by_role("link").press("Enter")
    expect(page.get_by_role("heading", name="Headers")).to_be_visible()
    expect(page.locator(".mail-text")).to_contain_text("/notifications/ack/")
    expect(page.frame_locator(".mail-html").locator("body")).not_to_be_empty()
    sound(page)


def test_a_rule_is_written_previewed_and_tried(
    open_as: Open, channel: str, prefix: str, faults: list[str]
) -> None:
    page = open_as("operator", "/notifications/rules/new/")
    page.locator("#id_name").fill(f"{prefix}rule")
    page.get_by_label("All scenarios").check()
    page.get_by_label("Lasts at least").fill("soon")
    page.locator(".stage").first.get_by_label(channel).check()
    page.get_by_role("button", name="Preview").press("Enter")
    expect(page.locator(".field-after").first).to_contain_text("Expected a duration")
    faults.clear()  # the browser's own word of the status 422
    expect(page.locator("#id_name")).to_have_value(f"{prefix}rule")
    sound(page)
    page.get_by_label("Lasts at least").fill("1m")
    page.get_by_role("button", name="Preview").press("Enter")
    expect(page.get_by_role("heading", name="This rule would have sent")).to_be_visible()
    sound(page)
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_role("heading", name=f"{prefix}rule")).to_be_visible()
    expect(page.locator(".rule-facts")).to_contain_text("lasting at least 1 m")
    page.get_by_role("button", name="Send a test").press("Enter")
    expect(page.locator("#messages")).to_contain_text("1 test message on the way")
    page.get_by_role("link", name="Its messages").press("Enter")
    line = page.locator("#messages-list tbody tr")
    expect(line).to_contain_text("sent", timeout=ARRIVES_MS)
    line.get_by_role("link", name=re.compile("Test of the rule")).press("Enter")
    expect(page.locator("#message")).to_contain_text("accepted")
    mails = open_as("operator", "/console/mail/")
    expect(mails.locator("#mails")).to_contain_text(f"{prefix}soc@example.invalid")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_every_page.py::test_every_page_can_be_read_by_everybody"
)
def test_a_messages_link_leads_to_a_form(
    open_as: Open, send: Send, channel: str, prefix: str
) -> None:
    page = open_as("operator", "/notifications/rules/new/")
    page.locator("#id_name").fill(f"{prefix}rule")
    page.get_by_label("All scenarios").check()
    page.get_by_label("Group by").fill("asset")
    page.get_by_label("Wait for more").fill("0s")
    page.locator(".stage").first.get_by_label(channel).check()
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.locator("#messages")).to_contain_text("is saved")
    asset = f"{prefix}site"
    send("attack", asset, "waf-1", "under-attack")
    page = open_as("operator", f"/notifications/messages/?q={asset}")
    line = page.locator("#messages-list tbody tr", has_text=f"{prefix}soc").first
    expect(line).to_be_visible(timeout=ARRIVES_MS)
    line.get_by_role("link", name=re.compile(asset)).press("Enter")
    page.locator("a[href*='/notifications/ack/']").first.press("Enter")
    expect(page.get_by_role("heading", name="1 incident to acknowledge")).to_be_visible()
    sound(page)
    page.get_by_label("What you are doing").fill("on it")
    page.get_by_role("button", name="Acknowledge").press("Enter")
    expect(page.locator("#messages")).to_contain_text(f"Acknowledged: {asset}")
    page.get_by_role("link", name=asset).first.press("Enter")
    expect(page.locator("#incident")).to_contain_text("operator")
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline.get_by_role("link", name=f"{prefix}soc@example.invalid, Sent")).to_be_visible()
    sound(page)


@pytest.mark.extensive(
    guard="tests/web/notify/test_notification_pages.py::"
    "test_a_rota_says_who_is_on_call_and_an_override_wins"
)
def test_a_rota_says_who_is_on_call(open_as: Open, prefix: str) -> None:
    page = open_as("operator", "/notifications/rotas/")
    page.locator("#id_name").fill(f"{prefix}rota")
    page.get_by_role("button", name="Create it").press("Enter")
    expect(page.locator(".lead")).to_contain_text("nobody")
    sound(page)
    now = int(time.time() * 1000)
    page.locator("#id_who").select_option("operator")
    page.get_by_label("From (UTC)").fill(field_text(now - HOUR_MS))
    page.get_by_label("Until (UTC)").fill(field_text(now + HOUR_MS))
    page.get_by_role("button", name="Add").press("Enter")
    expect(page.locator(".lead")).to_contain_text("operator")
    sound(page)
    page.get_by_role("link", name="← On call").press("Enter")
    expect(page.locator("tbody tr", has_text=f"{prefix}rota")).to_contain_text("operator")
    sound(page)


# ---- push -------------------------------------------------------------------------------------

SUBSCRIBED = """keys => {
  const made = { ...keys, unsubscribe: async () => true, toJSON: () => ({
    endpoint: keys.endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } }) };
  PushManager.prototype.subscribe = async function (options) {
    if (!options.userVisibleOnly || options.applicationServerKey.length !== 65) throw Error("key");
    localStorage.setItem("subscribed", "1");
    return made;
  };
  PushManager.prototype.getSubscription = async function () {
    return localStorage.getItem("subscribed") ? made : null;
  };
}"""
"""In place of the browser's own push service, which no test reaches."""

RECORDED = """() => {
  self.shown = [];
  ServiceWorkerRegistration.prototype.showNotification = async (title, options) =>
    self.shown.push([title, options.body, options.tag, options.data.url]);
}"""
"""In place of the system's notifications, which a browser without windows has none of."""


def push_page(open_as: Open, product: Stack, prefix: str) -> Page:
    """The page of the user's browsers, in a browser with a push service of its own."""
    page = open_as("operator", "/account/notifications/")
    page.context.grant_permissions(["notifications"], origin=product.url)
    keys = Browser().subscription(f"https://push.invalid/{prefix}")
    page.add_init_script(f"({SUBSCRIBED})({json.dumps(keys)})")
    page.reload()
    return page


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_notifications.py::test_a_push_message_is_shown_by_the_worker"
)
def test_a_browser_is_subscribed_at_a_click(open_as: Open, product: Stack, prefix: str) -> None:
    page = push_page(open_as, product, prefix)
    sound(page)
    page.get_by_role("button", name="Notify me in this browser").press("Enter")
    expect(page.locator("#messages")).to_contain_text("shows notifications from now on")
    line = page.locator("tbody tr", has=page.locator(".this-browser:not([hidden])"))
    expect(line).to_be_visible()
    expect(page.get_by_role("button", name="Notify me in this browser")).to_be_hidden()
    sound(page)
    line.get_by_role("button", name="Remove").press("Enter")
    expect(page.locator("#messages")).to_contain_text("The browser is removed")


def test_a_push_message_is_shown_by_the_worker(open_as: Open, product: Stack, prefix: str) -> None:
    page = push_page(open_as, product, prefix)
    page.get_by_role("button", name="Notify me in this browser").press("Enter")
    expect(page.locator("#messages")).to_contain_text("shows notifications from now on")
    payload = {
        "title": "shop: Under attack",
        "body": "Since 14:03.",
        "tag": "1",
        "url": "/incidents/INC-7/",
    }
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    [worker] = page.context.service_workers
    worker.evaluate(RECORDED)
    deliver(page, product.url, json.dumps(payload))
    wait_until(lambda: worker.evaluate("self.shown.length"), 20, "no notification was shown")
    expected = ["shop: Under attack", "Since 14:03.", "1", "/incidents/INC-7/"]
    assert worker.evaluate("self.shown") == [expected]


def deliver(page: Page, origin: str, data: str) -> None:
    """Have the browser hand a push message to the page's worker."""
    session = page.context.new_cdp_session(page)
    registrations: list[str] = []
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: registrations.extend(
            one["registrationId"] for one in event["registrations"] if not one["isDeleted"]
        ),
    )
    session.send("ServiceWorker.enable")
    while not registrations:  # the test's own time limit ends it
        page.wait_for_timeout(20)
    message = {"origin": origin, "registrationId": registrations[-1], "data": data}
    session.send("ServiceWorker.deliverPushMessage", message)
