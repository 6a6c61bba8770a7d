"""A refused record, from Kafka to its page, mended by keyboard, and back onto the board."""

from __future__ import annotations

from browser_pages import Open, live, press_to, row, serious, too_wide_in
from playwright.sync_api import Page, expect

from bus.kafka import KafkaBus
from stack import Stack
from wire.topics import Topics

BAD = '{"type":"report","agent":"waf-1","state":"on-fire"}'


def send_bad(product: Stack, asset: str) -> None:
    """A report of a state that the scenario does not have, past every check, into Kafka."""
    topics = Topics(product.settings.topic_prefix)
    producer = KafkaBus(product.settings.kafka_options()).producer()
    producer.send_and_wait(topics.reports("attack"), asset.encode(), BAD.encode(), timeout_s=45)
    producer.close()


def redrive(page: Page, value: str) -> None:
    """Put this into the form, and send it by keyboard."""
    page.get_by_role("textbox", name="Value").fill(value)
    press_to(page, page.get_by_role("button", name="Redrive"))
    page.keyboard.press("Enter")


def test_a_refused_report_is_mended_and_reaches_the_board(
    product: Stack, open_as: Open, prefix: str, faults: list[str]
) -> None:
    asset = f"{prefix}site"
    page = live(open_as("admin", f"/dead-letters/?q={prefix}"))
    expect(page.get_by_role("heading", name="No dead letters here")).to_be_visible()
    send_bad(product, asset)
    newer = page.get_by_role("link", name="Newer ones have come")
    expect(newer).to_be_visible()
    newer.click()
    letter = page.locator(".letter-table tbody a", has_text="unknown-state")
    expect(letter).to_be_visible()
    assert serious(page) == []
    assert too_wide_in(page) == []

    press_to(page, letter)
    page.keyboard.press("Enter")
    expect(page.locator(".fault-text")).to_contain_text("state: expected under-attack")
    expect(page.locator("pre.bytes mark.fault")).to_have_text('"on-fire"')
    assert serious(page) == []
    assert too_wide_in(page) == []

    redrive(page, BAD.replace("on-fire", "fire"))
    refused = page.get_by_role("alert")
    expect(refused).to_contain_text("Not sent: unknown-state")
    expect(refused).to_be_in_viewport()
    back = page.locator("a[data-back]")  # to the list as it was left
    assert back.evaluate("link => link.search") == f"?q={prefix}"
    faults.clear()  # the browser's own word of the status 422
    redrive(page, BAD.replace("on-fire", "under-attack"))
    expect(page.locator(".message.success")).to_contain_text("Redriven: partition")
    expect(page.locator(".console-head")).to_contain_text("Redriven, edited")

    page.get_by_role("link", name="fetch it").click()
    expect(page.locator(".record-raw")).to_contain_text("under-attack")
    expect(page.locator(".record-facts").last).to_contain_text("redrive-of")
    page.goto(f"{product.url}/s/attack/?q={prefix}")
    expect(row(live(page), asset).locator(".col-state")).to_contain_text("Under attack")


def test_who_is_no_admin_sees_no_dead_letters(open_as: Open, faults: list[str]) -> None:
    page = open_as("operator", "/dead-letters/")
    expect(page.get_by_role("alert")).to_contain_text("this needs admin")
    expect(page.locator("nav.places a", has_text="Dead letters")).to_have_count(0)
    faults.clear()  # the browser's own word of the status 403
