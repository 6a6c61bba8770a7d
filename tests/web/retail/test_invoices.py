"""Invoices: records into sums, each once; the page and REST; notices of points."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError
from django.test import Client

from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import DEMO_POINTS
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.core.states.models import EventCount, SinkOffset
from dashboard.notify.notifications.delivery import DELIVERED
from dashboard.notify.notifications.models import SENT, Channel, Message
from dashboard.retail import ingestion, views
from dashboard.retail.ingestion import LATE, InvoiceReader
from dashboard.retail.models import KEPT, CountedRecord, ProductDay, StoreHour
from support.web.deliveries import deliver
from support.web.receivers import MailServer, mail_server, text_of_mail
from support.web.web_fixtures import bearer, logged_in_as, make_user
from wire.topics import Topics

pytestmark = pytest.mark.django_db

NOON_MS = 1_795_435_200_000
TOPICS = Topics("t.")


class Log:
    """The two topics in memory, and the reader of them at a time that stands still."""

    def __init__(self) -> None:
        self.now = NOON_MS
        self.bus = MemoryBus(lambda: self.now)
        self.producer = self.bus.producer()
        self.reader = self.restarted()

    def restarted(self) -> InvoiceReader:
        """A new reader, as after a kill."""
        return InvoiceReader(self.bus, TOPICS, lambda: self.now)

    def make(self, *topics: str) -> None:
        self.bus.ensure_topics([TopicSpec(topic, 2, {}) for topic in topics])
        self.reader = self.restarted()

    def sell(self, number: int, *amounts: int, **changes: Any) -> None:
        """Send the lines of an invoice."""
        for line, amount in enumerate(amounts, 1):
            record = {
                "invoice": f"inv-{number}", "store": "store-1", "at": NOON_MS - 1, "line": line,
                "lines": len(amounts), "product": f"product-{line}", "title": "Tea", "quantity": 2,
                "amount": amount, "customer_type": "PRIME", "delivery": "TAKE-AWAY",
            }  # fmt: skip
            self.send(TOPICS.invoice_lines, record | changes)

    def earn(self, number: int, earned: int = 25, **changes: Any) -> None:
        """Send the points of an invoice."""
        record = {"card": "6104 0000 0000 0042", "customer": "customer-0042", "total": 310,
                  "invoice": f"inv-{number}", "earned": earned, "at": NOON_MS - 1}  # fmt: skip
        self.send(TOPICS.loyalty, record | changes)

    def send(self, topic: str, record: Any) -> None:
        value = record if isinstance(record, bytes) else json.dumps(record).encode()
        self.producer.send_and_wait(topic, b"k", value)

    def read(self) -> None:
        """Take in all that the topics hold."""
        while self.reader.step():
            pass


@pytest.fixture
def log() -> Log:
    made = Log()
    made.make(TOPICS.invoice_lines, TOPICS.loyalty)
    return made


def sums() -> tuple[int, int, int]:
    total = views.today(NOON_MS).total
    return total.invoices, total.lines, total.revenue


# ---- sums ---------------------------------------------------------------------------------------


def test_a_record_counts_once_however_often_it_comes(log: Log):
    log.sell(1, 998, 299)
    log.sell(2, 100)
    log.read()
    assert sums() == (2, 3, 1_397)
    log.sell(1, 998, 299)
    log.sell(2, 100)
    log.sell(3, 1)
    log.read()
    assert sums() == (3, 4, 1_398)


def test_the_same_record_twice_in_one_batch_counts_once(log: Log):
    for _ in range(2):
        log.sell(1, 998, 299)
        log.earn(1)
    log.read()
    assert sums() == (1, 2, 1_297)
    assert views.today(NOON_MS).points == 25


def test_what_was_killed_in_mid_batch_goes_on_without_loss(
    log: Log, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise DatabaseError("it is gone")

    log.sell(1, 998, 299)
    with monkeypatch.context() as patch:
        patch.setattr(ingestion, "put_notices", broken)
        with pytest.raises(DatabaseError):
            log.read()
    assert sums() == (0, 0, 0)
    assert not CountedRecord.objects.exists()
    log.reader = log.restarted()
    log.read()
    assert sums() == (1, 2, 1_297)


def test_a_restart_goes_on_from_the_offsets_of_the_database(log: Log):
    log.sell(1, 5)
    log.read()
    rows = SinkOffset.objects.filter(topic=TOPICS.invoice_lines)
    before = sum(row.next_offset for row in rows)
    CountedRecord.objects.all().delete()  # what was read again would be counted again
    log.reader = log.restarted()
    log.sell(2, 5)
    log.read()
    assert sums() == (2, 2, 10)
    assert sum(row.next_offset for row in rows.all()) == before + 1


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (b"{", "unreadable"),
        (b"\xff", "unreadable"),
        ({"invoice": "inv-1"}, "unreadable"),
        ({"store": "a\0b"}, "unreadable"),
        ({"store": "x" * 61}, "unreadable"),
        ({"amount": 2**60}, "unreadable"),
        ({"quantity": 2**31}, "unreadable"),
        ({"at": NOON_MS - 2 * DAY_MS}, "out of time"),
        ({"at": NOON_MS + HOUR_MS}, "out of time"),
    ],
)
def test_what_cannot_be_counted_is_passed_over_and_noted(log: Log, record: Any, what: str):
    if isinstance(record, dict) and "invoice" not in record:
        log.sell(1, 5, **record)
    else:
        log.send(TOPICS.invoice_lines, record)
    log.sell(2, 7)
    log.read()
    assert sums() == (1, 1, 7)
    assert EventCount.objects.get(name=what, topic=TOPICS.invoice_lines).n == 1


def test_a_return_is_counted_apart_and_lowers_the_revenue(log: Log):
    log.sell(1, 998, 299, kind="sale")
    log.sell(2, -998, kind="return", quantity=-2, delivery="HOME-DELIVERY")
    log.sell(3, -100, 40, kind="Return", quantity=-1)
    log.sell(4, -7, quantity=-1)  # of before there were kinds
    log.sell(5, 0, kind="return")
    log.read()
    total = views.today(NOON_MS).total
    assert (total.invoices, total.lines, total.revenue) == (5, 7, 232)
    assert (total.returns, total.returned) == (4, 1_105)
    assert (total.delivered, total.delivered_share) == (0, 0)
    assert ProductDay.objects.get(product="product-1").pieces == 0


@pytest.mark.parametrize("type_", ["PRIME", "prime", " Prime "])
@pytest.mark.parametrize("delivery", ["HOME-DELIVERY", "home-delivery", "Home-Delivery"])
def test_type_and_delivery_count_alike_in_any_capitals(log: Log, type_: str, delivery: str):
    log.sell(1, 5, customer_type=type_, delivery=delivery)
    log.read()
    total = views.today(NOON_MS).total
    assert (total.prime, total.delivered) == (1, 1)


def test_points_that_are_taken_back_lower_todays(log: Log):
    log.earn(1, 25)
    log.earn(2, -9, total=16)
    log.read()
    assert views.today(NOON_MS).points == 16


def test_more_stores_and_products_than_are_kept_are_added_up_under_no_name(
    log: Log, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ingestion, "MOST_STORES", 2)
    monkeypatch.setattr(ingestion, "MOST_PRODUCTS", 3)
    for number in range(5):
        log.sell(number, 10, store=f"store-{number}", product=f"product-{number}")
        log.read()
    log.sell(9, 10, store="store-0", product="product-9")
    log.read()
    stores = {each.store: each.sales.invoices for each in views.today(NOON_MS).stores}
    assert stores == {"store-0": 2, "store-1": 1, "": 3}
    pieces = dict(ProductDay.objects.values_list("product", "pieces"))
    assert pieces == {"product-0": 2, "product-1": 2, "product-2": 2, "": 6}
    assert [each.product for each in views.today(NOON_MS).products] == [
        "product-0", "product-1", "product-2",
    ]  # fmt: skip


def test_topics_that_come_later_are_read_from_then_on():
    log = Log()
    assert log.reader.step() == 0
    log.make(TOPICS.invoice_lines)
    log.sell(1, 5)
    log.read()
    log.bus.ensure_topics([TopicSpec(TOPICS.loyalty, 3, {})])
    log.earn(1)
    log.reader._next_look = 0.0
    log.read()
    assert (sums(), views.today(NOON_MS).points) == ((1, 1, 5), 25)


def test_sums_are_kept_for_two_days(log: Log):
    log.sell(1, 5)
    log.earn(1)
    log.read()
    for kept in KEPT:
        assert kept.apply(NOON_MS + DAY_MS) == 0
    assert sum(kept.apply(NOON_MS + 3 * DAY_MS) for kept in KEPT) == 5
    assert not StoreHour.objects.exists()


# ---- the page, and REST -------------------------------------------------------------------------


@pytest.fixture
def today(log: Log) -> Log:
    """Sales of now: of the page, which asks the clock."""
    log.now = now_ms()
    for number, store in enumerate(("store-1", "store-2", "store-1"), 1):
        log.sell(number, 123_456, 50, at=log.now, store=store, title="Tea, <small>")
    log.sell(4, 100, at=log.now, customer_type="NON-PRIME", delivery="HOME-DELIVERY")
    log.earn(1, at=log.now)
    log.read()
    return log


@pytest.mark.parametrize("role", ["manager", "operator", "admin"])
@pytest.mark.usefixtures("today")
def test_the_page_shows_todays_sales(role: str):
    page = logged_in_as(role).get("/invoices/").content.decode()
    assert "<dt>Revenue</dt><dd>3,706.18 EUR</dd>" in page
    assert "75 %" in page
    assert "25 %" in page
    assert page.index("store-1") < page.index("store-2")
    assert "Tea, &lt;small&gt;" in page
    assert 'data-charts="/invoices/hourly/"' in page
    assert 'data-every="5"' in page


def test_without_invoices_it_says_how_to_switch_them_on():
    page = logged_in_as("operator").get("/invoices/").content.decode()
    assert "No invoice today" in page
    assert "TALLYBOARD_PIPELINES" in page


@pytest.mark.usefixtures("today")
def test_a_script_gets_the_part_that_renews_itself():
    headers = {"HX-Request": "true"}
    part = logged_in_as("manager").get("/invoices/", headers=headers).content.decode()
    assert part.lstrip().startswith('<div id="invoices"')


def test_the_charts_get_an_hour_each_of_the_last_day(today: Log):
    client = logged_in_as("manager")
    hours = client.get("/invoices/hourly/?span=day").json()
    assert [len(hours[name]) for name in ("at", "invoices", "revenue", "points")] == [24] * 4
    assert hours["at"][-1] * 1000 == today.now - today.now % HOUR_MS
    assert (hours["invoices"][-1], hours["points"][-1]) == (4, 25)
    assert (sum(hours["invoices"]), sum(hours["revenue"])) == (4, 3_706.18)
    assert client.get("/invoices/hourly/?span=year").status_code == 404


def test_the_page_and_rest_tell_returns_apart(log: Log):
    log.now = now_ms()
    log.sell(1, 123_456, at=log.now)
    log.sell(2, -23_456, at=log.now, kind="return", quantity=-1)
    log.read()
    page = logged_in_as("operator").get("/invoices/").content.decode()
    assert "<dt>Returns</dt><dd>1 <small>234.56 EUR given back</small></dd>" in page
    assert "<dt>Revenue</dt><dd>1,000.00 EUR</dd>" in page
    headers = bearer(make_user("manager"))
    total = Client().get("/api/v1/invoices/today", headers=headers).json()["total"]
    assert (total["returns"], total["returned"], total["revenue"]) == (1, 23_456, 100_000)


@pytest.mark.usefixtures("today")
def test_rest_tells_the_same():
    response = Client().get("/api/v1/invoices/today", headers=bearer(make_user("manager")))
    answer = response.json()
    assert answer["total"] == {
        "invoices": 4, "lines": 7, "revenue": 370_618, "prime": 3, "delivered": 1, "returns": 0,
        "returned": 0,
    }  # fmt: skip
    assert answer["points"] == 25
    assert [each["store"] for each in answer["stores"]] == ["store-1", "store-2"]
    assert answer["products"][0] == {
        "product": "product-1", "title": "Tea", "pieces": 8, "revenue": 370_468,
    }  # fmt: skip


# ---- notices of points --------------------------------------------------------------------------


def with_settings(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    given = settings.TALLYBOARD.model_copy(update=changes)
    monkeypatch.setattr(settings, "TALLYBOARD", given)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Channel:
    with_settings(monkeypatch, points_channel="Customers")
    return Channel.objects.create(
        name="Customers", kind="mail", address="customers@example.org", changed_at=1
    )


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as server:
        with_settings(
            monkeypatch, smtp_host="127.0.0.1", smtp_port=server.port, smtp_tls="none",
            private_targets=True, points_channel="Customers",
        )  # fmt: skip
        yield server


def test_without_a_channel_nobody_is_told(log: Log):
    log.earn(1)
    log.read()
    assert not Message.objects.exists()


def test_a_notice_goes_out_once_however_often_its_record_comes(
    log: Log, channel: Channel, mails: MailServer
):
    log.earn(1)
    log.read()
    CountedRecord.objects.all().delete()
    SinkOffset.objects.all().delete()  # as if all were read again
    log.reader = log.restarted()
    log.earn(1)
    log.read()
    deliver(lambda: NOON_MS)
    assert Message.objects.get().status == SENT
    [mail] = mails.mails
    assert mail["Subject"] == "25 points earned"
    text = text_of_mail(mail)
    assert "25 points with invoice inv-1" in text
    assert "card ending in 0042 now has 310" in text
    assert "6104" not in text
    assert mails.recipients == ["customers@example.org"]


def test_a_notice_says_what_a_return_took_back(log: Log, channel: Channel):
    log.earn(1, -1_025, total=0)
    log.earn(2, -1, total=7)
    log.read()
    first, second = Message.objects.order_by("dedupe")
    assert (first.subject, second.subject) == ("1,025 points taken back", "1 point taken back")
    assert first.text == (
        "1,025 points were taken back for your return, invoice inv-1. "
        "Your card ending in 0042 now has 0."
    )
    assert second.text.startswith("1 point was taken back")


def test_a_notice_goes_to_the_customers_own_address_and_else_to_the_channel(
    log: Log, channel: Channel, mails: MailServer
):
    log.earn(1, email="ada@example.net")
    log.earn(2)
    log.earn(3, email="no address")
    log.read()
    deliver(lambda: NOON_MS)
    own, *others = Message.objects.order_by("dedupe")
    assert (own.means, own.recipient, own.channel, own.status) == (
        "mail", "ada@example.net", None, SENT,
    )  # fmt: skip
    assert {each.recipient for each in others} == {"customers@example.org"}
    assert {each.channel for each in others} == {channel}
    assert sorted(mails.recipients) == ["ada@example.net", *["customers@example.org"] * 2]


def test_own_addresses_are_told_nothing_without_a_channel(log: Log):
    log.earn(1, email="ada@example.net")
    log.read()
    assert not Message.objects.exists()


def test_what_goes_beyond_the_channels_limit_is_told_in_one(
    log: Log, channel: Channel, mails: MailServer
):
    Channel.objects.update(most=3)
    for number in range(20):
        log.earn(number)
    log.read()
    deliver(lambda: NOON_MS)
    subjects = [mail["Subject"] for mail in mails.mails]
    assert len(subjects) == 3
    assert sum(subject.startswith("18 messages in one") for subject in subjects) == 1


def test_points_of_long_ago_and_none_are_not_told(log: Log, channel: Channel):
    log.earn(1, at=NOON_MS - DAY_MS)
    log.earn(2, earned=0)
    log.earn(3, earned=1)
    log.read()
    assert [message.subject for message in Message.objects.all()] == ["1 point earned"]
    assert EventCount.objects.get(name=DELIVERED, topic=LATE).n == 1


def test_a_channel_that_is_off_takes_no_notice(log: Log, channel: Channel):
    Channel.objects.update(enabled=False)
    log.earn(1)
    log.read()
    assert not Message.objects.exists()


def test_the_demo_has_a_channel_of_its_own_where_points_are_counted(
    monkeypatch: pytest.MonkeyPatch,
):
    call_command("demo_notifications")
    assert not Channel.objects.filter(name=DEMO_POINTS).exists()
    with_settings(monkeypatch, pipelines="invoices, loyalty")
    for _ in range(2):
        call_command("demo_notifications")
    assert Channel.objects.get(name=DEMO_POINTS).most == 10
    with_settings(monkeypatch, demo=False)
    call_command("demo_notifications")
    assert not Channel.objects.filter(enabled=True).exists()
