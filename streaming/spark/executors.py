"""The executors of a cluster: which there are, what is wrong with them, how many tasks they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often one looks whether executors are ready, s. At the start: how long no new one must have
# come, how long those that are missing may take, and how long it may take until there is one, s.
LOOK_S, STEADY_S, SETTLE_S, NONE_S = 0.2, 2.0, 10.0, 15.0

# What kernel/SharedStorage.java finds wrong, and in words.
ABSENT, FOREIGN, UNWRITABLE, NO_KEYS = "absent", "foreign", "unwritable", "no-keys"
_WORDS = {
    ABSENT: (
        "does not see the checkpoint {path} ({detail}): mount its storage there, under the same "
        "path and readable by the worker's user, or stop this worker"
    ),
    FOREIGN: (
        "has another storage than the job at the checkpoint's path {path}: mount the job's there, "
        "or stop this worker"
    ),
    UNWRITABLE: (
        "cannot write to the checkpoint {path} ({detail}): give the worker's user the right to, "
        "or stop this worker"
    ),
    NO_KEYS: (
        "cannot read the keys of commands {path} ({detail}): put the job's file there, or name one "
        "that every machine has (TALLYBOARD_COMMAND_KEYS)"
    ),
}


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor. looked: whether it has looked at the storage; kind: what it found wrong."""

    id: str
    host: str
    cores: int
    looked: bool = False
    kind: str = ""
    path: str = ""
    detail: str = ""

    @property
    def ready(self) -> bool:
        """Return whether it takes tasks."""
        return self.looked and not self.kind

    @property
    def problem(self) -> str:
        """Return what is wrong with it and what to do; empty while nothing is known to be."""
        if not self.kind:
            return ""
        words = _WORDS[self.kind].format(path=self.path, detail=self.detail)
        return f"executor {self.id} on {self.host} {words}"


def known_executors(spark: SparkSession) -> list[Executor]:
    """Return the executors that have registered with the driver."""
    jvm: Any = spark._jvm  # noqa: SLF001
    rows = [list(row) for row in jvm.tallyboard.kernel.Executors.rows()]
    return [Executor(row[0], row[1], int(row[2]), bool(row[3]), *row[4:]) for row in sorted(rows)]


def slots_of(executors: Iterable[Executor]) -> int:
    """Return how many tasks the ready ones run at once."""
    return sum(one.cores for one in executors if one.ready)


def problems_of(executors: Iterable[Executor]) -> list[str]:
    """Return what is wrong, a sentence for each machine and fault."""
    return [one.problem for one in executors if one.problem]


class Cluster:
    """What the job asks of its cluster before it starts a query.

    master: its address; needed: returns how many slots the queries take at once.
    """

    def __init__(self, spark: SparkSession, master: str, needed: Callable[[], int]) -> None:
        self._spark, self._master, self._needed = spark, master, needed
        self._begun = self._changed = time.monotonic()
        self._settled, self._count = False, 0

    def await_executors(
        self, over: Callable[[], bool], pause: Callable[[float], object],
        say: Callable[[str], object],
    ) -> bool:  # fmt: skip
        """Return True once a query may start, or False once it is `over`.

        say: called with what is waited for, each time that it changes.
        """
        said, begun = "", time.monotonic()
        while not over():
            known = known_executors(self._spark)
            if self._may_start(known):
                self._settled = True
                return True
            why = self._obstacle(known, time.monotonic() - begun)
            if why and why != said:
                say(why)
                said = why
            pause(LOOK_S)
        return False

    def shortage(self) -> str:
        """Return why Real-time Mode cannot run; empty if it can."""
        has, needed = slots_of(known_executors(self._spark)), self._needed()
        if has >= needed:
            return ""
        return (
            f"Real-time Mode needs {needed} slots, the cluster has {has}: the query runs in "
            f"micro-batches until there are {needed}; add executors or cores"
        )

    def problems(self) -> list[str]:
        """Return what is wrong with executors, which are given no task meanwhile."""
        return problems_of(known_executors(self._spark))

    def _may_start(self, known: Sequence[Executor]) -> bool:
        if problems_of(known) or not slots_of(known):
            return False
        return self._settled or self._complete(known)

    def _complete(self, known: Sequence[Executor]) -> bool:
        """Return whether all executors seem to be there: the first start waits for them."""
        now = time.monotonic()
        if len(known) != self._count:
            self._count, self._changed = len(known), now
        if now - self._begun > SETTLE_S:
            return True
        steady = now - self._changed > STEADY_S and all(one.looked for one in known)
        return steady and slots_of(known) >= self._needed()

    def _obstacle(self, known: Sequence[Executor], waited_s: float) -> str:
        """Return what is waited for; empty while that is no reason to worry."""
        if problems := problems_of(known):
            return "; ".join([*problems, "until then the job reads and writes nothing"])
        if waited_s < NONE_S or slots_of(known):
            return ""
        hosts = ", ".join(f"{one.id} on {one.host}" for one in known)
        return (
            f"{self._master} has given the job no executor that is ready within {NONE_S:g} s"
            f"{f' (registered: {hosts})' if hosts else ''}: look on the master's page for workers "
            "with free cores and memory, and in the workers' logs for why executors end"
        )
