"""Spark's JVM: its options, its process, and its end."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streaming.spark.jvm")

# How long Spark may take to stop before its JVM is killed, and a JVM without Spark to end.
STOP_S, EXIT_S = 5.0, 2.0

LOGGING = Path(__file__).resolve().parent / "log4j2.properties"

JVM_OPTIONS = (
    "-XX:+UseParallelGC",
    # Loading classes is much of a start: no full collections for their sake.
    "-XX:MetaspaceSize=256m",
    # Compiling takes as long as the work itself in the first half minute: smaller pieces, and less
    # code taken into others, cost the code almost nothing. See docs/experiments.md.
    "-XX:InlineSmallCode=600",
    "-XX:MaxInlineLevel=6",
    "-XX:FreqInlineSize=100",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dio.netty.tryReflectionSetAccessible=true",
    f"-Dlog4j2.configurationFile={LOGGING}",
)


class JvmLost(Exception):
    """This process needs a new JVM, as Spark's is gone or the work is divided anew: start it again.

    error: the whole text of the error that showed it, or ''.
    """

    def __init__(self, why: str, error: str = "") -> None:
        super().__init__(why)
        self.error = error


def jvm_process(spark: SparkSession) -> Any:
    """Return the process of Spark's JVM, a Popen, or None where somebody else started it."""
    return getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001


def end_spark(spark: SparkSession, patience_s: float = STOP_S, exit_s: float = EXIT_S) -> bool:
    """Stop Spark, with its queries, and end its JVM; return whether the JVM ended by itself.

    It is killed when Spark takes longer than `patience_s` to stop, or the JVM then longer than
    `exit_s` to end.
    """
    process = jvm_process(spark)
    stopping = threading.Thread(target=_stop_quietly, args=(spark,), daemon=True)
    stopping.start()
    stopping.join(patience_s)
    if process is None:
        return True
    if not stopping.is_alive():
        process.stdin.close()
        with suppress(TimeoutExpired):
            process.wait(exit_s)
            return True
    process.kill()
    process.wait()
    return False


def _stop_quietly(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001, it may be gone already
        log.debug("Spark did not stop: %s", error)
