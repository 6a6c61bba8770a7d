"""Checks made before anything starts, each with a clear message on failure."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from config.java import find_java
from config.settings import LOOPBACK, PREFIX, Settings
from domain.scenario import ScenarioError
from domain.scenario_parser import load_scenarios
from ops.ports import require_free

LEAST_FREE_BYTES = 200 * 1024 * 1024


class UpProblem(Exception):
    """The product cannot be started; the message says what to do."""


def check_disk(data_dir: Path) -> None:
    """Raise UpProblem if the data directory is not writable or its disk is nearly full."""
    probe = data_dir / f"writable-{os.getpid()}"
    try:
        (data_dir / "logs").mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"tallyboard")
        probe.unlink()
    except OSError as error:
        raise UpProblem(
            f"Cannot write to {data_dir} ({error.strerror}): set TALLYBOARD_DATA_DIR to a "
            "directory that can be written."
        ) from None
    free = shutil.disk_usage(data_dir).free
    if free < LEAST_FREE_BYTES:
        raise UpProblem(
            f"Only {free // 2**20} MB are free for {data_dir}: make room, or set "
            "TALLYBOARD_DATA_DIR to another disk."
        )


def check_files(settings: Settings) -> None:
    """Raise UpProblem if a file named by a setting cannot be used."""
    try:
        scenarios = load_scenarios(settings.scenarios, demo=settings.demo)
    except ScenarioError as error:
        raise UpProblem(f"{PREFIX}SCENARIOS: {error}") from None
    try:
        settings.stored(scenarios)
        settings.carried(scenarios)
    except ValueError as error:
        raise UpProblem(str(error)) from None
    others = {"PROBES": settings.probes if settings.demo else None,
              "KAFKA_CA_FILE": settings.kafka_ca_file}  # fmt: skip
    for name, path in others.items():
        if path and not os.access(path, os.R_OK):
            raise UpProblem(f"{PREFIX}{name}: {path}: cannot be read: expected a file.")


def check_machine(settings: Settings) -> None:
    """Raise JavaProblem or PortProblem for what is missing on this machine."""
    find_java()
    if settings.embedded_broker:
        require_free("127.0.0.1", settings.kafka_port, "TALLYBOARD_KAFKA_PORT")
    require_free(settings.http_host, settings.http_port, "TALLYBOARD_HTTP_PORT")
    if settings.demo:
        require_free("127.0.0.1", settings.target, "TALLYBOARD_TARGET_PORT")
    if settings.catches_mail:
        require_free(LOOPBACK, settings.mail_port, "TALLYBOARD_MAIL_CATCHER_PORT")
    for job in ("", *settings.jobs):
        if port := settings.ui_port_of(job):
            require_free("127.0.0.1", port, "TALLYBOARD_SPARK_UI_PORT")


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data directory's lock. Raises UpProblem if another instance holds it."""
    with (data_dir / "run.lock").open("a+") as lock:
        _acquire(lock, data_dir)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _acquire(lock: IO[str], data_dir: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise UpProblem(
            f"Tallyboard already runs on {data_dir} (process {lock.read().strip()}): stop it, or "
            "set TALLYBOARD_DATA_DIR, TALLYBOARD_HTTP_PORT and TALLYBOARD_KAFKA_PORT for a second."
        ) from None
