"""Invoices of tills: home deliveries become shipments, points of PRIME customers go by customer."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Emission, Pipeline, Sink, Source, Trigger

# An invoice as a till sends it, keyed by its store. `at`: Unix ms; `amount`, `price`: euro cents.
# One without `delivery` is taken away, one without `customer_type` earns nothing.
INVOICE = """
invoice string not null, store string not null, customer string not null, card string not null,
name string, phone string, customer_type string, delivery string,
address struct<street: string, city: string, postcode: string>,
at long not null, amount int not null,
lines array<struct<product: string, title: string, quantity: int, price: long>>
"""

# The chain's stores: their cities and regions.
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

SHIPMENTS, POINTS = "shipments", "loyalty-by-customer"
MONTH_MS = 30 * 86_400_000


def invoices(pos: DataFrame, loyalty_rate: Decimal) -> DataFrame:
    """Return shipments of home deliveries, and the points of PRIME customers, rounded down.

    loyalty_rate: points for each cent. Columns: topic, key, value (JSON), id (the invoice) and
    customer. What a till sends again makes the same records again.
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
    return sql.when(
        sql.col("delivery") == "HOME-DELIVERY", record(SHIPMENTS, sql.col("invoice"), value)
    )


def _points(rate: Decimal) -> Column:
    earned = sql.floor(sql.col("amount") * sql.lit(rate)).cast("int").alias("earned")
    value = sql.struct("card", "customer", "invoice", earned, "at")
    return sql.when(sql.col("customer_type") == "PRIME", record(POINTS, sql.col("card"), value))


def record(topic: str, key: Column, value: Column) -> Column:
    """Return a record for a topic; the column `invoice` is its id."""
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
        Sink(SHIPMENTS, compacted=True, emit=Emission(every_ms=0)),
        Sink(
            POINTS,
            partitions=3,
            keep_ms=MONTH_MS,
            emit=Emission(every_ms=0),
            partitioner=by_customer,
        ),
    ),
    transform=invoices,
    trigger=Trigger(every_ms=2_000),
    parameters=("loyalty_rate",),
)
