"""docs/pipelines.md: each example runs as a stream, and keeps state if the text says so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from streaming.pipelines.registry import declared
from support.run.stack import ROOT

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

DOC = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")


class Example(NamedTuple):
    """An operator: its name, whether it is stateful, the mode of its output, its code."""

    name: str
    stateful: bool
    mode: str
    code: str


def examples() -> list[Example]:
    sections = re.findall(r"^### (.*?)\n\n(.*?)(?=^##|\Z)", DOC, re.MULTILINE | re.DOTALL)
    return [
        Example(
            name,
            text.startswith("Stateful"),
            "append" if "Mode `append`" in text else "update",
            "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)),
        )
        for name, text in sections
        if "```python" in text
    ]


OPERATORS = (
    "branch", "filter", "map", "flatMap", "peek", "foreach", "to", "groupBy", "count", "aggregate",
    "reduce", "through", "repartition", "suppress", "punctuate",
)  # fmt: skip
PHRASES = (
    "tumbling window", "hopping window", "sliding window", "session window", "inner join",
    "left join", "join of a stream with a table", "foreign key", "global table",
    "interactive query",
)  # fmt: skip


@pytest.mark.parametrize("name", [*OPERATORS, *PHRASES])
def test_every_operator_of_kafka_streams_has_its_section(name: str) -> None:
    assert re.search(rf"^### .*{name}", DOC, re.MULTILINE)


REPORTS = "type string, agent string, state string, words string, n long"
COLUMNS = "topic string, partition int, offset long, timestamp timestamp"


def stream(spark: SparkSession, folder: Path, value: str, times: list[list[int]]) -> DataFrame:
    """A stream of one file for each batch. times: of each batch's records, s."""
    folder.mkdir()
    offset = 0
    for number, batch in enumerate(times):
        lines = []
        for second in batch:
            record = {"type": "report", "agent": f"a{offset % 2}", "state": "delivered",
                      "words": "one two", "n": offset, "amount": 5}  # fmt: skip
            at = f"2026-11-23T12:{second // 60:02}:{second % 60:02}Z"
            place = {"topic": "t", "partition": 0, "offset": offset, "timestamp": at}
            lines.append(json.dumps({"key": f"k{offset % 3}", "value": record, **place}))
            offset += 1
        file = folder / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (number, number))  # Spark takes the oldest first.
    schema = f"key string, value struct<{value.replace(' ', ':')}>".replace(",:", ",")
    reader = spark.readStream.schema(f"{schema}, {COLUMNS}").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


@pytest.mark.spread(5)
@pytest.mark.parametrize("example", examples(), ids=lambda one: one.name)
def test_an_example_runs_as_a_stream(spark: SparkSession, tmp_path: Path, example: Example) -> None:
    batches = [[1, 5, 9, 61], [600, 601], [1_200]]
    paid = [[2, 6, 10], [601], [1_200]]
    halls = [("a0", "hall 1"), ("a1", "hall 2")]
    names: dict[str, Any] = {
        "pd": pd,
        "sql": sql,
        "reports": stream(spark, tmp_path / "reports", REPORTS, batches),
        "payments": stream(spark, tmp_path / "payments", "amount long", paid),
        "stations": spark.createDataFrame(halls, "agent string, hall string"),
    }
    exec(example.code, names)
    result = names["result"]
    assert result.isStreaming
    writer = result.writeStream.format("memory").queryName(f"q{abs(hash(example.name))}")
    writer = writer.outputMode(example.mode).option("checkpointLocation", str(tmp_path / "c"))
    # Who waits for timers never has all that is available now.
    trigger = {"once": True} if "ProcessingTime" in example.code else {"availableNow": True}
    query = writer.trigger(**trigger).start()
    assert query.awaitTermination(120)
    assert bool(query.lastProgress["stateOperators"]) == example.stateful
    assert spark.table(query.name).count() > 0


def test_the_table_of_shipped_pipelines_is_right() -> None:
    rows = re.findall(r"^\| (`[\w-]+`) \| (`.+?`) \| (`.+?`|a Delta table) \| ", DOC, re.MULTILINE)

    def listed(topics: Iterable[str]) -> str:
        return ", ".join(f"`{topic}`" for topic in topics)

    assert sorted(rows) == sorted(
        (
            listed([name]),
            listed(
                [
                    *(source.topic for source in pipeline.sources.values()),
                    *(table.topic for table in pipeline.global_tables.values()),
                ]
            ),
            "a Delta table" if pipeline.table else listed(sink.topic for sink in pipeline.sinks),
        )
        for name, pipeline in declared().items()
    )
