"""Emit a masked record for each line of each invoice, however often the till sent it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pipelines.invoices import INVOICE, RETURN, SALE, is_return, is_unsigned
from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger

# How long an invoice is remembered after it first arrived, by the clock of the batches. Tills
# resend within a minute. A consumer that keeps lines longer has its own key: the invoice and the
# line.
KNOWN = "1 day"
HIDDEN = "***"
# Minimum number of digits in a card or phone number for its last digits to be shown.
LEAST_CARD, LEAST_PHONE = 12, 7
MASKED = ("card", "name", "phone")
PLAIN = (
    "invoice", "kind", "store", "customer", "customer_type", "delivery", "at", "lines", "line",
    "product", "title", "quantity", "price", "amount",
)  # fmt: skip


def mask_card(card: Column) -> Column:
    """Return a card's last four digits behind a mask.

    A short number shows only the mask; null stays null.
    """
    return _last_digits(card, LEAST_CARD, 4)


def mask_phone(phone: Column) -> Column:
    """Return a phone number's last two digits behind a mask."""
    return _last_digits(phone, LEAST_PHONE, 2)


def mask_name(name: Column) -> Column:
    """Return a name's first letter and a mask; for a name of one letter, only the mask."""
    text = sql.trim(name)
    first = sql.when(sql.length(text) > 1, sql.substring(text, 1, 1)).otherwise("")
    return sql.when(name.isNotNull(), sql.concat(first, sql.lit(HIDDEN)))


def mask_text(text: Column) -> Column:
    """Return a mask in place of any text; null stays null."""
    return sql.when(text.isNotNull(), sql.lit(HIDDEN))


def _last_digits(text: Column, least: int, shown: int) -> Column:
    digits = sql.regexp_replace(text, "[^0-9]", "")
    last = sql.when(sql.length(digits) >= least, sql.right(digits, sql.lit(shown))).otherwise("")
    return sql.when(text.isNotNull(), sql.concat(sql.lit(HIDDEN), last))


def once(pos: DataFrame) -> DataFrame:
    """Return each invoice of a stream once, even if its till sends it again.

    This uses the time of arrival, by which no record is ever too late: a record delayed for days is
    accepted too.
    """
    arrived = pos.withColumn("number", sql.col("value.invoice")).withColumn(
        "arrived", sql.current_timestamp()
    )
    return arrived.withWatermark("arrived", KNOWN).dropDuplicatesWithinWatermark(["number"])


def lines(pos: DataFrame) -> DataFrame:
    """Return a masked record for each line: key (the invoice), value (JSON) and id.

    Each says whether the invoice is a sale or a return. Goods taken back have a negative quantity
    and a negative amount, however the till writes them.
    """
    sold = pos.select("value.*").select("*", sql.posexplode("lines").alias("position", "sold"))
    flat = sold.select(
        "invoice", "store", "customer", "customer_type", "delivery", "at",
        sql.when(is_return(), RETURN).otherwise(SALE).alias("kind"),
        mask_card(sql.col("card")).alias("card"),
        mask_name(sql.col("name")).alias("name"),
        mask_phone(sql.col("phone")).alias("phone"),
        mask_text(sql.col("address.street")).alias("street"),
        "address.city", "address.postcode",
        sql.size("lines").alias("lines"),
        (sql.col("position") + 1).alias("line"),
        "sold.product", "sold.title", *_signed(),
    )  # fmt: skip
    value = sql.to_json(sql.struct(*PLAIN, *MASKED, "street", "city", "postcode"))
    identity = sql.concat_ws("/", "invoice", "line")
    return flat.select(sql.col("invoice").alias("key"), value.alias("value"), identity.alias("id"))


def _signed() -> tuple[Column, Column, Column]:
    """Return quantity, price and amount of a line, signed.

    For goods taken back, quantity and amount are negative.
    """
    quantity, price = sql.col("sold.quantity"), sql.col("sold.price")
    amount = quantity * price
    back = is_return() & ((amount < 0) | is_unsigned())
    return (
        sql.when(back, -sql.abs(quantity)).otherwise(quantity).alias("quantity"),
        sql.when(back, sql.abs(price)).otherwise(price).alias("price"),
        sql.when(back, -sql.abs(amount)).otherwise(amount).alias("amount"),
    )


def invoice_lines(pos: DataFrame) -> DataFrame:
    """Return the masked lines of the invoices in a stream, each invoice once."""
    return lines(once(pos))


PIPELINE = Pipeline(
    name="invoice-lines",
    title="Masked lines of invoices",
    # What does not fit becomes a dead letter of `invoices`; here it is only counted.
    sources={"pos": Source("pos", schema=INVOICE, invalid_time="wall-clock", dead_letters=False)},
    sinks=(Sink("invoice-lines", partitions=3),),
    transform=invoice_lines,
    trigger=Trigger(every_ms=2_000),
)
