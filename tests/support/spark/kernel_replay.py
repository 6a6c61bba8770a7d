"""The kernel on a JVM of its own, without Spark: a bucket's log in, its records out."""

from __future__ import annotations

import io
import os
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bus.base import ConsumerRecord
from config.java import find_java
from streaming.fold.plan import Plan
from streaming.kernel import archive, build, compile_java, library

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java's options of a process that lives for seconds."""
REPLAY = Path(__file__).parents[2] / "kernel/java/tallyboard/kernel/Replay.java"


class State(NamedTuple):
    """What the state store holds of a bucket: its clock and figures, an entry for each asset."""

    meta: bytes | None = None
    entries: Mapping[str, bytes] = {}


class Log(NamedTuple):
    """A bucket's log in batches; every `restart` batches the bucket is read from its state."""

    bucket: str
    records: list[ConsumerRecord]
    batch: int = 1
    restart: int = 1
    state: State = State()


class SinkRecord(NamedTuple):
    """What the kernel emits. partition: None: the key's."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None = None


class Played(NamedTuple):
    """What came of a log, and the state at its end."""

    records: list[SinkRecord]
    state: State


def compile_replay(jars_dir: Path, work: Path) -> None:
    """Compile the harness into a folder, and the kernel where that is needed."""
    build(jars_dir)
    work.mkdir()
    compile_java([REPLAY], work, jars_dir, archive(jars_dir))


def java_command(jars_dir: Path, harness: Path, work: Path) -> list[str]:
    """Compile a harness of the kernel's package into a folder; returns what starts it."""
    build(jars_dir)
    compile_java([harness], work, jars_dir, archive(jars_dir))
    return _command(jars_dir, harness, work)


def _command(jars_dir: Path, harness: Path, work: Path) -> list[str]:
    path = os.pathsep.join(map(str, [work, archive(jars_dir), *library(jars_dir)]))
    return [str(find_java()), *QUICK, "-cp", path, f"tallyboard.kernel.{harness.stem}"]


class Replay:
    """The compiled harness."""

    def __init__(self, jars_dir: Path, work: Path) -> None:
        self._command = _command(jars_dir, REPLAY, work)

    def run(self, plan: Plan, logs: Iterable[Log]) -> list[Played]:
        """Return what the kernel makes of each log."""
        logs = list(logs)
        fed = struct.pack(">i", len(logs)) + b"".join(_log(plan, log) for log in logs)
        done = subprocess.run(self._command, input=fed, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-4000:]
        out = io.BytesIO(done.stdout)
        return [Played(list(_records(out)), _state(out)) for _ in logs]


def _log(plan: Plan, log: Log) -> bytes:
    head = _put(plan.json(real_time=True).encode()) + _put(log.bucket.encode())
    head += struct.pack(">iii", log.batch, log.restart, len(log.records))
    records = b"".join(
        _put(m.key)
        + _put(m.value)
        + struct.pack(">qq", m.offset, m.timestamp)
        + _number(len(m.headers))
        + b"".join(_put(name.encode()) + _put(data) for name, data in m.headers)
        for m in log.records
    )
    entries = b"".join(_put(n.encode()) + _put(data) for n, data in log.state.entries.items())
    return head + records + _put(log.state.meta) + _number(len(log.state.entries)) + entries


def _put(data: bytes | None) -> bytes:
    return _number(-1) if data is None else _number(len(data)) + data


def _number(number: int) -> bytes:
    return struct.pack(">i", number)


def _records(out: io.BytesIO) -> Iterator[SinkRecord]:
    while (length := _integer(out)) != -2:
        topic = out.read(length).decode()
        key, value = _bytes(out), _bytes(out)
        headers = tuple((str(_text(out)), _bytes(out) or b"") for _ in range(_integer(out)))
        partition = _integer(out)
        yield SinkRecord(topic, key, value, headers, None if partition < 0 else partition)


def _state(out: io.BytesIO) -> State:
    meta = _bytes(out)
    return State(meta, {_text(out): _bytes(out) or b"" for _ in range(_integer(out))})


def _integer(out: io.BytesIO) -> int:
    return int(struct.unpack(">i", out.read(4))[0])


def _bytes(out: io.BytesIO) -> bytes | None:
    length = _integer(out)
    return None if length < 0 else out.read(length)


def _text(out: io.BytesIO) -> str:
    return (_bytes(out) or b"").decode()
