"""Invoices of tills: home deliveries become shipments, PRIME customers' points go out by customer.

A return is an invoice too: it takes points back, and nothing is delivered.
"""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import AT_ONCE, Pipeline, Sink, Source, Trigger

# An invoice as sent by a till, keyed by store. at: Unix ms; amount, price: euro cents; kind: sale
# or return. Without `delivery` it is taken away, without `customer_type` it earns nothing, and
# without `email_consent` nobody is notified by email.
INVOICE = """
invoice string not null, store string not null, customer string not null, card string not null,
name string, phone string, email string, email_consent boolean, customer_type string,
delivery string, kind string,
address struct<street: string, city: string, postcode: string>,
at long not null, amount int not null,
lines array<struct<product: string, title: string, quantity: int, price: long>>
"""

# The chain's stores with their cities and regions.
STORES = (
    ("store-1", "Berlin", "east"),
    ("store-2", "Leipzig", "east"),
    ("store-3", "Hamburg", "north"),
    ("store-4", "Bremen", "north"),
    ("store-5", "München", "south"),
    ("store-6", "Nürnberg", "south"),
    ("store-7", "Köln", "west"),
    ("store-8", "Essen", "west"),
)
STORE = "store string, city string, region string"

PRIME, HOME_DELIVERY, SALE, RETURN = "PRIME", "HOME-DELIVERY", "sale", "return"
# A longer or malformed address is ignored; its points still count.
MAIL, LONGEST_MAIL = r"^[^@\s\x00]+@[^@\s\x00]+$", 254
SHIPMENTS, POINTS = "shipments", "loyalty-by-customer"
MONTH_MS = 30 * 86_400_000


def invoices(pos: DataFrame, loyalty_rate: Decimal) -> DataFrame:
    """Return shipments of home deliveries, and points of PRIME customers.

    Points are rounded down, and negative for a return. loyalty_rate: points per cent. Columns:
    topic, key, value (JSON), id (the invoice) and customer. If a till sends an invoice again, the
    same records result.
    """
    stores = pos.sparkSession.createDataFrame(STORES, STORE)
    sales = pos.select("value.*").join(sql.broadcast(stores), "store", "left")
    records = sql.array_compact(sql.array(_shipment(), _points(loyalty_rate)))
    return sales.select("customer", sql.explode(records).alias("record")).select(
        "customer", "record.*"
    )


def _shipment() -> Column:
    value = sql.struct(
        "invoice", "store", "city", "region", "customer", "name", "phone", "address", "at"
    )
    delivered = same(sql.col("delivery"), HOME_DELIVERY) & ~is_return()
    return sql.when(delivered, record(SHIPMENTS, sql.col("invoice"), value))


def _points(rate: Decimal) -> Column:
    """Return the record of an invoice's points.

    A return takes back what its sale earned: both are rounded towards zero.
    """
    amount, none = sql.col("amount"), sql.lit(0)
    back = sql.when(is_unsigned(), -sql.abs(amount)).otherwise(sql.least(amount, none))
    amount = sql.when(is_return(), back).otherwise(amount)
    share = sql.floor(sql.abs(amount) * sql.lit(rate)).cast("int")
    earned = sql.when(amount < 0, -share).otherwise(share).alias("earned")
    value = sql.struct("card", "customer", "invoice", earned, _email(), "at")
    prime = same(sql.col("customer_type"), PRIME)
    return sql.when(prime, record(POINTS, sql.col("card"), value))


def _email() -> Column:
    """Return the email address for notices of points, or null without consent."""
    email = sql.trim("email")
    usable = email.rlike(MAIL) & (sql.length(email) <= LONGEST_MAIL)
    return sql.when(sql.col("email_consent") & usable, email).alias("email")


def same(text: Column, word: str) -> Column:
    """Return whether a text equals this word, ignoring case; false for null."""
    return sql.coalesce(sql.lower(sql.trim(text)) == word.lower(), sql.lit(False))


def is_return() -> Column:
    """Return whether an invoice takes goods back: it says so, or its amount is negative."""
    return (sql.col("amount") < 0) | same(sql.col("kind"), RETURN)


def is_unsigned() -> Column:
    """Return whether no line is negative: a return written like this takes all of them back."""
    negative = sql.exists("lines", lambda line: line["quantity"] * line["price"] < 0)
    return ~sql.coalesce(negative, sql.lit(False))


def record(topic: str, key: Column, value: Column) -> Column:
    """Return a record for a topic, with the column `invoice` as its id."""
    return sql.struct(
        sql.lit(topic).alias("topic"),
        key.alias("key"),
        sql.to_json(value).alias("value"),
        sql.col("invoice").alias("id"),
    )


def by_customer(rows: DataFrame) -> Column:
    """Return a number for each customer: the CRC-32 of its name."""
    return sql.crc32(rows["customer"])


PIPELINE = Pipeline(
    name="invoices",
    title="Shipments, and points by customer",
    # A till with a wrong clock loses no invoice.
    sources={"pos": Source("pos", schema=INVOICE, invalid_time="wall-clock")},
    sinks=(
        Sink(SHIPMENTS, compacted=True, emit=AT_ONCE),
        Sink(
            POINTS,
            partitions=3,
            keep_ms=MONTH_MS,
            partitioner=by_customer,
        ),
    ),
    transform=invoices,
    trigger=Trigger(every_ms=2_000),
    parameters=("loyalty_rate",),
)
