"""`python -m streaming.invoice_trends DAYS`: sums of the archive of invoices, as one line of JSON.

Spark SQL over the files of one commit of the table, so that what is written or put together
meanwhile is neither read twice nor missed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from config.entry import enter
from config.settings import Settings
from streaming.kernel import KernelProblem
from streaming.spark.jvm import JvmLost, end_spark
from streaming.spark.restart_policy import first_line
from streaming.spark.session import VersionProblem, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS = 2
# How far behind the job this stands when both want the processor.
NICE = 10
# Of these the figures are printed; there may be thousands.
TOP_PRODUCTS = 10
# An invoice is counted by its first line, which is below zero in a return. What is delivered is a
# share of sales, PRIME one of invoices.
FIGURES = """
count_if(line = 1) as invoices, count(*) as lines, sum(quantity) as pieces,
sum(amount) as revenue,
round(count_if(line = 1 and lower(trim(customer_type)) = 'prime') / count_if(line = 1), 4)
as prime_share,
round(
  count_if(line = 1 and lower(trim(delivery)) = 'home-delivery' and amount >= 0)
  / greatest(count_if(line = 1 and amount >= 0), 1), 4
) as delivered_share
"""
# The names are our own.
# ruff: noqa: S608
QUERIES = {
    "total": f"select {FIGURES} from lines",
    "days": f"select day, {FIGURES} from lines group by day order by day",
    "stores": f"select store, {FIGURES} from lines group by store order by revenue desc, store",
    "products": f"""
        select product, max_by(title, at) as title, sum(quantity) as pieces, sum(amount) as revenue
        from lines group by product order by revenue desc, product limit {TOP_PRODUCTS}
    """,
}  # fmt: skip


class NoInvoices(Exception):
    """There is nothing to add up, in words."""


def main() -> None:
    """Write the sums of the last days, or end with one message of what is missing."""
    settings = enter()
    os.nice(NICE)
    try:
        files = files_since(settings.invoices_table, first_day(int(sys.argv[1]), datetime.now(UTC)))
        sums = _sums(settings, files)
    except (NoInvoices, VersionProblem, KernelProblem, JvmLost) as problem:
        sys.exit(str(problem))
    except Exception as error:  # noqa: BLE001, Spark's own are long
        sys.exit(f"{type(error).__name__}: {first_line(str(error))}")
    sys.stdout.write(json.dumps(sums) + "\n")


def first_day(days: int, now: datetime) -> str:
    """Return the first of so many UTC days, of which today is the last."""
    return (now.astimezone(UTC) - timedelta(days=days - 1)).strftime("%Y-%m-%d")


def files_since(url: str, day: str) -> list[str]:
    """Return the files of the newest commit of a table, of this day and later ones.

    Raises NoInvoices where there are none, or no table.
    """
    try:
        known = DeltaTable.is_deltatable(url)
        files = DeltaTable(url).file_uris([("day", ">=", day)]) if known else []
    except (DeltaError, OSError) as error:
        raise NoInvoices(f"{url} cannot be read: {first_line(str(error))}") from None
    if not known:
        raise NoInvoices(
            f"There is no archive at {url} yet: the pipelines invoice-lines and invoice-archive "
            "make it (TALLYBOARD_PIPELINES)."
        )
    if not files:
        raise NoInvoices(f"The archive at {url} has no invoice of {day} or later.")
    return files


def _sums(settings: Settings, files: list[str]) -> dict[str, Any]:
    scratch = settings.data_dir / f"trends-{os.getpid()}"
    own = {
        "data_dir": scratch,
        "spark_master": f"local[{SLOTS}]",
        "spark_memory": settings.batch_query_memory,
        "spark_ui_port": 0,
    }
    spark = start_session(settings.model_copy(update=own), SLOTS)
    try:
        return trends(spark, settings.invoices_table, files)
    finally:
        end_spark(spark)
        shutil.rmtree(scratch, ignore_errors=True)


def trends(spark: SparkSession, url: str, files: list[str]) -> dict[str, Any]:
    """Return the sums of a table's files by day, store and product; revenue in cents."""
    places = [_for_spark(each) for each in files]
    rows = spark.read.option("basePath", _for_spark(quote(url, "/:"))).parquet(*places)
    rows.withColumn("day", rows["day"].cast("string")).createOrReplaceTempView("lines")
    sums: dict[str, Any] = {
        name: [row.asDict() for row in spark.sql(query).collect()]
        for name, query in QUERIES.items()
    }
    return {**sums, "total": sums["total"][0]}


def _for_spark(url: str) -> str:
    """Return a URL as Hadoop has it, which encodes no path and has another scheme for S3."""
    if "://" not in url:
        return f"file://{unquote(url)}"
    return url.replace("s3://", "s3a://", 1) if url.startswith("s3://") else url


if __name__ == "__main__":
    main()
