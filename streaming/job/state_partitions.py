"""How many state partitions a query's checkpoint has, and another number brought into force."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streaming.fold.epochs import EpochStart, UnreadableStart, begin, divide, start_of
from streaming.fold.progress import ProgressReporter
from streaming.fold.workload import Workload
from streaming.spark.restart_policy import first_line
from streaming.state.buckets import BucketId, Engine
from streaming.state.checkpoint import Epoch, current_epoch, drop_old, positions, start_folder
from streaming.state.quarantine import committed
from streaming.state.storage import StoragePath
from streaming.state.transfer import write_seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

log = logging.getLogger("streaming.job.state_partitions")


def next_state_partitions(settings: Settings, epoch: Epoch, start: EpochStart) -> int:
    """Return the number with which an epoch's query is to go on.

    Without a setting a checkpoint keeps its own: nobody has asked for another.
    """
    if not positions(epoch.path):
        return settings.first_state_partitions
    return settings.state_partitions or start.state_partitions


def most_state_partitions(settings: Settings, home: StoragePath, engines: Iterable[Engine]) -> int:
    """Return the most that a query may come to have, also if another number is refused.

    home: where the engines keep their checkpoints.
    """
    numbers = [1]
    for engine in engines:
        epoch = current_epoch(home / engine)
        try:
            start = start_of(epoch)
        except UnreadableStart:  # the query will say so
            continue
        numbers.append(next_state_partitions(settings, epoch, start))
        if positions(epoch.path):
            numbers.append(start.state_partitions)
    return max(numbers)


class StatePartitions:
    """Has a query's checkpoint divided as the settings say.

    Where nothing is committed yet the number is written down. Else an epoch begins at the offsets
    that were reached, with the committed state as its seeds. It goes on with the versions of the
    one before: what that had emitted and not committed comes again under the same versions, as
    after any restart, and no reader sees anything twice or an older state.
    """

    def __init__(self, workload: Workload, report: ProgressReporter, spark: SparkSession) -> None:
        self._workload, self._report, self._spark = workload, report, spark
        self.refusal = ""
        """Why the settings' number is not in force; empty where it is."""

    def settle(self) -> Epoch:
        """Return the epoch to go on with; divides its checkpoint first where that is called for.

        A number is refused once for each process. Raises UnreadableStart and OSError.
        """
        epoch = current_epoch(self._workload.home)
        start = start_of(epoch)
        number = next_state_partitions(self._workload.settings, epoch, start)
        batch = committed(epoch.path)
        if batch is None:
            divide(epoch, number)
        elif number != start.state_partitions and not self.refusal:
            return self._carried_over(epoch, start, number, batch)
        return epoch

    def _carried_over(self, epoch: Epoch, start: EpochStart, number: int, batch: int) -> Epoch:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        before, begun = start.state_partitions, time.monotonic()
        self._report.status("starting", f"its state goes from {before} partitions to {number}")
        try:
            risen = begin(
                self._workload.home,
                lambda _number, into: self._start(epoch, start, number, batch, into),
            )
        except ConnectionError:  # of the JVM, which is gone
            raise
        except (OSError, PySparkException, Py4JJavaError) as error:
            self._refuse(before, number, error)
            return epoch
        drop_old(self._workload.home)
        took = time.monotonic() - begun
        log.info(
            "epoch %d begins with %d state partitions instead of %d, and the state of epoch %d: "
            "%.1f s",
            risen.number,
            number,
            before,
            epoch.number,
            took,
        )
        return risen

    def _start(
        self, epoch: Epoch, start: EpochStart, number: int, batch: int, into: StoragePath
    ) -> EpochStart:
        """Return how the new epoch begins; its seeds are written into a folder."""
        seeds = write_seeds(self._spark, self._workload.engine, epoch.path, batch, into)
        carried = msgspec.structs.replace(
            start,
            state_partitions=number,
            versions=start.version_epoch(epoch),
            offsets={self._name(place): at for place, at in positions(epoch.path).items()},
            seeds={name: seed.file for name, seed in seeds.items()},
            rules=start.rules | {name: seed.rule for name, seed in seeds.items()},
        )
        for name, path in start.seeds.items():
            if name not in seeds:  # nothing of it has come since: it has not begun
                carried.seeds[name] = Path(path).name
                _copy(start_folder(epoch) / Path(path).name, into)
        return carried

    def _name(self, place: tuple[str, int]) -> str:
        return str(BucketId(self._workload.topics.scenario_of(place[0]) or "", place[1]))

    def _refuse(self, before: int, number: int, error: Exception) -> None:
        self.refusal = (
            f"TALLYBOARD_STATE_PARTITIONS={number} is not in force, as the committed state cannot "
            f"be carried over ({first_line(str(error))}): the job goes on with {before}. Put right "
            f"what is named and restart it, or have it read the log again (Replay), which begins "
            f"with {number}; or set TALLYBOARD_STATE_PARTITIONS={before}"
        )
        log.warning("%s", self.refusal)


def _copy(file: StoragePath, folder: StoragePath) -> None:
    """Copy a file of a storage into another folder. Raises OSError."""
    with tempfile.TemporaryDirectory() as spare, (folder / file.name).filled() as target:
        shutil.copyfile(file.lent(Path(spare)), target)
