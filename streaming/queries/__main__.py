"""`python -m streaming.queries JOB`: one batch query, which the job's driver starts.

Its request comes on standard input, which stays open as long as the driver lives: when it ends, so
does the query.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from typing import BinaryIO

import msgspec

from bus.base import BusError
from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.settings import Settings
from streaming.kernel import KernelProblem
from streaming.queries.protocol import (
    Ended,
    OutputRecord,
    Publisher,
    QueryRefused,
    ReadRequest,
    Request,
    Stepped,
    reason,
    scratch_of,
    start_batch_session,
)
from streaming.queries.replay import what_if
from streaming.queries.state_reader import read_state
from streaming.spark.jvm import JvmLost
from streaming.spark.session import VersionProblem
from wire.job import AskStep
from wire.topics import Topics

log = logging.getLogger("streaming.queries")


class OutputWriter:
    """Writes lines that the driver reads."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def step(self, done: int, of: int, what: str) -> None:
        """Report that `done` of `of` is done."""
        self.write(Stepped(AskStep(done, of, what)))

    def write(self, line: OutputRecord) -> None:
        """Write one line."""
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._out.flush()


def main() -> None:
    """Carry out one batch query, and report how it ended."""
    # What libraries print goes to standard error: standard output is the driver's alone.
    output = OutputWriter(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    settings = enter().for_job("".join(sys.argv[1:]))
    configure_logs(settings.log_level, "batch-query")
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=Request)
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    try:
        ended = Ended("done", _carry_out(settings, request, output))
    except QueryRefused as refused:
        ended = Ended("refused", str(refused))
    except (BusError, VersionProblem, KernelProblem, JvmLost) as problem:
        ended = Ended("failed", str(problem))
    except Exception as error:
        log.debug("the batch query failed", exc_info=error)
        ended = Ended("failed", reason(error, settings))
    shutil.rmtree(scratch_of(settings), ignore_errors=True)
    output.write(ended)
    os._exit(0)  # the JVM ends with its standard input


def _carry_out(settings: Settings, request: Request, output: OutputWriter) -> str:
    """Do it; what it came to, in words."""
    bus = KafkaBus(settings.kafka_options())
    output.step(0, 0, "starting Spark")
    spark = start_batch_session(settings)
    publisher = Publisher(bus, Topics(settings.topic_prefix), request.id)
    try:
        if isinstance(request, ReadRequest):
            scratch = scratch_of(settings)
            return read_state(spark, scratch, request, publisher, output.step)
        return what_if(spark, settings, bus, request, publisher, output.step)
    finally:
        publisher.close()


def _end_with_the_driver() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
