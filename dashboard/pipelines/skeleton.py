"""A pipeline to begin with: it passes reports on, prints keys and values, and has its test."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")
RESERVED = frozenset(("all", "none"))


class NoSkeleton(Exception):
    """A pipeline that cannot be begun; the message says why."""


PIPELINE = Template('''\
"""$title: passes each report on, and prints its key and its value."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Pipeline, Print, Sink, Source


def $function(reports: DataFrame) -> DataFrame:
    """Return the reports as they are: key, value (JSON) and id."""
    reports = reports.where("value.type = 'report'")
    return reports.select(
        "key",
        sql.to_json("value").alias("value"),
        sql.concat_ws("/", "topic", "partition", "offset").alias("id"),
    )


PIPELINE = Pipeline(
    name="$name",
    title="$title",
    sources={
        "reports": Source(
            "orders.reports",
            schema="type string, agent string, state string",
            dead_letters=False,
        )
    },
    # A stream: each report goes out. A table, Sink(..., compacted=True), gathers updates of a key.
    sinks=(Sink("pipelines.$name"),),
    transform=$function,
    prints=Print("$name"),
)
''')

TEST = Template('''\
"""The pipeline $name, as a function of DataFrames: no Kafka is needed."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from pipelines.$function import $function

SCHEMA = """key string, value struct<type string, agent string, state string>,
topic string, partition int, offset long"""


def test_each_report_is_passed_on_and_ticks_are_not(spark: SparkSession) -> None:
    report = Row(type="report", agent="station-1", state="received")
    tick = Row(type="tick", agent=None, state=None)
    place = {"topic": "orders.reports", "partition": 0}
    rows = [
        Row(key="order-7", value=report, **place, offset=3),
        Row(key=None, value=tick, **place, offset=4),
        Row(key="order-7", value=report, **place, offset=5),
    ]
    result = $function(spark.createDataFrame(rows, SCHEMA))
    value = '{"type":"report","agent":"station-1","state":"received"}'
    wanted = [Row(key="order-7", value=value, id=f"orders.reports/0/{offset}") for offset in (3, 5)]
    assertDataFrameEqual(result, spark.createDataFrame(wanted))
''')


def write_skeleton(root: Path, name: str) -> list[Path]:
    """Write a new pipeline and its test below `root`; return the two files.

    Raises NoSkeleton for a wrong name, or where there is such a pipeline.
    """
    if not NAME.fullmatch(name) or name in RESERVED:
        raise NoSkeleton(
            f"name: expected lower-case letters, digits and '-', beginning with a letter, at most "
            f"60, and neither all nor none, got {name!r}"
        )
    words = {"name": name, "function": name.replace("-", "_"), "title": _title(name)}
    files = {
        root / "pipelines" / f"{words['function']}.py": PIPELINE,
        root / "tests" / "integration" / "spark" / f"test_{words['function']}.py": TEST,
    }
    for path in files:
        if path.exists():
            raise NoSkeleton(f"{path} is there already")
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.substitute(words))
    return list(files)


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()
