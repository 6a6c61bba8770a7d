"""Masked lines of invoices as functions of DataFrames, without Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pipelines import invoice_lines as masks
from pipelines.invoice_archive import LINE, invoice_archive
from pipelines.invoice_lines import invoice_lines, lines
from pipelines.invoices import INVOICE

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

NOON_MS = 1_795_435_200_000

SALE: dict[str, Any] = {
    "invoice": "inv-0000123",
    "store": "store-3",
    "customer": "customer-0042",
    "card": "6104 0000 0000 0042",
    "name": "Çiğdem Ilić",
    "phone": "+49301234567",
    "customer_type": "PRIME",
    "delivery": "HOME-DELIVERY",
    "address": {"street": "Mill Lane 7", "city": "Köln", "postcode": "50667"},
    "at": NOON_MS,
    "amount": 1297,
    "lines": [
        {"product": "product-17", "title": "Tea, small", "quantity": 2, "price": 499},
        {"product": "product-4", "title": "Soap, refill", "quantity": 1, "price": 299},
    ],
}
SECRETS = ("6104", "0000 0042", "iğdem", "Ilić", "1234567", "Mill Lane")


def sales(spark: SparkSession, *records: dict[str, Any]) -> DataFrame:
    rows = spark.createDataFrame([(json.dumps(each),) for each in records], "text string")
    return rows.select(sql.from_json("text", INVOICE).alias("value"))


def values(result: DataFrame) -> list[dict[str, Any]]:
    return [json.loads(row["value"]) for row in result.orderBy("id").collect()]


def test_each_line_is_a_record_with_its_invoice_and_no_secret(spark: SparkSession) -> None:
    result = lines(sales(spark, SALE))
    rows = result.orderBy("id").collect()
    assert [(row["key"], row["id"]) for row in rows] == [
        ("inv-0000123", "inv-0000123/1"),
        ("inv-0000123", "inv-0000123/2"),
    ]
    first, second = values(result)
    assert first == {
        "invoice": "inv-0000123", "kind": "sale", "store": "store-3", "customer": "customer-0042",
        "customer_type": "PRIME", "delivery": "HOME-DELIVERY", "at": NOON_MS, "lines": 2,
        "line": 1, "product": "product-17", "title": "Tea, small", "quantity": 2, "price": 499,
        "amount": 998, "card": "***0042", "name": "Ç***", "phone": "***67", "street": "***",
        "city": "Köln", "postcode": "50667",
    }  # fmt: skip
    assert first["amount"] + second["amount"] == SALE["amount"]
    assert not [secret for secret in SECRETS if secret in json.dumps([first, second])]


MASKED = [
    ("mask_card", "6104000000000042", "***0042"),
    ("mask_card", "6104-0000-0000-0042 ", "***0042"),
    ("mask_card", "42", "***"),
    ("mask_card", "12345678901", "***"),
    ("mask_card", "", "***"),
    ("mask_card", None, None),
    ("mask_card", "٦١٠٤ ٠٠٠٠ ٠٠٠٠ ٠٠٤٢", "***"),
    ("mask_card", "Ada Adler", "***"),
    ("mask_phone", "+49 (30) 123-4567", "***67"),
    ("mask_phone", "112", "***"),
    ("mask_phone", " ", "***"),
    ("mask_phone", None, None),
    ("mask_name", "Ada Adler", "A***"),
    ("mask_name", "  李小龙", "李***"),
    ("mask_name", "😀 Ada", "😀***"),
    ("mask_name", "Ø", "***"),
    ("mask_name", "", "***"),
    ("mask_name", None, None),
    ("mask_text", "Mill Lane 7", "***"),
    ("mask_text", "", "***"),
    ("mask_text", None, None),
]
"""A mask, a text, and what is shown of it."""


def test_a_mask_shows_no_more_than_it_may(spark: SparkSession) -> None:
    texts = spark.createDataFrame(
        [(at, text) for at, (_, text, _) in enumerate(MASKED)], "n int, text string"
    )
    masked = [
        sql.when(sql.col("n") == at, getattr(masks, mask)(sql.col("text")))
        for at, (mask, *_) in enumerate(MASKED)
    ]
    shown = texts.orderBy("n").select(sql.coalesce(*masked).alias("shown")).collect()
    assert [row["shown"] for row in shown] == [each for *_, each in MASKED]


def test_what_is_missing_in_an_address_or_a_line_stays_missing(spark: SparkSession) -> None:
    bare = {"invoice": "inv-1", "at": NOON_MS, "lines": [{"product": "product-1", "price": 5}]}
    [line] = values(lines(sales(spark, bare)))
    assert line == {
        "invoice": "inv-1", "kind": "sale", "at": NOON_MS, "lines": 1, "line": 1,
        "product": "product-1", "price": 5,
    }  # fmt: skip


TAKEN_BACK: list[tuple[str | None, int, list[tuple[int, int]], list[tuple[int, int, int]]]] = [
    ("return", -15, [(-3, 5)], [(-3, 5, -15)]),
    (None, -15, [(-3, 5)], [(-3, 5, -15)]),
    ("return", -15, [(3, -5)], [(-3, 5, -15)]),
    ("return", -15, [(-3, -5)], [(-3, 5, -15)]),
    ("RETURN", -22, [(3, 5), (1, 7)], [(-3, 5, -15), (-1, 7, -7)]),
    ("return", -8, [(-3, 5), (1, 7)], [(-3, 5, -15), (1, 7, 7)]),
]
"""Kind and amount of an invoice, quantity and price of its lines; quantity, price and amount of
what comes of them."""


def test_what_is_taken_back_has_a_negative_quantity_however_the_till_writes_it(
    spark: SparkSession,
) -> None:
    invoices = [
        SALE
        | {"invoice": f"inv-{at}", "kind": kind, "amount": amount}
        | {"lines": [{"product": "tea", "quantity": n, "price": price} for n, price in sold]}
        for at, (kind, amount, sold, _) in enumerate(TAKEN_BACK)
    ]
    rows = values(lines(sales(spark, *invoices)))
    assert {row["kind"] for row in rows} == {"return"}
    for at, (_, amount, _, taken) in enumerate(TAKEN_BACK):
        own = [row for row in rows if row["invoice"] == f"inv-{at}"]
        assert [(row["quantity"], row["price"], row["amount"]) for row in own] == taken
        assert sum(row["amount"] for row in own) == amount


def test_lines_have_no_address_of_mail(spark: SparkSession) -> None:
    sale = SALE | {"email": "ada@example.net", "email_consent": True}
    assert "ada@" not in json.dumps(values(lines(sales(spark, sale))))


def test_an_invoice_that_comes_again_in_a_later_batch_is_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    again = SALE | {"invoice": "inv-0000124"}
    for number, batch in enumerate([[SALE, SALE], [again, SALE], [SALE]]):
        frame = spark.createDataFrame(
            [(json.dumps(each), number) for each in batch], "t string, n int"
        )
        frame.coalesce(1).write.mode("append").json(str(tmp_path / "pos"))
    stream = spark.readStream.schema("t string, n int").option("maxFilesPerTrigger", 1)
    pos = stream.json(str(tmp_path / "pos")).select(sql.from_json("t", INVOICE).alias("value"))
    writer = invoice_lines(pos).writeStream.format("memory").queryName("sold")
    writer = writer.outputMode("update").option("checkpointLocation", str(tmp_path / "c"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(row["id"] for row in spark.table("sold").collect()) == [
        "inv-0000123/1", "inv-0000123/2", "inv-0000124/1", "inv-0000124/2",
    ]  # fmt: skip


def test_a_row_of_the_archive_is_the_line_and_its_day(spark: SparkSession) -> None:
    made = lines(sales(spark, SALE, SALE | {"invoice": "inv-2", "at": NOON_MS + 43_200_000}))
    value = sql.from_json("value", LINE).alias("value")
    read = made.select(value).withColumn("timestamp", sql.timestamp_millis("value.at"))
    rows = invoice_archive(read).orderBy("invoice", "line").collect()
    assert [row["day"] for row in rows] == ["2026-11-23"] * 2 + ["2026-11-24"] * 2
    plain = {name: value for name, value in rows[0].asDict().items() if name != "day"}
    assert plain == values(made)[0]
