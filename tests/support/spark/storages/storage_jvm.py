"""A JVM as the job's, without PySpark's context: what a storage is reached through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

from streaming.spark.gateway import connected, launch
from streaming.spark.jvm import JVM_OPTIONS
from streaming.spark.session import check_archives, prepare_environment, spark_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings


@contextmanager
def storage_session(settings: Settings, **more: str) -> Iterator[SparkSession]:
    """What `storage_at` uses of a session with these settings, and `more` of Spark's own."""
    prepare_environment(settings)
    archives = check_archives(settings)
    (settings.data_dir / "spark" / "local").mkdir(parents=True)
    conf = spark_conf(settings, 2, ()) | more
    launched = launch(settings.jars_dir, "512m", JVM_OPTIONS, conf, archives)
    try:
        jvm = connected(launched).jvm
        session = jvm.tallyboard.kernel.Gateway.session()
        yield SimpleNamespace(_jvm=jvm, _jsparkSession=session)  # type: ignore[misc]
    finally:
        launched.process.kill()
        launched.process.wait()
