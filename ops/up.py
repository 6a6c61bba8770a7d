"""`make run`: check, prepare, start everything under the supervisor, report, stop on Ctrl-C."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from config.settings import Settings, load_settings
from ops import jars, readiness
from ops.child import die_with_parent
from ops.java import JavaProblem, find_java
from ops.leftovers import end_leftovers
from ops.ports import PortProblem, require_free
from ops.processes import Process, processes
from ops.supervise import ROOT, environment, log_path, start_supervisor
from ops.watch import Watch

LEAST_FREE_BYTES = 200 * 1024 * 1024
STOP_PATIENCE_S = 8.5
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NEEDS_DATABASE = {"materialiser", "web", "worker"}


class UpProblem(Exception):
    """The product cannot be started; the message says what to do."""


class Console:
    """Progress lines with the seconds since the start."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line."""
        print(f"[{time.monotonic() - self._begun:6.1f} s] {text}", flush=True)


def run(settings: Settings, console: Console, only: Collection[str] = ()) -> None:
    """Start the product, or the processes in `only`, and keep it running until interrupted.

    Raises UpProblem, JavaProblem, PortProblem or jars.JarsProblem when it cannot start.
    """
    check_disk(settings.data_dir)
    with only_one(settings.data_dir):
        if ended := end_leftovers(settings.data_dir, patience_s=8):
            console.say(f"ended {len(ended)} processes that an earlier run had left")
        check_machine(settings)
        jars.fetch(settings.jars_dir, lambda text: console.say(f"jars: {text}"))
        wanted = processes(settings, only)
        if NEEDS_DATABASE & {process.name for process in wanted}:
            prepare_database(settings, console)
        supervise(settings, console, wanted)


def check_disk(data_dir: Path) -> None:
    """Raise UpProblem when the data directory cannot be written, or its disk is nearly full."""
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


def check_machine(settings: Settings) -> None:
    """Raise JavaProblem or PortProblem for what this machine lacks."""
    find_java()
    if settings.embedded_broker:
        require_free("127.0.0.1", settings.kafka_port, "TALLYBOARD_KAFKA_PORT")
    require_free(settings.http_host, settings.http_port, "TALLYBOARD_HTTP_PORT")
    if settings.demo:
        require_free("127.0.0.1", settings.target, "TALLYBOARD_TARGET_PORT")
    if settings.spark_ui_port:
        require_free("127.0.0.1", settings.spark_ui_port, "TALLYBOARD_SPARK_UI_PORT")


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data directory's lock. Raises UpProblem while another copy holds it."""
    with (data_dir / "run.lock").open("a+") as lock:
        _take(lock, data_dir)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _take(lock: IO[str], data_dir: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise UpProblem(
            f"Tallyboard already runs on {data_dir} (process {lock.read().strip()}): stop it, or "
            "set TALLYBOARD_DATA_DIR, TALLYBOARD_HTTP_PORT and TALLYBOARD_KAFKA_PORT for a second."
        ) from None


def prepare_database(settings: Settings, console: Console) -> None:
    """Bring the database and static files up to date. Raises UpProblem naming the log."""
    for name in ("queue", "control"):  # Celery's file transport does not make them
        (settings.data_dir / "celery" / name).mkdir(parents=True, exist_ok=True)
    console.say("database: applying migrations")
    _manage(settings, "migrate", "--noinput")
    if settings.demo:
        _manage(settings, "demo_users")


def _manage(settings: Settings, *arguments: str) -> None:
    path = log_path(settings.data_dir, "prepare")
    with path.open("ab") as log:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment(settings.data_dir),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        last = path.read_text(errors="replace").strip().splitlines()[-1:]
        raise UpProblem(f"manage.py {arguments[0]} failed: {''.join(last)} (all of it in {path})")


def supervise(settings: Settings, console: Console, wanted: list[Process]) -> None:
    """Run the supervisor, again when it dies, until this process is interrupted."""
    names = [process.name for process in wanted]
    console.say(f"starting {', '.join(names)}")
    watch = Watch(settings.data_dir, console.say)
    phases = readiness.phases(settings, names)
    announce = _Once(lambda: print_welcome(settings))
    supervisor = start_supervisor(settings.data_dir, wanted)
    try:
        while True:
            if supervisor.poll() is not None:
                console.say("the supervisor ended and is restarted, see logs/supervisord.log")
                end_leftovers(settings.data_dir, patience_s=5)
                supervisor = start_supervisor(settings.data_dir, wanted)
            watch.look()
            while phases and phases[0].reached():
                console.say(phases.pop(0).title)
            if not phases:
                announce()
            time.sleep(0.3)
    finally:
        _ignore_signals()
        console.say("stopping")
        stop(settings.data_dir, supervisor)
        console.say("stopped; everything is kept in " + str(settings.data_dir))


class _Once:
    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action:
            action()


def stop(data_dir: Path, supervisor: subprocess.Popen[bytes]) -> None:
    """End every process of the instance, within ten seconds."""
    supervisor.terminate()
    with suppress(subprocess.TimeoutExpired):
        supervisor.wait(STOP_PATIENCE_S)
    end_leftovers(data_dir, patience_s=0.2)


def print_welcome(settings: Settings) -> None:
    """Print where the board is and the demo's logins."""
    print(f"\n  Tallyboard is ready: {readiness.base_url(settings)}/")
    logins = settings.data_dir / "demo-logins.json"
    if settings.demo and logins.exists():
        for user, password in json.loads(logins.read_text()).items():
            print(f"    {user:10} {password}")
    print("  Ctrl-C stops everything and keeps its state.\n", flush=True)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Run the product in the foreground; ends with one message when it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m ops.up", description=__doc__)
    parser.add_argument("--tied", action="store_true", help="end when the parent process ends")
    parser.add_argument("--only", default="", help="names of the processes to start, with commas")
    arguments = parser.parse_args()
    if arguments.tied:
        die_with_parent()
    os.chdir(ROOT)
    for (
        number
    ) in INTERRUPTS:  # SIGINT too: a shell starts what it runs in the background deaf to it
        signal.signal(number, _interrupt)
    try:
        run(load_settings(), Console(), [name for name in arguments.only.split(",") if name])
    except (UpProblem, JavaProblem, PortProblem, jars.JarsProblem) as problem:
        sys.exit(f"tallyboard: {problem}")
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
