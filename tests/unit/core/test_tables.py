"""Tables of pages: their heads, their common cells, and the links to the other pages of a list."""

from __future__ import annotations

import re

import pytest
from django.core.paginator import Paginator
from django.template import Context, Template

from dashboard.core.common.tables import Column, PagePosition, Pager, Table

FRAME = "{% load board %}{% table columns label='Sites' %}<tr><td>a</td></tr>{% endtable %}"


def rendered(text: str, **context: object) -> str:
    return " ".join(Template(text).render(Context(context)).split())


def heads(table: Table) -> list[str]:
    return re.findall(r"<th .*?</th>", rendered(FRAME, columns=table))


def test_a_head_says_how_its_column_sorts_and_what_it_means() -> None:
    hint = '"late" & <lost>'
    table = Table("sites", "Site", Column.number("Too late", hint), Column("Why"))
    page = rendered(FRAME, columns=table)
    assert '<table class="data" data-sorts="sites">' in page
    assert '<div class="table-box" tabindex="0" role="region" aria-label="Sites">' in page
    site, late, why = heads(table)
    assert 'data-sort="text" data-name="site"' in site
    assert 'class="num" data-sort="number" data-name="too late"' in late
    assert 'title="&quot;late&quot; &amp; &lt;lost&gt;"' in late
    assert "data-sort" not in why


def test_a_table_without_a_name_does_not_sort_in_the_browser() -> None:
    table = Table("", "Site", Column.unseen("Revoke"), narrow=True)
    page = rendered(FRAME, columns=table)
    assert "data-sort" not in page
    assert 'class="table-box narrow"' in page
    assert '<span class="visually-hidden">Revoke</span>' in page


def test_heads_link_to_other_orders_and_the_present_one_to_its_reverse() -> None:
    table = Table("", "Site", Column.number("Size"), Column("Fate")).with_choice("Choose all")
    choice, site, size, status = heads(table.ordered("-size", "?sort={}".format))
    assert 'aria-label="Choose all"' in choice
    assert 'href="?sort=site"' in site
    assert 'aria-sort="descending"' in size
    assert 'href="?sort=size"' in size
    assert "href" not in status
    _, site, size, _ = heads(table.ordered("site", "?sort={}".format))
    assert 'aria-sort="ascending"' in site
    assert 'href="?sort=-site"' in site
    assert 'href="?sort=-size"' in size


@pytest.mark.parametrize(
    ("tag", "cell"),
    [
        ("{% number_cell 12345 %}", '<td class="num" data-value="12345">12,345</td>'),
        ("{% number_cell 0 %}", '<td class="num" data-value="0">0</td>'),
        ("{% number_cell nothing %}", '<td class="num" data-value="">–</td>'),
        ("{% number_cell 1.5 '1.5 s' %}", '<td class="num" data-value="1.5">1.5 s</td>'),
        ("{% moment_cell None 0 %}", '<td data-value=""><span class="none">–</span></td>'),
        ("{{ nothing|or_none:hostile }}", '<span class="none">&lt;b&gt;</span>'),
        ("{{ hostile|or_none }}", "&lt;b&gt;"),
        ("{% list_section 'notes' 'Notes' %} {% endlist_section %}", ""),
    ],
)  # fmt: skip
def test_cells(tag: str, cell: str) -> None:
    assert rendered("{% load board %}" + tag, hostile="<b>") == cell


def test_a_name_is_text_in_its_link() -> None:
    cell = rendered("{% load board %}{% name_cell url name %}", url='/s/"x', name="<b>\u202e")
    assert "<b>" not in cell
    assert 'href="/s/&quot;x"' in cell
    assert "<bdi>&lt;b&gt;" in cell


def test_a_pager_leads_to_the_first_page_and_the_next() -> None:
    assert not Pager.by_key("q=a", "after", None, None)
    links = Pager.by_key("q=a", "after", 7, "1.2.3").links
    assert links == {"First page": "?q=a", "Next page": "?q=a&after=1.2.3"}
    assert Pager.by_key("", "before", 0, 5, ("The newest", "Older")).links["Older"] == "?before=5"


def test_a_pager_of_numbered_pages_says_where_it_is() -> None:
    pages = Paginator(range(5), 2)
    pager = Pager.numbered(pages.page(2), "?page={}".format)
    assert pager.links == {"Previous page": "?page=1", "Next page": "?page=3"}
    assert pager.position == "Page 2 of 3"
    assert not Pager.numbered(Paginator(range(2), 2).page(1), "?page={}".format)


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.-2.3", "1.2." + "9" * 20])
def test_what_is_no_place_is_none(text: str) -> None:
    assert PagePosition.parse(text) is None
    assert PagePosition.parse(str(PagePosition(1, 2, 3))) == PagePosition(1, 2, 3)
