"""Names that steer the direction of text turn nothing on the page around them."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, live, row, serious

RLO, PDI = "\u202e", "\u2069"
AGENT, STATE = f"סוכן{PDI}{RLO}1", f"מצב{PDI}{RLO}q"

TURNED = """() => {
  // The page's own words on one line that do not run from left to right.
  const turned = [], range = document.createRange();
  const names = "bdi, [dir=auto], .visually-hidden, script, pre, template, svg";
  const blocks = "p, li, dt, dd, th, td, h1, h2, h3, strong, summary, label, div";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let before = null;
  for (let node; (node = walker.nextNode()); ) {
    if (node.parentElement.closest(names) || !node.parentElement.checkVisibility()) continue;
    const block = node.parentElement.closest(blocks);
    const own = node.data.replace(/\\u2068[^\\u2069]*\\u2069/g, (name) => " ".repeat(name.length));
    for (const { index, 0: word } of own.matchAll(/[A-Za-z]{2,}/g)) {
      const [first, last] = [index, index + word.length - 1].map((at) => {
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect();
      });
      if (!first.width || Math.abs(first.top - last.top) > 2) continue;
      const follows = before && before.block === block && Math.abs(before.top - first.top) < 2;
      if (last.left < first.left || (follows && first.left < before.left)) turned.push(word);
      before = { block, top: first.top, left: first.left };
    }
  }
  return turned;
}"""


def looked_at(page: Page) -> None:
    """All runs from left to right, and would not if the names were not kept to themselves."""
    assert page.evaluate(TURNED) == []
    assert serious(page) == []
    page.eval_on_selector_all(
        "bdi", "all => all.forEach(one => one.replaceWith(...one.childNodes))"
    )
    assert page.evaluate(TURNED) != []


@pytest.mark.extensive(guard="tests/web/core/test_direction.py::test_the_board")
def test_names_from_right_to_left_turn_nothing_around_them(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}אתר{RLO}gnp{PDI}{RLO}x"
    page = live(open_as("operator", f"/s/orders/?q={prefix}"))
    send("orders", asset, AGENT, STATE)
    line = row(page, asset)
    expect(line.locator(".asset")).to_have_css("unicode-bidi", "isolate")
    expect(line.locator("bdi.word")).to_have_text(STATE)
    expect(line.locator(".vote")).to_have_attribute(
        "title", re.compile("^\u2068[^\u202e]*\u2069: ")
    )
    expect(line.locator(".col-cause")).to_have_text(
        re.compile("^reported by \u2068[^\u202e]*\u2069$")
    )
    drawn = line.inner_html()
    page.reload()
    plain = open_as("operator", f"/s/orders/?q={prefix}", java_script_enabled=False)
    for attribute in ("title", "dir"):
        value = plain.locator(".asset").get_attribute(attribute)
        assert value is not None
        assert f'{attribute}="{value}"' in drawn
    live(page)
    line.locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(asset)
    assert page.evaluate(TURNED) == []
    page.goto(page.url.split("?")[0] + f"a/{quote(asset, safe='')}/")
    live(page)
    record = page.locator(".record-link").first.get_attribute("href")
    looked_at(page)
    page.goto(f"{page.url.split('/s/')[0]}{record}")
    expect(page.locator(".record")).to_contain_text("Appended")
    looked_at(page)
