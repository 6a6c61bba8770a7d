"""`make run`: check, prepare, start everything under the supervisor, report, stop on Ctrl-C."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from config.entry import enter, umask, unknown_settings
from config.java import JavaProblem
from config.settings import Settings
from ops import class_archive, jars, kernel_build, readiness
from ops.checks import UpProblem, check_disk, check_files, check_machine, only_one
from ops.child import die_with_parent
from ops.leftovers import end_leftovers
from ops.ports import PortProblem
from ops.processes import Process, processes
from ops.supervise import (
    ROOT,
    NotRunning,
    Supervisor,
    environment,
    log_path,
    start_supervisor,
)
from ops.watch import Watch

STOP_PATIENCE_S = 8.5
LOOK_S = 0.5
CALM_LOOK_S = 1.0
PATIENCE_S = 20.0
PROBLEMS = (
    UpProblem, JavaProblem, PortProblem, jars.JarsProblem, kernel_build.KernelBuildProblem
)  # fmt: skip
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Console:
    """Progress lines with the seconds since the start."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line."""
        print(f"[{time.monotonic() - self._begun:6.1f} s] {text}", flush=True)


def run(
    settings: Settings, console: Console, only: Collection[str] = (), shared: int = 0o022
) -> None:
    """Start the product, or the processes in `only`, and keep it running until interrupted.

    shared: the umask for the Java archives, which other users may run too. Raises UpProblem,
    JavaProblem, PortProblem, JarsProblem or KernelBuildProblem if the product cannot start.
    """
    check_files(settings)
    check_disk(settings.data_dir)
    with only_one(settings.data_dir):
        if ended := end_leftovers(settings.data_dir, patience_s=8):
            console.say(f"ended {len(ended)} processes that an earlier run had left")
        check_machine(settings)
        chosen = processes(settings, only)
        with umask(shared):
            jars.fetch(settings.jars_dir, lambda text: console.say(f"jars: {text}"))
            kernel_build.build(settings.jars_dir)
            if any(process.name == "job" for process in chosen):
                _write_classes(settings, console)
        instance = Instance(settings, chosen, console)
        try:
            instance.start()
            instance.keep_running()
        finally:
            _ignore_interrupts()
            console.say("stopping")
            instance.stop()
            console.say(f"stopped; everything is kept in {settings.data_dir}")


def _write_classes(settings: Settings, console: Console) -> None:
    """Write the job's class archive at the first start; the product can do without it."""
    try:
        class_archive.build(settings.jars_dir, lambda text: console.say(f"classes: {text}"))
    except class_archive.ClassesProblem as problem:
        console.say(f"classes: {problem}; the job will start more slowly")


class Instance:
    """The supervisor of one data directory, as seen from the console."""

    def __init__(self, settings: Settings, chosen: list[Process], console: Console) -> None:
        self._settings, self._processes, self._console = settings, chosen, console
        self._watch = Watch(settings.data_dir, console.say)
        self._phases = readiness.phases(settings, [process.name for process in chosen])
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._welcomed, self._moved = False, time.monotonic()
        self._asks_job = {process.name for process in chosen} >= readiness.READY_NEEDS

    def start(self) -> None:
        """Start what takes longest, prepare the database meanwhile, then start the rest.

        Raises UpProblem if the database cannot be prepared.
        """
        first = [process for process in self._processes if process.early]
        rest = [process for process in self._processes if not process.early]
        self._say_starting(first)
        self._supervisor = start_supervisor(self._settings.data_dir, self._processes, waiting=rest)
        if rest:
            prepare_database(self._settings, self._console.say)
            self._say_starting(rest)
            _start_all(Supervisor(self._settings.data_dir))

    def _say_starting(self, some: list[Process]) -> None:
        if some:
            self._console.say(f"starting {', '.join(process.name for process in some)}")

    def keep_running(self) -> None:
        """Report what becomes ready and what fails, and replace a supervisor that died; runs for
        ever."""
        while True:
            self._replace_dead_supervisor()
            self._watch.look()
            self._say_progress()
            time.sleep(LOOK_S if self._phases else CALM_LOOK_S)

    def _say_progress(self) -> None:
        while self._phases and self._phases[0].reached():
            self._console.say(self._phases.pop(0).title)
            self._moved = time.monotonic()
        if not self._phases and not self._welcomed:
            self._welcomed = True
            print_welcome(self._settings, _stopped(self._settings) if self._asks_job else "")
        if self._phases and time.monotonic() - self._moved > PATIENCE_S:
            self._moved = time.monotonic()
            log = log_path(self._settings.data_dir, self._phases[0].process)
            self._console.say(f"still waiting for: {self._phases[0].title} (log: {log})")

    def _replace_dead_supervisor(self) -> None:
        if self._supervisor and self._supervisor.poll() is not None:
            log = log_path(self._settings.data_dir, "supervisord")
            self._console.say(f"the supervisor ended and is restarted; its log: {log}")
            end_leftovers(self._settings.data_dir, patience_s=5)
            self._supervisor = start_supervisor(self._settings.data_dir, self._processes)

    def stop(self) -> None:
        """End every process of the instance within ten seconds."""
        if self._supervisor:
            self._supervisor.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(STOP_PATIENCE_S)
        end_leftovers(self._settings.data_dir, patience_s=0.2)


def _start_all(supervisor: Supervisor) -> None:
    for _ in range(round(30 / LOOK_S)):
        with suppress(NotRunning):
            return supervisor.start_all()
        time.sleep(LOOK_S)
    raise UpProblem("The supervisor does not answer: see supervisord.log in the logs directory.")


def prepare_database(settings: Settings, say: Callable[[str], None]) -> None:
    """Migrate the database and add the demo's users. Raises UpProblem naming the log."""
    say("database: applying migrations")
    _manage(settings, "prepare")


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


def _stopped(settings: Settings) -> str:
    """Return the queries stopped from the console, one line each."""
    done = subprocess.run(
        [sys.executable, "manage.py", "stopped"],
        cwd=ROOT,
        env=environment(settings.data_dir),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode == 0 else ""


def print_welcome(settings: Settings, stopped: str = "") -> None:
    """Print the board's address and the demo's logins. stopped: the stopped queries, one per
    line."""
    url = settings.local_url
    print(f"\n  Tallyboard is ready: {url}/")
    logins = settings.data_dir / "demo-logins.json"
    if settings.demo and logins.exists():
        for user, password in json.loads(logins.read_text()).items():
            print(f"    {user:10} {password}")
    for line in stopped.splitlines():
        print(f"  The job's query {line}")
    if stopped:
        print(f"  Its boards stand as they were. An admin starts it again on {url}/job/")
    for line in unknown_settings():
        print(f"  Careful: {line}")
    print("  Ctrl-C stops everything and keeps its state.\n", flush=True)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Run the product in the foreground. Exits with a message if it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m ops.up", description=__doc__)
    parser.add_argument("--tied", action="store_true", help="end when the parent process ends")
    parser.add_argument("--only", default="", help="names of the processes to start, with commas")
    arguments = parser.parse_args()
    if arguments.tied:
        die_with_parent()
    os.chdir(ROOT)
    usual = os.umask(0)
    for number in INTERRUPTS:  # SIGINT too: a shell's background processes start ignoring it
        signal.signal(number, _interrupt)
    try:
        only = [name for name in arguments.only.split(",") if name]
        run(enter(whole=True), Console(), only, shared=usual)
    except PROBLEMS as problem:
        sys.exit(f"tallyboard: {problem}")
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
