"""The JVM of the job: its options."""

from __future__ import annotations

from pathlib import Path

LOGGING = Path(__file__).resolve().parent / "log4j2.properties"

JVM_OPTIONS = (
    "-XX:+UseParallelGC",
    # Loading classes is much of a start: no full collections for their sake.
    "-XX:MetaspaceSize=256m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dio.netty.tryReflectionSetAccessible=true",
    f"-Dlog4j2.configurationFile={LOGGING}",
)
