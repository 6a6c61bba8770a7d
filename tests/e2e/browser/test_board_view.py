"""How the board is looked at: beside the panel, sorted, in chosen columns, on paper, as a file."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser.browser_pages import (
    Open,
    Send,
    live,
    order,
    resize,
    row,
    serious_in_both,
    too_wide_in,
)
from support.run.stack import wait_until

LONGEST = """asset => {
  const tr = document.querySelector(`#tbody tr[data-asset="${asset}"]`);
  tr.querySelector(".col-since time").textContent = "59 m 59 s";
  tr.querySelector(".col-pending").innerHTML = tr.querySelector(".col-state .state").outerHTML;
  const cells = [...tr.querySelectorAll(".col-since, .col-votes, .col-pending")];
  const tooNarrow = cells.filter((cell) => cell.scrollWidth > cell.clientWidth);
  return [tooNarrow.map((cell) => cell.className), tr.querySelector(".col-asset").clientWidth];
}"""
"""Columns of a row that are narrower than the longest that they may say, and how wide its name's
is."""
ASKED = """text => {
  const form = document.getElementById("filters");
  form.elements.q.value = text;
  form.requestSubmit();
  return [document.getElementById("shown").textContent,
          document.getElementById("table-box").classList.contains("asking"),
          [...document.querySelectorAll("#tbody .asset, #tbody .state")].every((each) =>
            getComputedStyle(each).textDecorationLine === "none" &&
            getComputedStyle(each).filter === "none")];
}"""
"""Asks for a filter; what the page says of its rows before any answer can have come."""


@pytest.fixture
def sites(send: Send, prefix: str) -> list[str]:
    """Three sites, of which the last one's name comes first in the alphabet."""
    names = [f"{prefix}c.example", f"{prefix}b.example", f"{prefix}a.example"]
    for name, state, agents in zip(
        names, ("clear", "suspicious", "under-attack"), (3, 2, 5), strict=True
    ):
        for agent in range(agents):
            send("attack", name, f"{prefix}{agent}", state)
    return names


def board(open_as: Open, prefix: str, rest: str = "", n: int = 3, user: str = "operator") -> Page:
    page = live(open_as(user, f"/s/attack/?q={prefix}{rest}"))
    wait_until(lambda: len(order(page)) == n, 45, "the sites")
    return page


def in_window(locator: Locator) -> bool:
    """Return whether all of it is in the window's part that nothing scrolls."""
    place, page = locator.bounding_box(), locator.page.viewport_size
    assert place
    assert page
    return place["y"] >= 0 and place["y"] + place["height"] <= page["height"]


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_commands.py::test_operator_sets_a_state_and_releases_it"
)
@pytest.mark.parametrize("size", [(1280, 720), (390, 700)])
def test_the_panel_scrolls_alone_and_its_forms_fit(
    open_as: Open, prefix: str, sites: list[str], size: tuple[int, int]
) -> None:
    page = board(open_as, prefix)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    row(page, sites[0]).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(sites[0])
    page.locator("#panel .to-commands").click()
    expect(page.locator("#panel-commands summary:visible").first).to_be_focused()
    for kind in ("set", "purge"):
        form = page.locator(f"#panel .command-{kind}")
        form.locator("summary").click()
        assert in_window(form.get_by_role("button"))
        form.locator("summary").click()
    page.locator(".command-purge summary").click()
    page.locator(".command-purge").get_by_role("button").click()
    sure = page.get_by_role("button", name="Yes, purge it")
    expect(sure).to_be_visible()
    assert in_window(sure)
    page.locator("#panel-body").evaluate("body => body.scrollTo(0, body.scrollHeight)")
    for kept in ("#panel-title", "#panel-state"):
        assert in_window(page.locator(kept))
    assert page.evaluate("scrollY") == 0
    assert serious_in_both(page) == []


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_board_view.py::test_columns_are_chosen_and_stay_so"
)
def test_columns_have_what_they_need_beside_the_panel(
    open_as: Open, prefix: str, sites: list[str]
) -> None:
    page = board(open_as, prefix)
    row(page, sites[2]).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(sites[2])
    for width in (1240, 1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        cut, name = page.evaluate(LONGEST, sites[2])
        assert cut == [], f"{width} px"
        assert 150 <= name <= width / 4, f"{width} px"


@pytest.mark.extensive(guard="tests/e2e/browser/test_calm.py::test_whole_page_by_keyboard_alone")
def test_going_back_closes_the_panel_and_nothing_else(
    open_as: Open, prefix: str, sites: list[str]
) -> None:
    page = board(open_as, prefix)
    panel = page.locator("#panel")
    row(page, sites[0]).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(sites[0])
    row(page, sites[1]).locator(".asset").click()  # in its place: no further step
    expect(page.locator("#panel-title")).to_have_text(sites[1])
    page.locator("#q").fill(f"{prefix} since:<1h")
    expect(page).to_have_url(re.compile("since"))
    page.go_back()
    expect(panel).to_be_hidden()
    assert "since" in page.url
    assert "asset=" not in page.url
    expect(page.locator("#q")).to_have_value(f"{prefix} since:<1h")
    page.go_forward()
    expect(page.locator("#panel-title")).to_have_text(sites[1])
    page.locator("#panel-close").click()
    expect(panel).to_be_hidden()
    row(page, sites[0]).locator(".asset").click()  # while the step back is under way, maybe
    expect(page.locator("#panel-title")).to_have_text(sites[0])
    expect(page).to_have_url(re.compile("asset="))
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page).not_to_have_url(re.compile("asset="))


@pytest.mark.extensive(
    guard="tests/web/board/test_board_view.py::test_a_page_is_sorted_as_its_address_says"
)
def test_a_page_is_sorted_calmly_as_the_server_sorts_it(
    open_as: Open, send: Send, prefix: str, sites: list[str]
) -> None:
    page = board(open_as, prefix)
    for sort in page.locator("#sort option").evaluate_all("all => all.map(one => one.value)"):
        page.locator("#view-menu").evaluate("menu => { menu.open = true; }")
        page.locator("#sort").select_option(sort)
        plain = page.request.get(page.url).text()
        assert order(page) == re.findall(r'<tr role="row"[^>]*data-asset="([^"]*)"', plain), sort
    page.keyboard.press("Escape")
    page.locator("#view-menu").evaluate("menu => { menu.open = false; }")
    head = page.locator(".sort[data-sort=asset]")
    page.locator("#sort").evaluate(
        "sort => { sort.value = ''; sort.dispatchEvent(new Event('change')); }"
    )
    head.focus()
    page.keyboard.press("Enter")
    expect(page.locator("thead .col-asset")).to_have_attribute("aria-sort", "ascending")
    assert order(page) == sites[::-1]
    row(page, sites[0]).hover()
    send("attack", f"{prefix}aa.example", f"{prefix}1", "clear")
    expect(page.locator("#waiting-n")).to_have_text("1 new")
    assert order(page) == sites[::-1]
    page.keyboard.press("u")
    assert order(page) == [sites[2], f"{prefix}aa.example", *sites[1::-1]]
    assert serious_in_both(page) == []


def test_columns_are_chosen_and_stay_so(open_as: Open, prefix: str, sites: list[str]) -> None:
    page = board(open_as, prefix)
    page.locator("#view-menu summary").click()
    page.locator("#columns").get_by_label("Votes").uncheck()
    assert serious_in_both(page) == []
    page.reload()
    expect(row(live(page), sites[0])).to_be_visible()
    expect(page.locator(".col-votes").first).to_be_hidden()
    heads, cells = ("#rows thead th", f'#tbody tr[data-asset="{sites[0]}"] > *')
    assert places(page, heads) == places(page, cells)
    assert too_wide_in(page) == []
    resize(page, 1440)
    page.locator("#view-menu summary").click()
    page.locator("#columns").get_by_label("Votes").check()
    expect(page.locator("thead .col-votes")).to_be_visible()


def places(page: Page, selector: str) -> list[float]:
    """Return where the elements that are shown begin, px from the left."""
    left_edges: list[float] = page.eval_on_selector_all(
        selector,
        "all => all.filter(one => one.offsetWidth).map(one => one.getBoundingClientRect().left)",
    )
    return left_edges


@pytest.mark.extensive(
    guard="tests/web/board/test_live_socket.py::test_a_snapshot_says_which_filter_it_answers"
)
def test_rows_of_another_filter_never_stand_under_a_new_one(
    open_as: Open, prefix: str, sites: list[str]
) -> None:
    page = board(open_as, prefix)
    words, marked, as_they_were = page.evaluate(ASKED, f"{prefix} state:suspicious")
    assert re.fullmatch(r"3 of [\d,]+ sites · filtering…", words)
    assert (marked, as_they_were) == (True, True)
    expect(page.locator("#tbody tr")).to_have_count(1)
    expect(page.locator("#shown")).to_have_text(re.compile("^1 of"))
    expect(page.locator("#table-box")).not_to_have_class(re.compile("asking"))
    page.locator("#q").fill(f"{prefix} state:")
    expect(page.locator("#problem")).to_be_visible()
    expect(page.locator("#shown")).to_have_text(re.compile("^3 of .* · filter not applied$"))
    expect(page.locator("#table-box")).to_have_class(re.compile("asking"))
    assert serious_in_both(page) == []
    page.locator("#q").fill(f'{prefix} state:"Under attack"')
    expect(row(page, sites[2])).to_be_visible()
    expect(page.locator("#shown")).to_have_text(re.compile("^1 of"))


@pytest.mark.extensive(
    guard="tests/web/board/test_board_view.py::test_the_file_has_all_that_the_filter_finds"
)
def test_the_file_has_what_the_filter_in_the_box_finds(
    open_as: Open, prefix: str, sites: list[str]
) -> None:
    page = board(open_as, prefix)
    page.locator("#q").fill(f'{prefix} state:"Under attack"')
    expect(page.locator("#tbody tr")).to_have_count(1)
    with page.expect_download() as download:
        page.locator("#csv").click()
    lines = download.value.path().read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["asset", sites[2]]


PRINTED = """() => {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  const shown = (selector) => getComputedStyle(document.querySelector(selector)).display;
  return {
    title: document.getElementById("printed").innerText,
    head: shown("#rows thead"),
    row: shown("#tbody tr"),
    gap: box("#tbody tr").top - box("#rows thead").bottom,
    below: box("#rows thead").top - box("#printed").bottom,
    chrome: shown(".top") + shown("#head"),
  };
}"""


@pytest.mark.extensive(guard="tests/e2e/browser/test_summary.py::test_a_week_is_one_sheet_of_paper")
def test_paper_has_title_date_heads_and_the_first_row(
    open_as: Open, prefix: str, sites: list[str]
) -> None:
    page = board(open_as, prefix)
    row(page, sites[0]).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(sites[0])
    page.evaluate("scrollTo(0, 200)")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    sheet: dict[str, Any] = page.evaluate(PRINTED)
    assert re.match(rf"Attacks\s+{prefix} · 3 of .*\d{{4}}-\d\d-\d\d", sheet["title"], re.DOTALL)
    assert (sheet["head"], sheet["row"]) == ("table-header-group", "table-row")  # on each sheet
    assert sheet["gap"] >= 0
    assert sheet["below"] >= 0
    assert sheet["chrome"] == "nonenone"
    expect(page.locator("#panel")).to_be_hidden()
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_board_view.py::test_columns_are_chosen_and_stay_so"
)
def test_heads_stay_while_rows_scroll(open_as: Open) -> None:
    page = live(open_as("operator", "/s/attack/"))
    page.set_viewport_size({"width": 1280, "height": 400})
    wait_until(lambda: len(order(page)) > 15, 45, "more rows than the window holds")
    page.evaluate("scrollTo(0, 300)")
    head, filters = (page.locator(name).bounding_box() for name in ("#rows thead", "#head"))
    assert head
    assert filters
    assert abs(head["y"] - (filters["y"] + filters["height"])) < 1.5
    page.keyboard.press("j")
    page.keyboard.press("j")
    focused = page.locator("#tbody tr:focus-within").bounding_box()
    assert focused
    assert focused["y"] >= head["y"] + head["height"] - 1
