"""The sink of a pipeline that prints what goes out: a line for each record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import Column

# So much of a key and of a value is printed, characters.
MOST = 500


def printing(label: str, key: Column, value: Column) -> Column:
    """Return the column of values, as text, each of which is printed with its label and key."""

    def show(shown: str | None, text: str | None) -> str | None:
        print(line(label, shown, text), flush=True)
        return text

    # Not deterministic to Spark: else it may print a record twice.
    peek = sql.udf(show, "string", useArrow=False).asNondeterministic()
    return peek(key.cast("string"), value.cast("string"))


def line(label: str, key: str | None, value: str | None) -> str:
    """Return what is printed of a record: in one line, without what a terminal would act upon."""
    return f"[{label}] {_plain(key)}: {_plain(value)}"


def _plain(text: str | None) -> str:
    if text is None:
        return "null"
    short = text if len(text) <= MOST else f"{text[:MOST]}…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in short)
