"""Adds lines of invoices, and points, from Kafka to the sums, and sends notices about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Model

from bus.base import Bus, ConsumerRecord, TopicPartition
from dashboard.core.common.sql import execute_many, lock_until_commit
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.core.states import models
from dashboard.core.states.ingestion import TopicReader
from dashboard.core.states.models import advance_offsets
from dashboard.core.states.queries import listed
from dashboard.notify.notifications.channels import MailKind, is_address
from dashboard.notify.notifications.outbox import (
    DELIVERED,
    MessageDraft,
    Recipient,
    put,
    targets_of_named,
)
from dashboard.retail.models import KEPT_MS, CountedRecord, PointsHour, ProductDay, StoreHour
from wire.invoice import EarnedPoints, InvoiceLine, UnreadableInvoice, decode_line, decode_points
from wire.product import Milestone, UnreadableMilestone, decode_milestone
from wire.topics import Topics

# ---- invoices ------------------------------------------------------------------------------------
# Lines of invoices, and points, added to the sums: each record once, however often it arrives.

log = structlog.get_logger(__name__)

MOST_STORES, MOST_PRODUCTS = 500, 2_000
"""The most stores in an hour, and products in a day; further ones are summed up without a name."""
OUT_OF_TIME = "out of time"
"""Name of the count of records that were sold too long ago, or in the future."""
AHEAD_MS = 5 * MINUTE_MS
"""How far in the future a sale may be; one beyond that was recorded by a wrong clock."""
STORE_HOURS, PRODUCT_DAYS, POINTS_HOURS = (
    model._meta.db_table  # noqa: SLF001 - Django's documented API
    for model in (StoreHour, ProductDay, PointsHour)
)
_ADD_HOUR = f"""\
INSERT INTO {STORE_HOURS}
  (begin, store, invoices, lines, revenue, prime, delivered, returns, returned)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (begin, store) DO UPDATE SET
  invoices = {STORE_HOURS}.invoices + excluded.invoices,
  lines = {STORE_HOURS}.lines + excluded.lines,
  revenue = {STORE_HOURS}.revenue + excluded.revenue,
  prime = {STORE_HOURS}.prime + excluded.prime,
  delivered = {STORE_HOURS}.delivered + excluded.delivered,
  returns = {STORE_HOURS}.returns + excluded.returns,
  returned = {STORE_HOURS}.returned + excluded.returned"""  # noqa: S608 - our own names
_ADD_PRODUCT = f"""\
INSERT INTO {PRODUCT_DAYS} (begin, product, title, pieces, revenue) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (begin, product) DO UPDATE SET
  title = excluded.title,
  pieces = {PRODUCT_DAYS}.pieces + excluded.pieces,
  revenue = {PRODUCT_DAYS}.revenue + excluded.revenue"""  # noqa: S608 - our own names
_ADD_POINTS = f"""\
INSERT INTO {POINTS_HOURS} (begin, points) VALUES (%s, %s)
ON CONFLICT (begin) DO UPDATE SET
  points = {POINTS_HOURS}.points + excluded.points"""  # noqa: S608 - our own names


class SalesKey(NamedTuple):
    """A key of sums: the start of an hour or a day (Unix ms), and a store or a product."""

    begin: int
    name: str


class Sale(NamedTuple):
    """What a store sold in an hour; the fields are columns of `StoreHour`."""

    invoices: int = 0
    lines: int = 0
    revenue: int = 0
    prime: int = 0
    delivered: int = 0
    returns: int = 0
    returned: int = 0

    def plus(self, line: InvoiceLine) -> Sale:
        """Return the sums including a line."""
        return Sale(
            self.invoices + line.first,
            self.lines + 1,
            self.revenue + line.amount,
            self.prime + (line.first and line.prime),
            self.delivered + (line.first and line.delivered),
            self.returns + (line.first and line.returned),
            self.returned - (min(0, line.amount) if line.returned else 0),
        )


class InvoiceBatch(NamedTuple):
    """The content of messages by key; records with the same key are one. counted: how often each
    event happened, by name and topic; offsets: the next offset of each partition."""

    lines: dict[str, InvoiceLine]
    points: dict[str, EarnedPoints]
    counted: Counter[tuple[str, str]]
    offsets: dict[TopicPartition, int]


def ingest_invoices(messages: Iterable[ConsumerRecord], topics: Topics, now: int) -> None:
    """Add new records to the sums, put notices of points into the outbox, and store the offsets.

    All of this is one transaction. now: Unix ms.
    """
    batch = read(messages, topics, now)
    with transaction.atomic():
        for topic, partition in sorted(batch.offsets):
            lock_until_commit(topic, str(partition))
        fresh = _mark_counted({**batch.lines, **batch.points})
        lines = [line for key, line in batch.lines.items() if key in fresh]
        points = [each for key, each in batch.points.items() if key in fresh]
        _add_sales(lines)
        _add_products(lines)
        _add_points(points)
        put_notices(points, now)
        models.add_counts(batch.counted)
        advance_offsets(batch.offsets)


def read(messages: Iterable[ConsumerRecord], topics: Topics, now: int) -> InvoiceBatch:
    """Return the content of messages. Records that cannot be read, or that are not of a time that
    is kept, are counted and skipped."""
    batch = InvoiceBatch({}, {}, Counter(), {})
    for message in messages:
        batch.offsets[message.topic, message.partition] = message.offset + 1
        try:
            record = _record(message, topics)
        except UnreadableInvoice as error:
            batch.counted["unreadable", message.topic] += 1
            log.warning("invoice cannot be read", topic=message.topic, offset=message.offset,
                        partition=message.partition, error=str(error)[:500])  # fmt: skip
            continue
        if not now - KEPT_MS < record.at <= now + AHEAD_MS:
            batch.counted[OUT_OF_TIME, message.topic] += 1
        elif isinstance(record, InvoiceLine):
            batch.lines[f"{record.invoice}/{record.line}"] = record
        else:
            batch.points[f"{record.invoice}/points"] = record
    return batch


def _record(message: ConsumerRecord, topics: Topics) -> InvoiceLine | EarnedPoints:
    if message.topic == topics.invoice_lines:
        return decode_line(message.value)
    return decode_points(message.value)


def _mark_counted(records: Mapping[str, InvoiceLine | EarnedPoints]) -> set[str]:
    """Mark records as counted in the sums, and return the keys of those that were not before."""
    rows = CountedRecord.objects.filter(key__in=listed(records.keys()))
    fresh = records.keys() - set(rows.values_list("key", flat=True))
    CountedRecord.objects.bulk_create(
        [CountedRecord(key=key, at=records[key].at) for key in sorted(fresh)]
    )
    return fresh


def _add_sales(lines: Iterable[InvoiceLine]) -> None:
    """Add lines to the stores' sums by the hour."""
    hours: defaultdict[SalesKey, Sale] = defaultdict(Sale)
    for line in lines:
        key = SalesKey(line.at - line.at % HOUR_MS, line.store)
        hours[key] = hours[key].plus(line)
    keys = _bounded(sorted(hours), _names(StoreHour, "store", hours), MOST_STORES)
    execute_many(_ADD_HOUR, [(*keys[key], *sale) for key, sale in sorted(hours.items())])


def _add_products(lines: Iterable[InvoiceLine]) -> None:
    """Add lines to the products' sums by the day."""
    pieces: Counter[SalesKey] = Counter()
    revenue: Counter[SalesKey] = Counter()
    titles: dict[SalesKey, str] = {}
    for line in lines:
        key = SalesKey(line.at - line.at % DAY_MS, line.product)
        pieces[key] += line.quantity
        revenue[key] += line.amount
        titles[key] = line.title
    keys = _bounded(sorted(pieces), _names(ProductDay, "product", pieces), MOST_PRODUCTS)
    rows = [
        (*keys[key], titles[key] if keys[key].name else "", pieces[key], revenue[key])
        for key in sorted(pieces)
    ]
    execute_many(_ADD_PRODUCT, rows)


def _names(model: type[Model], column: str, keys: Iterable[SalesKey]) -> set[SalesKey]:
    """Return the keys in the database for the times of these keys."""
    rows = model._default_manager.filter(  # noqa: SLF001 - Django's documented API
        begin__in={key.begin for key in keys}
    )
    return {SalesKey(*row) for row in rows.values_list("begin", column)}


def _bounded(keys: Iterable[SalesKey], known: set[SalesKey], most: int) -> dict[SalesKey, SalesKey]:
    """Return the key under which each is added up: without a name if its time has `most` names."""
    number = Counter(key.begin for key in known)
    places: dict[SalesKey, SalesKey] = {}
    for key in keys:
        if key not in known:
            number[key.begin] += 1
        beyond = key not in known and number[key.begin] > most
        places[key] = SalesKey(key.begin, "") if beyond else key
    return places


def _add_points(points: Iterable[EarnedPoints]) -> None:
    hours: Counter[int] = Counter()
    for each in points:
        hours[each.at - each.at % HOUR_MS] += each.earned
    execute_many(_ADD_POINTS, sorted(hours.items()))


# ---- reader --------------------------------------------------------------------------------------
# The thread that reads lines of invoices and points from Kafka into the database.


class InvoiceReader(TopicReader):
    """Reads the topics of invoice lines and of points."""

    def __init__(self, bus: Bus, topics: Topics, clock: Callable[[], int]) -> None:
        """clock: returns Unix ms."""
        read = [topics.invoice_lines, topics.loyalty]
        super().__init__(
            bus, "invoices", read, lambda messages: ingest_invoices(messages, topics, clock())
        )


# ---- notices -------------------------------------------------------------------------------------
# Notices about points earned and taken back: into the outbox, from which the worker sends them.

KIND = "points"
LATE_MS = DAY_MS
"""Points older than this are not announced: a log that is read again contains them again."""
LATE = "points of long ago"
"""The name under which points without a notice are counted, among the results of messages."""
WHY = "points earned or taken back, by TALLYBOARD_POINTS_CHANNEL"
WHY_OWN = "points earned or taken back, to the customer's own address, by consent"


def put_notices(points: Iterable[EarnedPoints], now: int) -> None:
    """Put a notice of each into the outbox, in the caller's transaction. now: Unix ms.

    Nothing is sent if no channel is configured, or none with that name exists. A notice goes to the
    customer's own address if the record has one, which requires consent, otherwise to the channel.
    The channel's own limit applies: messages beyond it wait, or are merged into one.
    """
    earned = [each for each in points if each.earned]
    targets = targets_of_named(settings.TALLYBOARD.points_target)
    if not targets or not earned:
        return
    timely = [each for each in earned if now - each.at < LATE_MS]
    models.add_counts({(DELIVERED, LATE): len(earned) - len(timely)})
    for each in timely:
        own = own_target(each)
        for number, target in enumerate(targets if own is None else [own]):
            drafted = draft(each, WHY if own is None else WHY_OWN)
            put(target, drafted, now, dedupe=f"{KIND}:{each.invoice}:{number}")


def own_target(points: EarnedPoints) -> Recipient | None:
    """Return the customer's own address, None if the record has no valid one."""
    return Recipient(MailKind.name, points.email) if is_address(points.email) else None


def draft(points: EarnedPoints, why: str) -> MessageDraft:
    """Return the message to a customer: short enough for an SMS, with only the end of the card."""
    card, number = points.card[-4:], abs(points.earned)
    counted = f"{number:,} {'point' if number == 1 else 'points'}"
    what = f"You have earned {counted} with invoice {points.invoice}."
    subject = f"{counted} earned"
    if points.earned < 0:
        were = "was" if number == 1 else "were"
        what = f"{counted} {were} taken back for your return, invoice {points.invoice}."
        subject = f"{counted} taken back"
    text = f"{what} Your card ending in {card} now has {points.total:,}."
    payload = {
        "kind": KIND,
        "invoice": points.invoice,
        "customer": points.customer,
        "earned": points.earned,
        "total": points.total,
    }
    return MessageDraft(KIND, subject, text, payload=payload, why=why)


# ---- milestones ----------------------------------------------------------------------------------
# A mail when the views of a product pass a number: exactly once, despite crashes and replays.

MILESTONE_KIND = "views"
MILESTONE_WHY = "views of a product, by TALLYBOARD_VIEWS_CHANNEL"


class MilestoneReader(TopicReader):
    """Reads which products' views have passed a number, and announces it."""

    def __init__(self, bus: Bus, topics: Topics, clock: Callable[[], int]) -> None:
        """clock: returns Unix ms."""
        topic = topics.product_milestones
        super().__init__(bus, "milestones", [topic], lambda messages: announce(messages, clock()))


def announce(messages: Iterable[ConsumerRecord], now: int) -> None:
    """Put a message for each milestone into the outbox, and store the offsets, in one transaction.

    A milestone is not announced twice. Nothing is sent if no channel is configured, or none with
    that name exists. now: Unix ms.
    """
    offsets: dict[tuple[str, int], int] = {}
    for message in messages:
        place = message.topic, message.partition
        offsets[place] = max(message.offset + 1, offsets.get(place, 0))
    with transaction.atomic():
        for topic, partition in sorted(offsets):
            lock_until_commit(topic, str(partition))
        for milestone in _milestones(messages):
            _put(milestone, now)
        advance_offsets(offsets)


def _milestones(messages: Iterable[ConsumerRecord]) -> Iterator[Milestone]:
    """Yield the milestones in messages; those that cannot be read are counted and skipped."""
    unreadable: Counter[tuple[str, str]] = Counter()
    for message in messages:
        try:
            yield decode_milestone(message.value)
        except UnreadableMilestone as error:
            unreadable["unreadable", message.topic] += 1
            log.warning("milestone cannot be read", offset=message.offset, error=str(error)[:500])
    models.add_counts(unreadable)


def _put(milestone: Milestone, now: int) -> None:
    name = f"{MILESTONE_KIND}:{milestone.product}/{milestone.count}"
    for number, target in enumerate(targets_of_named(settings.TALLYBOARD.views_target)):
        put(target, milestone_draft(milestone), now, dedupe=f"{name}:{number}")


def milestone_draft(milestone: Milestone) -> MessageDraft:
    """Return the message about a milestone."""
    text = f"{milestone.product} was viewed for the {milestone.count:,}th time."
    payload = {
        "kind": MILESTONE_KIND,
        "product": milestone.product,
        "count": milestone.count,
        "at": milestone.at,
    }
    subject = f"{milestone.product}: {milestone.count:,} views"
    return MessageDraft(MILESTONE_KIND, subject, text, payload=payload, why=MILESTONE_WHY)
