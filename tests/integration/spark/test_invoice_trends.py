"""Sums of the archive by Spark SQL, held against a plain count of the fleet's invoices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from agents.demo.tills import Fleet, Invoice
from config.settings import Settings
from pipelines.invoice_archive import PIPELINE
from streaming.invoice_trends import NoInvoices, files_since, first_day, trends
from streaming.pipelines.table_writer import TableWriter, day_of
from support.run.stack import ROOT

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

DAY_MS = 86_400_000


def sales(now: int) -> list[Invoice]:
    """Invoices of today and of four days ago, with some that came again."""
    fleet = Fleet(seed=5, gap_ms=500)
    return [
        invoice
        for start in (now - 4 * DAY_MS, now - now % DAY_MS)
        for _, invoice in islice(fleet.run(start), 300)
    ]


def write(spark: SparkSession, folder: Path, invoices: list[Invoice], now: int) -> None:
    rows = [
        {"invoice": each.invoice, "store": each.store,
         "customer_type": written(each, each.customer_type),
         "delivery": written(each, each.delivery),
         "at": each.at, "day": day_of(each.at), "line": number,
         "product": line.product, "title": line.title, "quantity": line.quantity,
         "amount": line.quantity * line.price}
        for each in {one.invoice: one for one in invoices}.values()
        for number, line in enumerate(each.lines, 1)
    ]  # fmt: skip
    assert PIPELINE.table is not None
    writer = TableWriter(str(folder), PIPELINE.table, lambda: now, tasks=2)
    for begin in range(0, len(rows), 500):
        writer.write(spark.createDataFrame(pa.Table.from_pylist(rows[begin : begin + 500])), 0)


def written(invoice: Invoice, word: str) -> str:
    """A word as the till of the store writes it: of one in small letters."""
    return word.lower() if invoice.store == "store-1" else word


def manage(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "TALLYBOARD_DATA_DIR": str(data),
        "TALLYBOARD_INVOICES_URL": str(data / "of invoices"),
    }
    return subprocess.run(
        [sys.executable, "manage.py", "invoice-trends", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_sums_are_those_of_the_invoices(spark: SparkSession, tmp_path: Path) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    sold = sales(now)
    write(spark, tmp_path / "of invoices", sold, now)
    url = str(tmp_path / "of invoices")
    sums = trends(spark, url, files_since(url, first_day(5, datetime.now(UTC))))
    check(sums, sold)
    today = trends(spark, url, files_since(url, day_of(now)))
    assert [row["day"] for row in today["days"]] == [day_of(now)]


def check(sums: dict[str, Any], sold: list[Invoice]) -> None:
    """The sums are those of a plain count, in which an invoice that came again counts once."""
    once = {each.invoice: each for each in sold}.values()
    assert len(once) < len(sold)
    assert counted(sums["days"], "day") == by(once, lambda one: day_of(one.at))
    assert counted(sums["stores"], "store") == by(once, lambda one: one.store)
    products: Counter[str] = Counter()
    for each in once:
        for line in each.lines:
            products[line.product] += line.quantity * line.price
    best = [(row["product"], row["revenue"]) for row in sums["products"]]
    assert best == sorted(products.items(), key=lambda one: (-one[1], one[0]))[:10]
    prime = sum(each.customer_type == "PRIME" for each in once) / len(once)
    assert sums["total"]["prime_share"] == pytest.approx(prime, abs=0.0001)
    purchases = [each for each in once if each.kind == "sale"]
    assert 0 < len(purchases) < len(once)
    delivered = sum(each.delivery == "HOME-DELIVERY" for each in purchases) / len(purchases)
    assert sums["total"]["delivered_share"] == pytest.approx(delivered, abs=0.0001)


def test_an_archive_without_invoices_is_named(spark: SparkSession, tmp_path: Path) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    url = str(tmp_path / "of invoices")
    with pytest.raises(NoInvoices, match=r"There is no archive at .* invoice-archive"):
        files_since(url, day_of(now))
    write(spark, tmp_path / "of invoices", sales(now)[:5], now)
    with pytest.raises(NoInvoices, match="has no invoice of"):
        files_since(url, day_of(now))


@pytest.mark.extensive(
    guard="tests/integration/spark/test_invoice_trends.py::test_the_sums_are_those_of_the_invoices"
)
def test_the_command_prints_the_sums(spark: SparkSession, tmp_path: Path) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    sold = sales(now)
    write(spark, tmp_path / "of invoices", sold, now)
    done = manage(tmp_path, "--days", "5", "--json")
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), sold)
    today = manage(tmp_path, "--days", "1")
    assert today.returncode == 0, today.stderr
    lines = today.stdout.splitlines()
    assert lines[0].split() == ["day", "invoices", "lines", "revenue", "PRIME", "delivered"]
    assert lines[1].startswith(day_of(now))
    assert lines[2].split()[0] == "all"


def counted(rows: list[dict[str, Any]], name: str) -> dict[str, tuple[int, int]]:
    return {row[name]: (row["invoices"], row["revenue"]) for row in rows}


def by(invoices: Any, name: Any) -> dict[str, tuple[int, int]]:
    number: Counter[str] = Counter(name(each) for each in invoices)
    revenue: Counter[str] = Counter()
    for each in invoices:
        revenue[name(each)] += each.amount
    return {each: (number[each], revenue[each]) for each in number}


@pytest.mark.extensive(
    guard="tests/integration/spark/test_invoice_trends.py::"
    "test_an_archive_without_invoices_is_named"
)
def test_the_command_says_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    done = manage(tmp_path)
    assert done.returncode == 1
    assert "There is no archive at" in done.stderr
    assert "invoice-archive" in done.stderr
    assert manage(tmp_path, "--days", "0").stderr.strip().endswith("expected 1 to 3,650, got 0")
    now = int(datetime.now(UTC).timestamp() * 1000)
    write(spark, tmp_path / "of invoices", sales(now)[:5], now)
    assert "has no invoice of" in manage(tmp_path, "--days", "2").stderr


def test_the_archive_is_in_the_data_directory_unless_it_is_named(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).invoices_table == str(tmp_path / "invoices")
    named = Settings(invoices_url="s3://lake/invoices")
    assert named.invoices_table == "s3://lake/invoices"
