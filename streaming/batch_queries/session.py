"""The Spark session of a batch query: small, and apart from that of the query."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

# Tasks of a batch query that run at once.
SLOTS = 2

# How far behind the query a batch query stands when both want the processor.
NICE = 10


def scratch_of(settings: Settings) -> Path:
    """Return where a batch query keeps what it needs while it runs; there is one at a time."""
    return settings.data_dir / "errand"


def start_batch_session(settings: Settings) -> SparkSession:
    """Start Spark for one batch query, in a folder that is emptied first.

    Raises VersionProblem or KernelProblem.
    """
    os.nice(NICE)
    scratch = scratch_of(settings)
    shutil.rmtree(scratch, ignore_errors=True)
    own = {
        "data_dir": scratch,
        "spark_master": f"local[{SLOTS}]",
        "spark_memory": settings.errand_memory,
        "spark_ui_port": 0,
    }
    return start_session(settings.model_copy(update=own), SLOTS)
