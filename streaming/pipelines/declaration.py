"""What a module of `pipelines/` declares. Every value is checked when it is constructed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from config.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")
TOPIC = re.compile(r"[A-Za-z0-9._*?-]{1,200}")
MOST_SLOTS, MOST_PARTITIONS, MOST_LABEL = 64, 256, 60
SETTING = re.compile(r"[a-z][a-z0-9_]{0,59}")

StateBackend = Literal["rocksdb", "memory"]
OutputMode = Literal["append", "update"]
Policy = Literal["log-and-skip", "fail", "previous", "wall-clock"]
# Given the record's time (ms; null where there is none) and what is wrong with it, returns the time
# to use instead (ms), null to skip the record.
Replacement = Callable[["Column", "Column"], "Column"]


class DeclarationError(ValueError):
    """A declaration that cannot be; the message names the field and what was expected."""


def _one_of(kind: object) -> str:
    return " or ".join(get_args(kind))


def _expect(right: bool, what: str, expected: str, got: object) -> None:
    if not right:
        raise DeclarationError(f"{what}: expected {expected}, got {got!r}")


@dataclass(frozen=True)
class Emission:
    """How long a table's sink gathers updates of a key, ms, and how many bytes all tasks of the
    pipeline may hold; 0 turns both off."""

    every_ms: int = 100
    max_bytes: int = 10 << 20

    def __post_init__(self) -> None:
        _expect(0 <= self.every_ms <= 60_000, "Emission.every_ms", "0 to 60,000", self.every_ms)
        _expect(0 <= self.max_bytes <= 1 << 30, "Emission.max_bytes", "0 to 1 GiB", self.max_bytes)

    @property
    def on(self) -> bool:
        """Return whether updates are gathered."""
        return bool(self.every_ms and self.max_bytes)


AT_ONCE = Emission(every_ms=0)


@dataclass(frozen=True)
class Trigger:
    """How often a batch begins where there are records, ms, and how many it holds at most.

    tick_ms: how often one begins where there are none, so that timers by processing time fire; 0:
    never.
    """

    every_ms: int = 1_000
    max_records: int = 100_000
    tick_ms: int = 0

    def __post_init__(self) -> None:
        _expect(0 <= self.every_ms <= 3_600_000, "Trigger.every_ms", "0 to an hour", self.every_ms)
        _expect(self.max_records >= 1, "Trigger.max_records", "1 or more", self.max_records)
        _expect(
            self.tick_ms == 0 or 1_000 <= self.tick_ms <= 3_600_000,
            "Trigger.tick_ms",
            "0, or a second to an hour",
            self.tick_ms,
        )


@dataclass(frozen=True)
class Parallelism:
    """Tasks that run at once, and partitions of the state.

    The second is fixed for as long as the checkpoint lives; the first may change at any start.
    """

    slots: int = 1
    state_partitions: int = 1

    def __post_init__(self) -> None:
        _expect(1 <= self.slots <= MOST_SLOTS, "Parallelism.slots", "1 to 64", self.slots)
        _expect(
            1 <= self.state_partitions <= MOST_PARTITIONS,
            "Parallelism.state_partitions",
            "1 to 256",
            self.state_partitions,
        )


@dataclass(frozen=True)
class Source:
    """Topics that a pipeline reads.

    topic: without the prefix; `*` and `?` match those that are there when the pipeline starts.
    schema: Spark's DDL of the value as JSON; None: the value stays bytes. A value without a column
    that is NOT NULL does not fit; any other column that it lacks is null.
    time: makes the event time (ms) of the decoded records; None: the time of Kafka's record.
    invalid_time: what becomes of a record whose time is missing, negative or more than five minutes
    ahead: a policy, or a function.
    dead_letters: whether a value that does not fit the schema becomes a dead letter; else it is
    only counted, as where the job refuses the same record.
    """

    topic: str
    schema: str | None = None
    time: Callable[[DataFrame], Column] | None = None
    invalid_time: Policy | Replacement = "log-and-skip"
    dead_letters: bool = True

    def __post_init__(self) -> None:
        _expect(
            bool(TOPIC.fullmatch(self.topic)), "Source.topic", "a topic or a pattern", self.topic
        )
        _expect(
            callable(self.invalid_time) or self.invalid_time in get_args(Policy),
            "Source.invalid_time",
            f"a function or one of {', '.join(get_args(Policy))}",
            self.invalid_time,
        )
        _expect(
            self.schema is None or bool(self.schema.strip()),
            "Source.schema",
            "the columns of the value, or None",
            self.schema,
        )

    @property
    def policy(self) -> str:
        """Return the policy's name; a function's own where it is one."""
        invalid = self.invalid_time
        return invalid if isinstance(invalid, str) else getattr(invalid, "__name__", "function")


@dataclass(frozen=True)
class GlobalTable:
    """A topic that a pipeline follows as a table: the newest record of each key is its row, and one
    without a value deletes it. Each batch has the table as it is when it begins.

    topic: without the prefix; schema: Spark's DDL of the value as JSON; None: it stays bytes. A row
    whose newest record does not fit is left out.
    """

    topic: str
    schema: str | None = None

    def __post_init__(self) -> None:
        plain = bool(TOPIC.fullmatch(self.topic)) and not set(self.topic) & set("*?")
        _expect(plain, "GlobalTable.topic", "the name of one topic", self.topic)
        _expect(
            self.schema is None or bool(self.schema.strip()),
            "GlobalTable.schema",
            "the columns of the value, or None",
            self.schema,
        )


@dataclass(frozen=True)
class Sink:
    """A topic that a pipeline writes, without the prefix; created where it is missing.

    keep_ms: how long it keeps records; compacted: it is a table, of which only the newest record of
    each key stays. emit: how a table gathers updates of a key; a stream gathers none, as its
    readers want each record.
    partitioner: makes a whole number of the transform's rows, of which those with the same one,
    modulo the partitions, go to the same partition; null, and None: Kafka's own, by the key.
    """

    topic: str
    partitions: int = 2
    compacted: bool = False
    keep_ms: int = 7 * 86_400_000
    emit: Emission | None = None
    partitioner: Callable[[DataFrame], Column] | None = None

    def __post_init__(self) -> None:
        plain = bool(TOPIC.fullmatch(self.topic)) and not set(self.topic) & set("*?")
        _expect(plain, "Sink.topic", "the name of one topic", self.topic)
        _expect(
            1 <= self.partitions <= MOST_PARTITIONS, "Sink.partitions", "1 to 256", self.partitions
        )
        _expect(self.keep_ms >= 60_000, "Sink.keep_ms", "a minute or more", self.keep_ms)
        _expect(
            self.partitioner is None or callable(self.partitioner),
            "Sink.partitioner",
            "a function or None",
            self.partitioner,
        )

    @property
    def emission(self) -> Emission:
        """Return how updates of a key are gathered: by default for 100 ms in a table, and not at
        all in a stream."""
        return self.emit or (Emission() if self.compacted else AT_ONCE)


@dataclass(frozen=True)
class Print:
    """A sink beside the topics: each record is a line of the process's log, after a label."""

    label: str

    def __post_init__(self) -> None:
        fits = 1 <= len(self.label) <= MOST_LABEL and self.label.isprintable()
        _expect(fits, "Print.label", f"1 to {MOST_LABEL} characters that can be seen", self.label)


@dataclass(frozen=True)
class OutputTable:
    """A Delta table that a pipeline writes in place of topics; created where it is missing.

    setting: the attribute of the settings that says where it is, a URL or a path; keys: the columns
    that name a row: one that is there already is not written again; day: the column of the day
    (YYYY-MM-DD, UTC) by which it is divided; time: the column of the time (ms), by which rows are
    looked up; keep_days: older days are deleted.
    """

    setting: str
    keys: tuple[str, ...]
    day: str = "day"
    time: str = "at"
    keep_days: int = 400

    def __post_init__(self) -> None:
        _expect(bool(SETTING.fullmatch(self.setting)), "Table.setting", "a setting", self.setting)
        wrong = [name for name in self.columns if not SETTING.fullmatch(name)]
        _expect(not wrong, "Table.keys, day, time", "a-z, 0-9 and '_'", wrong)
        _expect(bool(self.keys), "Table.keys", "at least one column", self.keys)
        _expect(1 <= self.keep_days <= 36_500, "Table.keep_days", "1 to 36,500", self.keep_days)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that a transform's result must have."""
        return (*self.keys, self.day, self.time)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline: what it reads, what it makes of it, what it writes.

    transform: takes a DataFrame for each source and global table, by its name, then the parameters,
    and returns one with the columns `key`, `value` and `id`, and `topic` where there is more than
    one sink. `id` names the output record, and is the same whenever the same input is read again.
    global_tables: topics that are followed as tables, by name; the transform joins with them.
    parameters: fields of the settings that the transform takes.
    prints: whether what goes to the sinks is printed too.
    table: where the rows go in place of topics; the result has the table's columns then.
    stores: what its state per key consists of, by name, as the graph shows it; empty: one store.
    co_partitioned: names of sources whose topics must have equally many partitions.
    late: a source whose records the transform drops where they come too late: how many is in the
    result's column `late`, and a row without id is there for that alone.
    checkpoint: the folder that it is kept in, below the data directory; by default named as the
    pipeline is. on: whether TALLYBOARD_PIPELINES=all starts it.
    """

    name: str
    title: str
    sources: Mapping[str, Source]
    sinks: tuple[Sink, ...]
    transform: Callable[..., DataFrame]
    global_tables: Mapping[str, GlobalTable] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    prints: Print | None = None
    table: OutputTable | None = None
    trigger: Trigger = Trigger()
    parallelism: Parallelism = Parallelism()
    state: StateBackend = "rocksdb"
    stores: tuple[str, ...] = ()
    mode: OutputMode = "update"
    co_partitioned: tuple[str, ...] = ()
    late: str = ""
    checkpoint: str = ""
    on: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _expect(
            bool(NAME.fullmatch(self.name)),
            "name",
            "lower-case letters, digits and '-', 60 at most",
            self.name,
        )
        here = f"{self.name}: "
        _expect(bool(self.sources), f"{here}sources", "at least one", dict(self.sources))
        self._check_sinks(here)
        self._check_tables(here)
        _expect(
            self.state in get_args(StateBackend), f"{here}state", _one_of(StateBackend), self.state
        )
        _expect(self.mode in get_args(OutputMode), f"{here}mode", _one_of(OutputMode), self.mode)
        strange = sorted(set(self.co_partitioned) - set(self.sources))
        _expect(not strange, f"{here}co_partitioned", "names of sources", strange)
        _expect(self.late in ("", *self.sources), f"{here}late", "the name of a source", self.late)
        _expect(
            not self.checkpoint or bool(NAME.fullmatch(self.checkpoint)),
            f"{here}checkpoint",
            "the name of a folder",
            self.checkpoint,
        )
        self._check_transform(here)

    def _check_sinks(self, here: str) -> None:
        topics = [sink.topic for sink in self.sinks]
        _expect(len(set(topics)) == len(topics), f"{here}sinks", "different topics", topics)
        for sink in self.sinks:
            _expect(
                sink.compacted or not sink.emission.every_ms,
                f"{here}sink {sink.topic}: emit",
                "none, or compacted=True where it is a table: a stream that gathers loses records",
                sink.emit,
            )
        gathers = [sink.topic for sink in self.gathering]
        _expect(
            not gathers or not any(sink.partitioner for sink in self.sinks),
            f"{here}sinks",
            "Emission(every_ms=0) for each, as one has a partitioner",
            gathers,
        )
        if self.table is None:
            _expect(bool(topics), f"{here}sinks", "at least one", self.sinks)
            return
        _expect(not topics, f"{here}sinks", "none beside a table", topics)
        _expect(self.prints is None, f"{here}prints", "None beside a table", self.prints)
        refusing = [name for name, source in self.sources.items() if source.dead_letters]
        _expect(
            not refusing, f"{here}sources", "dead_letters=False, as a table takes none", refusing
        )

    def _check_tables(self, here: str) -> None:
        twice = sorted(set(self.sources) & set(self.global_tables))
        _expect(not twice, f"{here}global_tables", "other names than those of sources", twice)
        _expect(
            not self.global_tables or bool(self.trigger.tick_ms),
            f"{here}trigger",
            "tick_ms, as only batches read a global table",
            self.trigger.tick_ms,
        )

    def _check_transform(self, here: str) -> None:
        strange = sorted(set(self.parameters) - set(Settings.model_fields))
        _expect(not strange, f"{here}parameters", "names of settings", strange)
        parameters, expected = inspect.signature(self.transform).parameters, self.arguments
        _expect(
            list(parameters) == expected,
            f"{here}transform",
            f"the parameters {', '.join(expected)}, as the sources and settings are named",
            list(parameters),
        )
        previous = [name for name, one in self.sources.items() if one.invalid_time == "previous"]
        _expect(
            not previous or self.state == "rocksdb",
            f"{here}state",
            f"rocksdb, as {', '.join(previous)} keeps the previous time of each partition",
            self.state,
        )

    @property
    def arguments(self) -> list[str]:
        """Return the names of what the transform takes, in order."""
        return [*self.sources, *self.global_tables, *self.parameters]

    @property
    def gathering(self) -> tuple[Sink, ...]:
        """Return the sinks that gather updates."""
        return tuple(sink for sink in self.sinks if sink.emission.on)

    @property
    def budget(self) -> int:
        """Return what may wait in all sinks of all tasks, bytes; 0 where nothing waits."""
        return max((sink.emission.max_bytes for sink in self.gathering), default=0)

    @property
    def tasks(self) -> int:
        """Return how many tasks may write at once."""
        read = self.parallelism.slots * len(self.sources)
        return max(read, self.parallelism.state_partitions)

    @property
    def share(self) -> int:
        """Return what may wait in the sinks of one task, bytes."""
        return self.budget // self.tasks

    @property
    def folder(self) -> str:
        """Return the folder of its checkpoint."""
        return self.checkpoint or self.name
