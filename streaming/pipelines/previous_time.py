"""A record without a valid time takes that of the record before it in its partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_previous(rows: DataFrame) -> DataFrame:
    """Return the rows with the valid `time` before them where theirs has a fault; null: none yet.

    This keeps state by partition, so only what is stateless can follow it in mode update.
    """
    return rows.groupBy("topic", "partition").transformWithStateInPandas(
        PreviousTime(), outputStructType=rows.schema, outputMode="Append", timeMode="None"
    )


class PreviousTime(StatefulProcessor):
    """Remembers the last valid time of one partition."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._time = handle.getValueState("time", "time long")

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[pd.DataFrame]:
        """Yield the partition's rows in order, each with its time."""
        batch = pd.concat(rows).sort_values("offset")
        valid = batch["time"].where(batch["fault"].isna()).astype("Int64")
        if (before := self._time.get()) is not None and pd.isna(valid.iloc[0]):
            valid.iloc[0] = before[0]
        filled = valid.ffill()
        if not pd.isna(filled.iloc[-1]):
            self._time.update((int(filled.iloc[-1]),))
        yield batch.assign(time=filled)

    def close(self) -> None:
        """Nothing is to be closed."""
