"""A simulated fleet of tills, whose invoices go to `pos`: `python -m agents.demo.tills`."""

from __future__ import annotations

import argparse
import heapq
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Literal

import msgspec
import structlog

from agents.demo.incidents import spread
from agents.process import paced, rate_between, stop_on_signals
from agents.reporter import wall_clock
from bus.base import BusError, Delivered, Producer, QueueFull, TopicSpec
from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.pulse import Pulse
from config.settings import Settings
from wire.topics import Topics

log = structlog.get_logger("agents.demo.tills")

STORES = tuple(f"store-{number}" for number in range(1, 9))
CUSTOMERS = 120
PRODUCTS = 40
# Cents.
DELIVERY_PRICE = 490
# Invoices are numbered by the ms from then, the start of 2026, to their creation. No number occurs
# twice, however often the fleet starts and at whatever rate.
FIRST_MS = 1_767_225_600_000
# One invoice in this many is sent again, at most this much later.
RESENT_ONE_IN = 100
RESENT_WITHIN_MS = 60_000
PRIME_SHARE, DELIVERED_SHARE, CONSENT_SHARE = 0.5, 0.3, 0.1
# One invoice in this many is a return, of a sale at most this many sales ago.
RETURNED_ONE_IN = 30
RETURNED_WITHIN = 600
# How long an invoice waits for Kafka before it is given up, s.
PATIENCE_S = 3_600

FIRST_NAMES = ("Ada", "Bruno", "Clara", "Deniz", "Emil", "Fatima", "Greta", "Hugo", "Ines", "Jonas")
LAST_NAMES = ("Adler", "Brandt", "Çelik", "Dietz", "Ebert", "Fuchs", "Götz", "Haas", "Ilić", "Jung")
STREETS = ("Mill Lane", "Station Road", "Orchard Way", "Harbour Street", "Linden Avenue")
CITIES = (("10115", "Berlin"), ("20095", "Hamburg"), ("50667", "Köln"), ("80331", "München"))
GOODS = ("Coffee", "Tea", "Bread", "Cheese", "Apples", "Soap", "Rice", "Olive oil")
SIZES = ("small", "medium", "large", "family", "refill")


class Address(msgspec.Struct, frozen=True):
    """A customer's address."""

    street: str
    city: str
    postcode: str


class Customer(msgspec.Struct, frozen=True):
    """A customer, who has one card."""

    customer: str
    card: str
    name: str
    phone: str
    customer_type: Literal["PRIME", "NON-PRIME"]
    address: Address
    email: str
    email_consent: bool


class ReceiptLine(msgspec.Struct, frozen=True):
    """One product of an invoice. quantity: negative in a return; price: of one piece, cents."""

    product: str
    title: str
    quantity: int
    price: int


class Invoice(msgspec.Struct, frozen=True):
    """An invoice sent by a till, for a sale or a return.

    at: Unix ms; amount: cents, negative in a return; email_consent: whether the customer wants
    emails about points.
    """

    invoice: str
    kind: Literal["sale", "return"]
    store: str
    customer: str
    card: str
    name: str
    phone: str
    email: str
    email_consent: bool
    customer_type: str
    delivery: Literal["HOME-DELIVERY", "TAKE-AWAY"]
    address: Address
    at: int
    amount: int
    lines: tuple[ReceiptLine, ...]


def customer(seed: int, number: int) -> Customer:
    """Return one of the chain's customers."""
    random = Random(f"{seed}/customers/{number}")
    postcode, city = random.choice(CITIES)
    return Customer(
        customer=f"customer-{number:04}",
        card=f"6104 0000 0000 {number:04}",
        name=f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}",
        phone=f"+493023125{number:03}",
        customer_type="PRIME" if random.random() < PRIME_SHARE else "NON-PRIME",
        address=Address(f"{random.choice(STREETS)} {random.randint(1, 99)}", city, postcode),
        email=f"customer-{number:04}@demo.invalid",
        email_consent=random.random() < CONSENT_SHARE,
    )


def line(product: int, quantity: int) -> ReceiptLine:
    """Return the invoice line for `quantity` pieces of a product."""
    title = f"{GOODS[product % len(GOODS)]}, {SIZES[product // len(GOODS) % len(SIZES)]}"
    return ReceiptLine(
        f"product-{product}", title, quantity, 49 + 10 * spread("price", product, over=60)
    )


def prices() -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of the price records, in cents.

    There is one for each product; one for the next product, whose price is not settled; and one for
    the price of a delivery, which is not a product.
    """
    for product in range(1, PRODUCTS + 1):
        sold = line(product, 1)
        yield sold.product.encode(), msgspec.json.encode({"price": sold.price})
    yield f"product-{PRODUCTS + 1}".encode(), b"{}"
    yield b"delivery", msgspec.json.encode({"price": DELIVERY_PRICE})


class Fleet:
    """The sales and returns of all stores, one per `gap_ms`, always the same for a seed and a
    time."""

    def __init__(self, seed: int, gap_ms: int) -> None:
        self._seed, self._gap_ms = seed, gap_ms

    def run(self, start: int) -> Iterator[tuple[int, Invoice]]:
        """Yield (time, invoice) endlessly from `start` (Unix ms) on, with increasing times.

        Some invoices are repeated unchanged up to a minute later.
        """
        again: list[tuple[int, str, Invoice]] = []
        at = start - start % self._gap_ms + self._gap_ms
        while True:
            while again and again[0][0] <= at:
                due, _, sale = heapq.heappop(again)
                yield due, sale
            sale = self.refund(at) if self._takes_back(at) else self.sale(at)
            yield at, sale
            if spread(self._seed, "again", at, over=RESENT_ONE_IN) == 0:
                due = at + 1 + spread(self._seed, "delay", at, over=RESENT_WITHIN_MS)
                heapq.heappush(again, (due, sale.invoice, sale))
            at += self._gap_ms

    def sale(self, at: int) -> Invoice:
        """Return the invoice of a sale at a time (Unix ms)."""
        random = Random(f"{self._seed}/sales/{at}")
        who = customer(self._seed, 1 + random.randrange(CUSTOMERS))
        chosen = random.sample(range(1, PRODUCTS + 1), random.randint(1, 5))
        lines = tuple(line(product, random.randint(1, 4)) for product in chosen)
        return Invoice(
            invoice=number(at),
            kind="sale",
            store=random.choice(STORES),
            customer=who.customer,
            card=who.card,
            name=who.name,
            phone=who.phone,
            email=who.email,
            email_consent=who.email_consent,
            customer_type=who.customer_type,
            delivery="HOME-DELIVERY" if random.random() < DELIVERED_SHARE else "TAKE-AWAY",
            address=who.address,
            at=at,
            amount=sum(each.quantity * each.price for each in lines),
            lines=lines,
        )

    def refund(self, at: int) -> Invoice:
        """Return the invoice of a return at a time (Unix ms).

        Some lines of an earlier sale are taken back, at any store.
        """
        random = Random(f"{self._seed}/returns/{at}")
        sold_at = at - self._gap_ms * random.randint(1, RETURNED_WITHIN)
        while self._takes_back(sold_at):
            sold_at -= self._gap_ms
        sale = self.sale(sold_at)
        back = random.sample(sale.lines, random.randint(1, len(sale.lines)))
        lines = tuple(msgspec.structs.replace(each, quantity=-each.quantity) for each in back)
        return msgspec.structs.replace(
            sale,
            invoice=number(at),
            kind="return",
            store=random.choice(STORES),
            delivery="TAKE-AWAY",
            at=at,
            amount=sum(each.quantity * each.price for each in lines),
            lines=lines,
        )

    def _takes_back(self, at: int) -> bool:
        return spread(self._seed, "return", at, over=RETURNED_ONE_IN) == 0


def number(at: int) -> str:
    """Return the number of an invoice created at a time (Unix ms)."""
    return f"inv-{at - FIRST_MS:07}"


class Sender:
    """Sends invoices to a topic, keyed by store, and counts what Kafka has confirmed and
    refused."""

    def __init__(self, producer: Producer, topic: str, stop: threading.Event) -> None:
        self._producer, self._topic, self._stop = producer, topic, stop
        self.confirmed = self.refused = 0

    def send(self, invoice: Invoice) -> None:
        """Send an invoice. Waits while the producer accepts none, unless the fleet is stopping."""
        key, value = invoice.store.encode(), msgspec.json.encode(invoice)
        while True:
            try:
                self._producer.send(self._topic, key, value, on_delivery=self._delivered)
            except QueueFull:
                if self._stop.is_set():
                    self.refused += 1
                    return
                self._producer.poll(0.1)
            else:
                self._producer.poll()
                return

    def _delivered(self, outcome: Delivered | BusError) -> None:
        if isinstance(outcome, Delivered):
            self.confirmed += 1
            return
        self.refused += 1
        if self.refused % 1000 == 1:
            log.warning("invoice lost", why=str(outcome), lost=self.refused)


def sell(
    fleet: Fleet,
    sender: Sender,
    clock: Callable[[], int],
    stop: threading.Event,
    beat: Callable[[], None] = lambda: None,
) -> None:
    """Send each invoice at its time, until `stop`. beat: called after each one."""
    for _, invoice in paced(fleet.run, clock, stop):
        sender.send(invoice)
        beat()


def run(settings: Settings, arguments: argparse.Namespace, stop: threading.Event) -> None:
    """Sell until `stop`, then wait briefly for invoices in flight."""
    bus, topics = KafkaBus(settings.kafka_options()), Topics(settings.topic_prefix)
    specs = [TopicSpec(*topics.invoices()), TopicSpec(*topics.price_list())]
    bus.ensure_topics(specs, replication=settings.replication)
    producer = bus.producer(message_timeout_s=PATIENCE_S)
    for key, value in prices():
        producer.send(topics.prices, key, value)
    sender = Sender(producer, topics.pos, stop)
    fleet = Fleet(arguments.seed, max(1, int(1000 / arguments.rate)))
    log.info("selling", seed=arguments.seed, rate=arguments.rate)
    sell(fleet, sender, wall_clock, stop, Pulse(settings.data_dir, "tills").beat)
    left = producer.flush(2)
    log.info("stopping", confirmed=sender.confirmed, refused=sender.refused, unconfirmed=left)
    producer.close(0)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("agents.demo.tills", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="who buys what (default 1)")
    parser.add_argument(
        "--rate", type=rate_between(0.1, 1000), default=2.0, help="invoices per second in all"
    )
    return parser.parse_args(arguments)


def main() -> None:
    """Sell until SIGTERM."""
    arguments, settings = parse(), enter()
    configure_logs(settings.log_level, "tills")
    run(settings, arguments, stop_on_signals())


if __name__ == "__main__":
    main()
