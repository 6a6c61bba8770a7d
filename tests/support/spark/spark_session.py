"""A small Spark session for tests of functions of DataFrames; no Kafka, no state, no pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from config.settings import Settings
from streaming.kernel import build
from streaming.spark.gateway import attach, class_archive, launch, use
from streaming.spark.jvm import end_spark
from streaming.spark.session import prepare_environment, spark_conf

ROOT = Path(__file__).resolve().parents[3]

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java's options of a JVM that lives for a minute."""

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
"""Settings other than the job's: frames of few rows, and queries that say what they want."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The job's session on one slot, for all such tests: it takes seconds to start."""
    folder, jars_dir = tmp_path_factory.mktemp("spark"), ROOT / ".jars"
    build(jars_dir)
    settings = Settings(_env_file=None, data_dir=folder, jars_dir=jars_dir)  # type: ignore[call-arg]
    prepare_environment(settings)
    paths = [str(ROOT / "tests"), os.environ["PYTHONPATH"]]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    options = (*QUICK, *use(class_archive(jars_dir)))
    conf = spark_conf(settings, 1, options) | {"spark.local.dir": str(folder)} | SMALL
    session = attach(launch(jars_dir, "1g", options, conf))
    yield session
    end_spark(session)
