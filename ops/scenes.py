"""The pictures in README and docs/tour.md: their pages, and what is done on these first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

LOOKED_UP = "scenario=attack&asset=shop.example"
# Time limit for a query, ms: it starts its own Spark and reads the log beside all other processes.
QUERY_MS = 180_000


@dataclass(frozen=True)
class Picture:
    """A page to take a picture of. size: of the window; theme: chosen on the page, or the system's.

    prepare: what to do on the page first; user: who is logged in.
    """

    name: str
    path: str
    prepare: Callable[[Page], None]
    size: tuple[int, int] = (1280, 800)
    scheme: str = "light"
    theme: str = ""
    user: str = "operator"


def _summed(page: Page) -> None:
    page.locator(".tiles").first.wait_for()


def _tabled(page: Page) -> None:
    page.locator(".data tbody tr").first.wait_for()


def _opened(page: Page) -> None:
    """Open the first entry of a table."""
    page.locator(".data tbody tr a").first.click()
    page.frame_locator("iframe").get_by_role("heading").first.wait_for()


def _nothing(_page: Page) -> None:
    """Leave the page as it is."""


def _live(page: Page) -> None:
    page.locator('#live[data-state="live"]').wait_for()
    page.locator("#tbody tr").first.wait_for()


def _chosen(page: Page) -> None:
    _live(page)
    page.locator("#tbody tr .asset").first.click()
    page.locator("#panel-title").wait_for()


def _setting(page: Page) -> None:
    _chosen(page)
    page.locator("#panel .command-set > summary").click()
    page.locator("#panel .command-set button").scroll_into_view_if_needed()


def _asset_page(page: Page) -> None:
    _live(page)
    address = page.locator("#tbody tr .asset").first.get_attribute("href")
    page.goto(str(address))
    page.locator("#why").wait_for()


def _record(page: Page) -> None:
    _asset_page(page)
    page.locator(".record-link").first.click()
    page.locator("#record-dialog[open] #record > *").first.wait_for()


def _help(page: Page) -> None:
    _live(page)
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()


def _cut_off(page: Page) -> None:
    _live(page)
    page.context.set_offline(True)
    page.locator('#banner[data-kind="cut-off"]:not([hidden])').wait_for()


def _on_the_wall(page: Page) -> None:
    page.locator("#tbody tr").first.wait_for()
    page.locator("#wall-counts li").first.wait_for()


def _pinned(page: Page) -> None:
    """Pin an asset for an hour, unless one is pinned already."""
    page.locator("#overrides").wait_for()
    if not page.locator("#overrides tbody tr").count():
        page.goto("/s/attack/")
        _setting(page)
        form = page.locator("#panel .command-set form")
        form.locator("[name=state]").select_option("clear")
        form.locator("[name=reason]").fill("a load test of the customer's own")
        form.locator("[name=end]").select_option("1h")
        form.get_by_role("button").click()
        page.locator("#panel .command-following .phase-applied").wait_for()
        page.goto("/overrides/")
    page.locator("#overrides tbody tr").first.wait_for()


def _looked_up(page: Page) -> None:
    page.locator("#way").wait_for()


# A line needs two points; for a product that has just started this is the longest wait.
TWO_BATCHES_MS = 400_000


def _charted(page: Page) -> None:
    page.locator(".chart canvas").first.wait_for(timeout=TWO_BATCHES_MS)


def _refused(page: Page) -> None:
    page.locator(".letter-table tbody tr").first.wait_for()


def _letter(page: Page) -> None:
    _refused(page)
    page.locator(".letter-table tbody a", has_text="unknown-state").first.click()
    page.locator("pre.bytes mark.fault").wait_for()


def _searched(page: Page) -> None:
    _live(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("shop")
    page.locator("#palette-offers .option").first.wait_for()


def _selected(page: Page) -> None:
    _live(page)
    page.keyboard.press("j")
    page.keyboard.press(" ")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    page.locator("#selection:not([hidden])").wait_for()


def _completed(page: Page) -> None:
    _live(page)
    page.locator("#q").press_sequentially("state:")
    page.locator("[role=listbox] [role=option]:not([hidden])").first.wait_for()


def _rows(page: Page) -> None:
    page.locator("table.data tbody tr").first.wait_for()


def _labelled(page: Page) -> None:
    """Upload some labels, unless there are some already."""
    page.locator("#keys-title").wait_for()
    if page.locator("table.data tbody tr").count():
        return
    page.locator("#label-file").set_input_files(
        {"name": "labels.csv", "mimeType": "text/csv", "buffer": LABELS.encode()}
    )
    page.get_by_role("button", name="Review…").click()
    page.get_by_role("button", name="Apply").click()
    page.goto("/labels/?scenario=attack&key=customer")
    _rows(page)


LABELS = """asset,customer,tier
shop.example,Acme GmbH,gold
news.example,Daily Post,silver
mail.example,Acme GmbH,gold
bank.example,First Bank,gold
"""


def _reviewed_many(page: Page) -> None:
    page.get_by_label("Command").select_option("set")
    page.locator("#id_to").select_option("clear")
    page.get_by_label("Reason").fill("a load test of the customer's own")
    page.get_by_role("button", name="Review…").click()
    page.locator(".bulk-sum").wait_for()


def _proposed(page: Page) -> None:
    page.get_by_label("holds: clear", exact=False).first.fill("10m")
    page.get_by_role("button", name="Review the change").click()
    page.locator("tr.differs").first.wait_for()


def _tried(page: Page) -> None:
    """Try another hold, unless one was tried already."""
    page.locator("#trials").wait_for()
    links = page.locator("table.data tbody a")
    if links.count():
        links.first.click()
    else:
        page.get_by_label("Hold: Clear").fill("10m")
        page.get_by_label("Replay").select_option("1")
        page.get_by_role("button", name="Try it").click()
    page.locator('[data-key="result"]').wait_for(timeout=QUERY_MS)


def _stored(page: Page) -> None:
    page.get_by_label("Scenario", exact=True).select_option("attack")
    page.get_by_role("button", name="Read it").click()
    page.locator('[data-key="result"]').wait_for(timeout=QUERY_MS)


def _planned(page: Page) -> None:
    page.get_by_label("Scenario", exact=True).select_option("attack")
    page.get_by_role("button", name="Review").click()
    page.locator("#plan").wait_for()


def _opened_pipeline(page: Page) -> None:
    """Open the graph of the pipeline that counts points, once it runs."""
    pipeline = page.locator("#query-pipeline-loyalty")
    pipeline.locator("summary", has_text="Graph").click()
    pipeline.scroll_into_view_if_needed()
    pipeline.evaluate("section => section.scrollIntoView()")


def _located(page: Page) -> None:
    """Ask where the first order on the board is."""
    _live(page)
    name = page.locator("#tbody tr").first.get_attribute("data-asset")
    page.goto(f"/orders/where/?order={name}")
    page.locator("table.data").first.wait_for()


def _challenged(page: Page) -> None:
    """Guess passwords like a program would, and open the resulting client."""
    browser = page.context.browser
    assert browser
    guesser = browser.new_context(base_url=page.url, user_agent="a program that guesses")
    login = guesser.request.get("/account/login/").text()
    token = login.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    for number in range(GUESSES):
        guesser.request.post(
            "/account/login/",
            form={"csrfmiddlewaretoken": token, "login": "root", "password": str(number)},
            headers={"Referer": page.url},
        )
    guesser.close()
    page.locator("#tbody .asset").first.wait_for()
    _chosen(page)


GUESSES = 5

# Every picture, in the order of docs/tour.md.
PICTURES = (
    Picture("board", "/s/attack/", _live),
    Picture("panel-dark", "/s/attack/", _chosen, scheme="dark"),
    Picture("setting", "/s/attack/", _setting),
    Picture("asset", "/s/attack/", _asset_page),
    Picture("record", "/s/attack/", _record),
    Picture("help", "/s/attack/", _help),
    Picture("cut-off", "/s/attack/", _cut_off),
    Picture("contrast", "/s/attack/", _live, theme="contrast"),
    Picture("wall", "/s/attack/?wall=1", _on_the_wall, size=(1920, 1080), scheme="dark"),
    Picture("tablet", "/s/orders/", _live, size=(1024, 768)),
    Picture("phone", "/s/connectivity/", _live, size=(390, 800)),
    Picture("palette", "/s/attack/", _searched, scheme="dark"),
    Picture("filter", "/s/attack/", _completed),
    Picture("selection", "/s/attack/", _selected),
    Picture("handover", "/handover/", _nothing, size=(1280, 900)),
    Picture("labels", "/labels/?scenario=attack&key=customer", _labelled, size=(1280, 640)),
    Picture(
        "groups", "/incidents/groups/?scenario=attack", _tabled, size=(1280, 640), user="manager"
    ),
    Picture("bulk", "/bulk/?scenario=attack&q=example", _reviewed_many),
    Picture("stale", "/stale/", _nothing, size=(1280, 640)),
    Picture("events", "/events/", _rows, size=(1280, 720)),
    Picture("summary", "/summary/", _summed, size=(1280, 1000), user="manager"),
    Picture("summary-phone", "/summary/", _summed, size=(390, 844), user="manager"),
    Picture("messages", "/notifications/messages/", _tabled, size=(1280, 640)),
    Picture("mail", "/console/mail/", _opened, size=(1280, 800)),
    Picture("incidents", "/incidents/", _rows, size=(1280, 640), user="manager"),
    Picture("as-of", "/as-of/?scenario=attack", _rows, scheme="dark"),
    Picture("agents", "/agents/", _rows, size=(1440, 800)),
    Picture("overrides", "/overrides/", _pinned, size=(1280, 560)),
    Picture("partitions", f"/partitions/?{LOOKED_UP}", _looked_up, size=(1440, 900)),
    Picture("job", "/job/", _charted, size=(1440, 900), scheme="dark", user="admin"),
    Picture("dead-letters", "/dead-letters/", _refused, size=(1440, 900), user="admin"),
    Picture("letter", "/dead-letters/", _letter, size=(1280, 900), user="admin"),
    Picture("scenario", "/scenarios/attack/", _rows, size=(1440, 900), user="admin"),
    Picture("change", "/scenarios/attack/change/", _proposed, size=(1280, 900), user="admin"),
    Picture("what-if", "/what-if/?scenario=attack", _tried, size=(1440, 900), user="admin"),
    Picture("state-store", "/state-store/", _stored, size=(1440, 800), user="admin"),
    Picture("replay", "/replay/", _planned, size=(1280, 1000), user="admin"),
    Picture("users", "/users/", _rows, size=(1280, 560), user="admin"),
    Picture("audit", "/audit/", _rows, size=(1280, 720), user="admin"),
    Picture("pipelines", "/job/", _opened_pipeline, size=(1440, 900), user="admin"),
    Picture("where", "/s/orders/", _located, size=(1280, 800)),
    Picture("invoices", "/invoices/", _charted, size=(1280, 1000), user="manager"),
    Picture("tiers", "/s/customers/", _live, size=(1280, 640)),
    Picture("clients", "/s/clients/", _challenged, size=(1440, 1000)),
    Picture("counts", "/views/product-counts/", _rows, size=(1280, 640)),
    Picture("tokens", "/account/tokens/", _nothing),
    Picture("second-factor", "/account/2fa/", _nothing),
)
