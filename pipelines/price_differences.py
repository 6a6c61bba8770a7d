"""Find invoice lines sold at a price other than the list price, which may change meanwhile."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipelines.invoice_archive import LINE
from streaming.pipelines.declaration import GlobalTable, Pipeline, Sink, Source, Trigger


def price_differences(lines: DataFrame, prices: DataFrame) -> DataFrame:
    """Return the lines whose price is not the list price: key (the product), value (JSON) and id.

    A product without a list price differs too; `listed` is then null.
    """
    listed = prices.select(sql.col("key").alias("product"), sql.col("value.price").alias("listed"))
    sold = lines.select("value.*")
    # A line's key is its invoice; the table's key is the product.
    compared = sold.join(sql.broadcast(listed), "product", "left")
    value = sql.to_json(
        sql.struct("invoice", "line", "store", "product", "price", "listed", "at"),
        {"ignoreNullFields": "false"},
    )
    return compared.where(~sql.col("price").eqNullSafe(sql.col("listed"))).select(
        sql.col("product").alias("key"),
        value.alias("value"),
        sql.concat_ws("/", "invoice", "line").alias("id"),
    )


PIPELINE = Pipeline(
    name="price-differences",
    title="Lines that were not sold at the price of the list",
    sources={"lines": Source("invoice-lines", schema=LINE, dead_letters=False)},
    global_tables={"prices": GlobalTable("prices", schema="price long")},
    sinks=(Sink("price-differences"),),
    transform=price_differences,
    trigger=Trigger(every_ms=2_000, tick_ms=30_000),
)
