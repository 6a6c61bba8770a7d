"""Invoices, shipments and points as functions of DataFrames: without Kafka."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from agents.demo import tills
from agents.demo.tills import Fleet
from config.settings import Settings
from domain.records import Report
from pipelines import invoices as invoicing
from pipelines.invoices import POINTS, SHIPMENTS, STORES, by_customer, invoices
from pipelines.loyalty import CUSTOMERS, LOYALTY, TABLE, loyalty
from streaming.pipelines.declaration import DeclarationError, Pipeline, Sink, Source
from streaming.pipelines.query import _rows
from streaming.pipelines.records import Decoded, decode
from wire.source import decode_source, encode_report

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
RAW = """key binary, value binary, topic string, partition int, offset long, timestamp timestamp,
timestampType int, headers array<struct<key: string, value: binary>>"""
RATE = Settings(_env_file=None).loyalty_rate  # type: ignore[call-arg]


def sale(**changes: Any) -> dict[str, Any]:
    """An invoice as a till sends it."""
    whole: dict[str, Any] = msgspec.to_builtins(Fleet(1, 500).sale(NOON_MS))
    return {**whole, "customer_type": "PRIME", "delivery": "HOME-DELIVERY", **changes}


def kafka(spark: SparkSession, *values: bytes | None) -> DataFrame:
    """Records of `t.pos`, as Spark's source reads them."""
    place: tuple[Any, ...] = (0, [])
    rows = [(b"store-1", value, "t.pos", 0, at, NOON, *place) for at, value in enumerate(values)]
    return spark.createDataFrame(rows, RAW)


def decoded(spark: SparkSession, *sales: dict[str, Any]) -> Decoded:
    values = [json.dumps(each).encode() for each in sales]
    source = invoicing.PIPELINE.sources["pos"]
    return decode(kafka(spark, *values), "pos", source, ["t.pos"], "t.")


def records(rows: list[Row], topic: str) -> list[tuple[str, dict[str, Any], str]]:
    """Key, value and id of the rows for a topic."""
    mine = [row for row in rows if row["topic"] == topic]
    return [(row["key"], json.loads(row["value"]), row["id"]) for row in mine]


# ---- shipments and points -----------------------------------------------------------------------


def test_a_home_delivery_is_a_shipment_with_the_place_of_its_store(spark: SparkSession) -> None:
    delivered, strange = sale(store="store-3"), sale(invoice="inv-2", store="store-99")
    taken = sale(invoice="inv-3", delivery="TAKE-AWAY")
    result = invoices(decoded(spark, delivered, strange, taken).rows, RATE)
    shipments = {id_: (key, value) for key, value, id_ in records(result.collect(), SHIPMENTS)}
    assert shipments.keys() == {delivered["invoice"], "inv-2"}
    key, value = shipments[delivered["invoice"]]
    assert (key, value["city"], value["region"]) == (delivered["invoice"], "Hamburg", "north")
    copied = ("invoice", "store", "customer", "name", "phone", "address", "at")
    assert all(value[name] == delivered[name] for name in copied)
    assert shipments["inv-2"][1].keys().isdisjoint({"city", "region"})


def test_each_executor_holds_the_table_of_stores(spark: SparkSession) -> None:
    result = invoices(decoded(spark, sale()).rows, RATE)
    plan = result._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan
    assert [name for name, *_ in STORES] == list(tills.STORES)


EARNED = {
    "0.02": {0: 0, 49: 0, 50: 1, 12_345: 246, -75: -1, -12_345: -246},
    "0.29": {100: 29},
    "0.000001": {2**31 - 1: 2_147},
    "1": {700: 700},
    "0": {700: 0},
}
"""By rate and amount."""
EXTREMES = ("0.000001", "1", "0")


@pytest.mark.parametrize(
    "rate",
    ["0.02", "0.29", *(pytest.param(each, marks=pytest.mark.extensive) for each in EXTREMES)],
)
def test_points_are_the_share_of_the_amount_rounded_down(spark: SparkSession, rate: str) -> None:
    prime = [sale(invoice=f"inv-{amount}", amount=amount) for amount in EARNED[rate]]
    other = sale(invoice="inv-other", customer_type="NON-PRIME")
    result = invoices(decoded(spark, *prime, other).rows, Decimal(rate))
    points = {id_: (key, value) for key, value, id_ in records(result.collect(), POINTS)}
    names = ("card", "customer", "invoice", "at")
    assert points == {
        each["invoice"]: (
            each["card"],
            {name: each[name] for name in names} | {"earned": EARNED[rate][each["amount"]]},
        )
        for each in prime
    }


EXCHANGE = [
    {"product": f"product-{quantity}", "quantity": quantity, "price": 500} for quantity in (-1, 2)
]

RETURNS: list[tuple[dict[str, Any], int, bool]] = [
    ({"kind": "return", "amount": -500}, -10, False),
    ({"kind": "Return", "amount": 500}, -10, False),
    ({"kind": "return", "amount": 500, "lines": EXCHANGE}, 0, False),
    ({"kind": "return", "amount": 500, "lines": None}, -10, False),
    ({"kind": None, "amount": -500}, -10, False),
    ({"kind": "sale", "amount": -500}, -10, False),
    ({"kind": None, "amount": 500}, 10, True),
    ({"kind": "exchange", "amount": 500}, 10, True),
]
"""What differs from a sale, the points earned, and whether it is shipped."""


def test_a_return_is_not_shipped_and_never_earns(spark: SparkSession) -> None:
    sales = [sale(invoice=f"inv-{at}", **changes) for at, (changes, *_) in enumerate(RETURNS)]
    rows = invoices(decoded(spark, *sales).rows, RATE).collect()
    shipped = {id_ for _, _, id_ in records(rows, SHIPMENTS)}
    earned = {id_: value["earned"] for _, value, id_ in records(rows, POINTS)}
    assert shipped == {f"inv-{at}" for at, (*_, goes) in enumerate(RETURNS) if goes}
    assert earned == {f"inv-{at}": points for at, (_, points, _) in enumerate(RETURNS)}


def test_type_and_delivery_count_alike_in_any_capitals(spark: SparkSession) -> None:
    types = ("prime", "Prime", "PRIME ")
    alike = [sale(invoice=each, customer_type=each, delivery="Home-Delivery") for each in types]
    rows = invoices(decoded(spark, *alike).rows, RATE).collect()
    assert sorted((row["topic"], row["id"]) for row in rows) == sorted(
        (topic, each) for topic in (POINTS, SHIPMENTS) for each in types
    )


ADDRESSES: list[tuple[str | None, bool | None, str | None]] = [
    ("ada@example.net", True, "ada@example.net"),
    (" ada@example.net ", True, "ada@example.net"),
    ("ada@example.net", False, None),
    ("ada@example.net", None, None),
    (None, True, None),
    ("ada", True, None),
    ("a@b\r\nBcc: c@d", True, None),
    (f"{'a' * 250}@b.de", True, None),
]
"""An address, the consent to it, and what goes on."""


def test_an_address_goes_on_with_points_by_consent_alone(spark: SparkSession) -> None:
    sales = [
        sale(invoice=f"inv-{at}", email=email, email_consent=consent)
        for at, (email, consent, _) in enumerate(ADDRESSES)
    ]
    rows = invoices(decoded(spark, *sales).rows, RATE).collect()
    passed = {id_: value.get("email") for _, value, id_ in records(rows, POINTS)}
    assert passed == {f"inv-{at}": email for at, (*_, email) in enumerate(ADDRESSES)}
    shipments = [value for _, value, _ in records(rows, SHIPMENTS)]
    assert len(shipments) == len(ADDRESSES)
    assert not any("email" in shipment for shipment in shipments)


def test_an_invoice_sent_again_makes_the_same_records_again(spark: SparkSession) -> None:
    once = invoices(decoded(spark, sale()).rows, RATE)
    twice = invoices(decoded(spark, sale(), sale()).rows, RATE)
    assertDataFrameEqual(twice, once.union(once))


# ---- the schema changes -------------------------------------------------------------------------


def test_a_field_more_is_ignored(spark: SparkSession) -> None:
    rows, dead = decoded(spark, sale(coupon="SPRING", lines=[{"product": "p", "tax": 7}]))
    assert dead is not None
    assert dead.count() == 0
    assertDataFrameEqual(invoices(rows, RATE), invoices(decoded(spark, sale()).rows, RATE))


def test_an_invoice_without_a_needed_field_is_a_dead_letter(spark: SparkSession) -> None:
    fields = ("invoice", "store", "customer", "card", "at", "amount")
    lack = [{name: value for name, value in sale().items() if name != each} for each in fields]
    empty = [sale(**{each: None}) for each in fields]
    rows, dead = decoded(spark, sale(), *lack, *empty)
    assert [row["offset"] for row in rows.collect()] == [0]
    assert dead is not None
    headers = [{each["key"]: bytes(each["value"]) for each in row["headers"]}
               for row in dead.collect()]  # fmt: skip
    assert {each["source-offset"] for each in headers} == {
        str(at).encode() for at in range(1, 1 + 2 * len(fields))
    }


def test_an_invoice_without_type_and_delivery_is_taken_away_and_earns_nothing(
    spark: SparkSession,
) -> None:
    lacks = sale()
    for field in ("customer_type", "delivery", "name", "phone", "address", "lines"):
        del lacks[field]
    rows, dead = decoded(spark, lacks)
    assert dead is not None
    assert (rows.count(), dead.count(), invoices(rows, RATE).count()) == (1, 0, 0)


def test_no_value_no_object_and_too_much_are_dead_letters_and_a_wrong_clock_is_not(
    spark: SparkSession,
) -> None:
    ahead = json.dumps(sale(at=4_000_000_000_000)).encode()
    source = invoicing.PIPELINE.sources["pos"]
    vast = json.dumps(sale(amount=2**31)).encode()
    values = (None, b"[]", b"7", vast, ahead)
    rows, dead = decode(kafka(spark, *values), "pos", source, ["t.pos"], "t.")
    assert dead is not None
    assert [row["offset"] for row in rows.collect()] == [4]
    assert dead.count() == 4


# ---- a partitioner ------------------------------------------------------------------------------


def written(result: DataFrame, *sinks: Sink) -> DataFrame:
    """A result as rows of a Kafka sink."""
    pipeline = Pipeline("p", "P", {"x": Source("in")}, sinks, lambda x: x)
    return _rows(pipeline, result, "t.")


def test_a_partitioner_decides_for_its_own_sink_alone(spark: SparkSession) -> None:
    sales = [sale(invoice=f"inv-{n}", customer=f"customer-{n:04}") for n in range(30)]
    result = invoices(decoded(spark, *sales).rows, RATE)
    rows = written(
        result,
        Sink(SHIPMENTS),
        Sink(POINTS, partitions=3, partitioner=by_customer),
    )
    assert {row["partition"] for row in rows.where(f"topic = 't.{SHIPMENTS}'").collect()} == {None}
    points = rows.where(f"topic = 't.{POINTS}'").collect()
    assert {row["partition"] for row in points} == {0, 1, 2}
    for row in points:
        customer = json.loads(bytes(row["value"]))["customer"]
        assert row["partition"] == zlib.crc32(customer.encode()) % 3


def test_a_partition_is_one_of_the_topics_whatever_the_number(spark: SparkSession) -> None:
    result = spark.range(-5, 5).selectExpr("'k' as key", "'v' as value", "id", "'x' as topic")
    sink = Sink("x", partitions=3, partitioner=lambda rows: rows["id"])
    rows = written(result, sink, Sink("y")).collect()
    assert [row["partition"] for row in rows] == [number % 3 for number in range(-5, 5)]


def test_a_partitioner_of_texts_is_refused(spark: SparkSession) -> None:
    result = spark.range(1).selectExpr("'k' as key", "'v' as value", "id")
    sink = Sink("x", partitioner=lambda rows: rows["key"])
    with pytest.raises(DeclarationError, match="p: x: partitioner: expected whole numbers, got st"):
        written(result, sink)


# ---- running totals -----------------------------------------------------------------------------


@dataclass
class Earned:
    """The log of points, a batch after the other, through the stateful operator."""

    spark: SparkSession
    folder: Path

    def __post_init__(self) -> None:
        self._offsets = count()
        (self.folder / "log").mkdir()

    def run(self, *points: tuple[str, str, int], at: int = NOON_MS) -> list[Row]:
        """Give the operator a batch of (card, invoice, earned); return what it made of it."""
        rows = [
            ((card, f"customer-{card}", invoice, earned, None, at), 0, next(self._offsets),
             datetime.fromtimestamp(at / 1000, UTC))
            for card, invoice, earned in points
        ]  # fmt: skip
        schema = (
            "value struct<card: string, customer: string, invoice: string, earned: int, "
            "email: string, at: long>, partition int, offset long, timestamp timestamp"
        )
        frame = self.spark.createDataFrame(rows, schema)
        frame.coalesce(1).write.mode("append").parquet(str(self.folder / "log"))
        stream = self.spark.readStream.schema(schema).parquet(str(self.folder / "log"))
        writer = loyalty(stream).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        made: list[Row] = []
        writer = writer.foreachBatch(lambda batch, _: made.extend(batch.collect()))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        return made


@pytest.fixture
def earned(spark: SparkSession, tmp_path: Path) -> Earned:
    session = spark.newSession()
    # As in the product: where state has a time to live, a batch without rows follows for ever.
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return Earned(session, tmp_path)


def test_each_invoice_counts_once_for_its_card_in_a_batch_and_over_batches(earned: Earned) -> None:
    first = earned.run(("a", "i-1", 300), ("b", "i-2", 5), ("a", "i-1", 300), ("a", "i-3", 250))
    totals = [(key, value["total"]) for key, value, _ in records(first, LOYALTY)]
    assert sorted(totals) == [("a", 300), ("a", 550), ("b", 5)]
    second = earned.run(("b", "i-2", 5), ("a", "i-1", 300), ("a", "i-4", 0))
    [(key, value, id_)] = records(second, LOYALTY)
    assert (key, id_) == ("a", "i-4")
    assert value == {
        "card": "a", "customer": "customer-a", "invoice": "i-4", "earned": 0, "total": 550,
        "at": NOON_MS,
    }  # fmt: skip


def test_a_return_takes_points_back_and_the_total_never_falls_below_zero(earned: Earned) -> None:
    """Whatever came first: the sale of the return, or the return, which another store sent."""
    first = earned.run(("a", "i-1", 300), ("a", "r-1", -120), ("b", "r-2", -40), ("b", "r-3", -1))
    second = earned.run(("b", "i-2", 100), ("a", "r-4", -500), ("a", "r-4", -500), ("a", "i-5", 9))
    loyalty_rows = [
        (value["invoice"], value["earned"], value["total"])
        for _, value, _ in [*records(first, LOYALTY), *records(second, LOYALTY)]
    ]
    assert [each for each in loyalty_rows if each[0] in ("i-1", "r-1", "r-4", "i-5")] == [
        ("i-1", 300, 300), ("r-1", -120, 180), ("r-4", -180, 0), ("i-5", 0, 0),
    ]  # fmt: skip
    assert [each for each in loyalty_rows if each[0] in ("r-2", "r-3", "i-2")] == [
        ("r-2", 0, 0), ("r-3", 0, 0), ("i-2", 59, 59),
    ]  # fmt: skip


def test_the_table_has_each_customers_points_and_no_card(earned: Earned) -> None:
    rows = earned.run(("a", "i-1", 499), ("a", "i-2", 1), ("a", "r-1", -700))
    table = [(key, value) for key, value, _ in records(rows, TABLE)]
    assert table == [
        ("customer-a", {"customer": "customer-a", "points": points, "tier": tier, "at": NOON_MS})
        for points, tier in ((499, "bronze"), (500, "silver"), (0, "bronze"))
    ]


def test_reports_on_customers_are_as_every_reporter_makes_them(earned: Earned) -> None:
    first = earned.run(("a", "i-1", 499), ("a", "i-2", 1), ("a", "i-3", 1_499), ("a", "i-4", 1))
    second = earned.run(("a", "i-5", -1_600), at=NOON_MS - 60_000)
    rows = [*first, *second]
    reports = [(row["key"], row["value"].encode()) for row in rows if row["topic"] == CUSTOMERS]
    wanted = [
        Report("customer-a", "loyalty", state, NOON_MS + at, f'{{"points":{points}}}')
        for at, (state, points) in enumerate(
            [("bronze", 499), ("silver", 500), ("silver", 1_999), ("gold", 2_000), ("bronze", 400)]
        )
    ]
    later = NOON_MS + 60_000
    assert [decode_source(key.encode(), value, later) for key, value in reports] == wanted
    assert [value for _, value in reports] == [encode_report(report) for report in wanted]
