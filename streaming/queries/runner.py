"""The driver's side of batch queries: starts them, one at a time, and follows them to their end."""

from __future__ import annotations

import fcntl
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import msgspec

from domain.overlay import overlaid
from domain.scenario import Scenario, ScenarioError
from streaming.fold.epochs import UnreadableStart, start_of
from streaming.queries.protocol import Ended, OutputRecord, ReadRequest, ReplayRequest, Request
from streaming.state.buckets import Engine
from streaming.state.checkpoint import Epoch, measure
from wire.batch_query import Cancel, ReadState, WhatIf, parameters_of
from wire.job import AskStep, Control, Outcome, UnreadableJobRecord

if TYPE_CHECKING:
    from config.settings import Settings

log = logging.getLogger("streaming.queries")

ROOT = Path(__file__).resolve().parent.parent.parent
# How often progress is told at most.
STEP_EVERY_S = 0.5
# How long the output of a process that has ended is waited for at most.
READ_OUT_S = 5.0


class AnswerChannel(Protocol):
    """Where requests are answered: streaming.requests.queue.RequestQueue."""

    def begin_batch_query(self, ask: Control) -> None: ...
    def step(self, ask: Control, step: AskStep) -> None: ...
    def answer(self, ask: Control, outcome: Outcome, why: str = "") -> None: ...


@dataclass
class _Running:
    """A batch query under way. lines: what it has reported and nobody has read yet."""

    ask: Control
    process: subprocess.Popen[bytes]
    deadline: float
    lines: queue.SimpleQueue[OutputRecord] = field(default_factory=queue.SimpleQueue)
    step: AskStep | None = None
    ended: Ended | None = None
    next_step: float = 0.0
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(
            target=_read_output, args=(self.process, self.lines), name="batch-query", daemon=True
        )
        self.reader.start()

    def kill(self) -> None:
        """Kill the process with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def exit_code(self) -> int | None:
        """Return the exit code once the process has ended and its whole output is read."""
        code = self.process.poll()
        if code is not None:
            self.kill()  # nothing that it has started holds its output open
            self.reader.join(READ_OUT_S)
        return code


class BatchQueries:
    """Runs each requested batch query in a process. For one thread."""

    def __init__(self, settings: Settings, answers: AnswerChannel) -> None:
        self._settings, self._answers = settings, answers
        self._running: _Running | None = None
        self._lock: IO[bytes] | None = None

    def begin(
        self, ask: Control, engine: Engine, scenarios: Mapping[str, Scenario], epoch: Epoch
    ) -> None:
        """Start the requested batch query, or answer why not."""
        try:
            request = request_of(ask, engine, scenarios, epoch)
        except (UnreadableJobRecord, UnreadableStart, ScenarioError, LookupError) as error:
            self._answers.answer(ask, "refused", str(error.args[0]))
            return
        if not self._take():
            self._answers.answer(
                ask, "refused", "another batch query is running: wait for it, or cancel it"
            )
            return
        try:
            process = self._start(request)
        except OSError as error:
            self._release()
            self._answers.answer(ask, "failed", f"no process could be started: {error}")
            return
        self._running = _Running(ask, process, time.monotonic() + self._settings.batch_query_s)
        self._answers.begin_batch_query(ask)

    def _start(self, request: Request) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.queries", self._settings.job],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that it can be ended with all that it has started
        )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        process.stdin.flush()  # and left open: its end is the batch query's
        return process

    def cancel(self, ask: Control) -> None:
        """End the batch query that is named, and answer both."""
        try:
            parameters = parameters_of(ask)
        except UnreadableJobRecord as error:
            self._answers.answer(ask, "refused", str(error))
            return
        running = self._running
        if (
            running is None
            or not isinstance(parameters, Cancel)
            or running.ask.id != parameters.ask
        ):
            self._answers.answer(ask, "refused", "it is not under way")
            return
        why = f"cancelled by {ask.user or 'somebody'}: {ask.reason}"
        self._end(running, Ended("failed", why))
        self._answers.answer(ask, "done", "")

    def look(self) -> None:
        """Report the progress of the batch query, or its end."""
        running = self._running
        if running is None:
            return
        code = running.exit_code()
        with suppress(queue.Empty):
            while True:
                self._receive(running, running.lines.get_nowait())
        if running.ended is not None:
            self._end(running, running.ended)
        elif code is not None:
            self._end(running, Ended("failed", f"its process ended with {code}"))
        elif time.monotonic() > running.deadline:
            limit = self._settings.batch_query_s
            self._end(running, Ended("failed", f"it took longer than {limit} s: ask for less"))
        elif running.step is not None and time.monotonic() > running.next_step:
            running.next_step = time.monotonic() + STEP_EVERY_S
            self._answers.step(running.ask, running.step)
            running.step = None

    @staticmethod
    def _receive(running: _Running, line: OutputRecord) -> None:
        if isinstance(line, Ended):
            running.ended = line
        else:
            running.step = line.step

    def close(self) -> None:
        """End what is under way: it goes with its driver."""
        if self._running is not None:
            self._end(self._running, Ended("failed", "the job ended"))

    def _end(self, running: _Running, ended: Ended) -> None:
        running.kill()
        running.process.wait()
        if running.process.stdin is not None:
            running.process.stdin.close()
        self._running = None
        self._release()
        self._answers.answer(running.ask, ended.outcome, ended.why)

    # ---- one at a time, whichever query of the job it was asked of ------------------------------

    def _take(self) -> bool:
        if self._lock is not None:
            return False
        path = self._settings.data_dir / "batch-query.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _read_output(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[OutputRecord]) -> None:
    assert process.stdout is not None
    decoder = msgspec.json.Decoder(OutputRecord)
    with process.stdout as output:
        for line in output:
            try:
                lines.put(decoder.decode(line))
            except msgspec.MsgspecError:
                log.warning("a batch query told what cannot be read: %r", line[:200])


def request_of(
    ask: Control, engine: Engine, scenarios: Mapping[str, Scenario], epoch: Epoch
) -> Request:
    """Return the request that the batch query's process gets.

    Raises UnreadableJobRecord, UnreadableStart, ScenarioError, or LookupError where there is
    nothing to be read.
    """
    parameters = parameters_of(ask)
    assert isinstance(parameters, ReadState | WhatIf)
    scenario = scenarios.get(parameters.scenario)
    if scenario is None:
        raise LookupError(f"{parameters.scenario} is not carried by the query {engine}")
    if isinstance(parameters, WhatIf):
        rules = scenario.to_plain(), overlaid(scenario, parameters.changes).to_plain()
        return ReplayRequest(ask.id, parameters.since, *rules, parameters.buckets)
    if measure(epoch.path) is None:
        raise LookupError("nothing has been committed yet: the first batch is under way")
    versions = start_of(epoch).version_epoch(epoch)
    return ReadRequest(ask.id, parameters, scenario.partitions, str(epoch.path), engine, versions)
