"""A copy of the product for one measurement: directory, ports and broker of its own.

Nothing of it is left afterwards, also after Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bus.base import BusError, TopicSpec
from bus.kafka import KafkaBus
from config.settings import PREFIX
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from ops.leftovers import MARK, descendants, end_leftovers, mark_of, stat_fields
from ops.ports import free_port
from wire.job import Heartbeat, decode_heartbeat, decode_progress
from wire.keys import KeyFile
from wire.signature import Signer
from wire.topics import Topics

ROOT = Path(__file__).resolve().parent.parent
JARS = Path(os.environ.get(f"{PREFIX}JARS_DIR") or ROOT / ".jars").absolute()
LOOK_S = 0.1
# How often a wait tells how far it is.
SAY_S = 2.0
BEATS_S = 180.0
SHOWN_LINES = 15
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class BenchProblem(Exception):
    """A measurement that cannot be made; the message says why."""


def say(text: str) -> None:
    """Print a line of progress, to stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Engine:
    """An engine of the job, and the trigger that it runs with; None: the product's default."""

    name: str
    trigger: str | None = None

    @classmethod
    def parse(cls, text: str) -> Engine:
        """Read `kernel`, `python` or, with a trigger, `kernel:micro-batch`. Raises ValueError."""
        name, _, trigger = text.partition(":")
        if name not in ("kernel", "python") or trigger not in ("", "real-time", "micro-batch"):
            raise ValueError(
                f"engine {text!r}: expected kernel, kernel:real-time, kernel:micro-batch or python"
            )
        return cls(name, trigger or None)

    def __str__(self) -> str:
        return f"{self.name}:{self.trigger}" if self.trigger else self.name

    def settings(self) -> dict[str, str]:
        """Return the settings that choose it."""
        return {"ENGINE": self.name} | ({"TRIGGER": self.trigger} if self.trigger else {})


class Product:
    """Processes of one copy of the product. `changes`: settings, without their prefix."""

    def __init__(self, folder: Path, scenarios: str, changes: Mapping[str, object]) -> None:
        self.folder = folder
        self.kafka_port, self.http_port = free_port(), free_port()
        self.scenarios_file = folder / "scenarios.toml"
        self.scenarios_file.write_text(scenarios)
        self.scenarios: dict[str, Scenario] = load_scenarios(self.scenarios_file)
        self.topics = Topics()
        self.bus = KafkaBus({"bootstrap.servers": self.bootstrap})
        self._changes = dict(changes)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.kafka_port}"

    @property
    def url(self) -> str:
        """The web server's address."""
        return f"http://127.0.0.1:{self.http_port}"

    def change(self, **changes: object) -> None:
        """Change settings, without their prefix, for what is started from now on."""
        self._changes |= changes

    def signer(self) -> Signer:
        """Return a signer that signs commands as the board does."""
        keys = KeyFile(self.folder / "command-keys.json").made()
        return Signer(keys.ring, lambda: int(time.time() * 1000))

    def environment(self) -> dict[str, str]:
        """Return what its processes inherit: none of this user's own settings."""
        settings: dict[str, object] = {
            "DATA_DIR": self.folder,
            "JARS_DIR": JARS,
            "SCENARIOS": self.scenarios_file,
            "KAFKA_PORT": self.kafka_port,
            "HTTP_PORT": self.http_port,
            **self._changes,
        }
        kept = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
        named = {f"{PREFIX}{name}": str(value) for name, value in settings.items()}
        return {**kept, **named, MARK: mark_of(self.folder), "PYTHONPATH": str(ROOT)}

    def log(self, name: str) -> Path:
        """Return what a process printed."""
        return self.folder / f"{name}.log"

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a Python process in a group of its own; it ends when this one does."""
        return self.start_program(name, sys.executable, *command)

    def start_program(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start any program, as `start` starts Python's."""
        with self.log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "ops.child", *command],
                cwd=self.folder,
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._processes[name]

    def start_broker(self) -> None:
        """Start the broker and make the topics. Raises BenchProblem."""
        self.start("broker", "-m", "ops.broker")
        self.wait(self._broker_answers, 60, "the broker")
        specs = self.topics.specs(self.scenarios.values())
        self.bus.ensure_topics(TopicSpec(*spec) for spec in specs)

    def _broker_answers(self) -> bool:
        try:
            self.bus.wait(1)
        except BusError:
            return False
        return True

    def launch_job(self) -> JobStatus:
        """Start the job, and follow what it tells of itself."""
        status = JobStatus(self)
        self.start("job", "-m", "streaming")
        return status

    def start_job(self, timeout_s: float = 180) -> float:
        """Start the job and wait until its query runs; Unix seconds of when it began to.

        Raises BenchProblem.
        """
        status = self.launch_job()
        try:
            self.wait(status.running, timeout_s, "the job")
        finally:
            status.close()
        return status.since

    def stop(self, name: str) -> None:
        """Ask a process to end, and wait; its descendants are killed if that takes 20 s."""
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()

    def kill(self, name: str) -> None:
        """Kill a process and all below it as `kill -9` does."""
        process = self._processes.pop(name)
        kill_tree(process.pid)
        process.wait()

    def forget(self, name: str) -> None:
        """Note that a process was killed."""
        self._processes.pop(name).wait()

    def pid(self, name: str) -> int:
        """Return the process id of a process that was started."""
        return self._processes[name].pid

    def wait(
        self,
        done: Callable[[], bool],
        timeout_s: float,
        what: str,
        status: Callable[[], str] | None = None,
    ) -> None:
        """Return once `done()`, telling `status()` meanwhile.

        Raises BenchProblem when time is up or a process has ended, with the end of the log.
        """
        begun = said = time.monotonic()
        while not done():
            self.check(what)
            now = time.monotonic()
            if now - begun > timeout_s:
                raise BenchProblem(f"{what}: not within {timeout_s:g} s\n{self.tail('job')}")
            if now - said > SAY_S:
                said = now
                say(f"  {now - begun:5.0f} s  waiting for {what}{status() if status else ''}")
            time.sleep(LOOK_S)

    def check(self, what: str) -> None:
        """Raise BenchProblem when a process has ended while `what` was waited for."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise BenchProblem(f"{name} ended while waiting for {what}\n{self.tail(name)}")

    def tail(self, name: str) -> str:
        """Return the last lines that a process printed."""
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(f"    {name}: {line}" for line in lines[-SHOWN_LINES:])

    def end(self) -> None:
        """Kill everything that bears this copy's mark."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.kill()
        end_leftovers(self.folder, patience_s=0)
        for process in self._processes.values():
            process.wait()


class Following:
    """The values appended to a topic of one partition, from its present end on."""

    def __init__(self, product: Product, topic: str) -> None:
        ends = {place: end for place, (_, end) in product.bus.offsets([topic]).items()}
        self._reader = product.bus.reader(ends)

    def look(self) -> list[bytes | None]:
        """Return what has been appended since the last look."""
        return [message.value for message in self._reader.poll(0, 10_000)]

    def close(self) -> None:
        """Let go of the connection."""
        self._reader.close()


class JobStatus:
    """What the job tells of its query from now on."""

    def __init__(self, product: Product) -> None:
        self._follow = Following(product, product.topics.progress)
        self.since = 0.0
        """Unix seconds of when the query began, be it to catch up first; 0 before that."""

    def running(self) -> bool:
        """Return whether the query has begun to run."""
        for progress in map(decode_progress, self._follow.look()):
            if progress.status in ("catching-up", "running") and not self.since:
                self.since = progress.at / 1000
        return self.since > 0

    def close(self) -> None:
        """Let go of the connection."""
        self._follow.close()


class Beats:
    """The newest heartbeat of each bucket since this was made."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._follow = Following(product, product.topics.buckets)
        self._expected = sum(s.partitions for s in product.scenarios.values())
        self.newest: dict[str, Heartbeat] = {}

    def look(self) -> bool:
        """Take what has come; whether every bucket has sent a heartbeat."""
        for value in self._follow.look():
            beat = decode_heartbeat(value)
            self.newest[beat.bucket] = beat
        return len(self.newest) == self._expected

    def wait(self) -> None:
        """Return once every bucket has sent a heartbeat. Raises BenchProblem."""
        self._product.wait(self.look, BEATS_S, "heartbeats")

    def progress(self) -> str:
        """Return what they say, in words."""
        self.look()
        offsets = sum(beat.offset + 1 for beat in self.newest.values())
        return f": {offsets:,} records so far, {self.assets():,} assets"

    def assets(self) -> int:
        """Return the number of assets in all buckets."""
        return sum(beat.assets for beat in self.newest.values())

    def check(self, engine: Engine) -> None:
        """Raise BenchProblem unless the engine that was asked for is the one that ran."""
        ran = {beat.engine for beat in self.newest.values()}
        if ran != {engine.name}:
            raise BenchProblem(f"asked for the engine {engine.name}, heartbeats tell of {ran}")

    def close(self) -> None:
        """Let go of the connection."""
        self._follow.close()


# Settings with which one login may have all boards open that are measured.
ROOM: dict[str, Any] = {"SOCKETS_PER_SESSION": 2000, "SOCKETS_PER_USER": 2000}


@contextmanager
def product(
    scenarios: str, engine: Engine, *, keep: bool = False, **changes: object
) -> Iterator[Product]:
    """Yield a copy whose broker runs and whose topics are there; it is gone at the end.

    keep: leave its directory where it is. Raises BenchProblem.
    """
    folder = Path(tempfile.mkdtemp(prefix="tallyboard-bench-"))
    copy = Product(folder, scenarios, {**engine.settings(), **changes})
    try:
        copy.start_broker()
        yield copy
    finally:
        with deaf(*INTERRUPTS):
            copy.end()
            if keep:
                say(f"kept: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def deaf(*numbers: signal.Signals) -> Iterator[None]:
    """Ignore these signals while this lasts, and for ever in a process that is started in here."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cpu_seconds(pid: int, proc: Path = Path("/proc")) -> float:
    """Return the processor time of `pid` and everything below it that runs now, s."""
    ticks = 0
    for each in (pid, *descendants(pid, proc)):
        with suppress(OSError):
            user, system = stat_fields(proc / str(each) / "stat")[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, proc: Path = Path("/proc")) -> float:
    """Return the memory of `pid` and everything below it, MB; what they share counts once."""
    kib = 0
    for each in (pid, *descendants(pid, proc)):
        with suppress(OSError):
            lines = (proc / str(each) / "smaps_rollup").read_text().splitlines()
            kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib * 1024 / 1e6


def cpu_of(copy: Product, names: Iterable[str]) -> float:
    """Return the processor time of a copy's processes until now, s."""
    return sum(cpu_seconds(copy.pid(name)) for name in names)


def memory_of(copy: Product, names: Iterable[str]) -> float:
    """Return the memory of a copy's processes, MB."""
    return sum(memory_mb(copy.pid(name)) for name in names)


def thread_seconds(pid: int, part: str, proc: Path = Path("/proc")) -> float:
    """Return the processor time of the threads with `part` in their names in `pid` and below, s."""
    ticks = 0
    for each in (pid, *descendants(pid, proc)):
        for stat in proc.glob(f"{each}/task/*/stat"):
            with suppress(OSError):
                if part in stat.read_text().partition("(")[2].rpartition(")")[0]:
                    user, system = stat_fields(stat)[11:13]
                    ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def disk_bytes(folder: Path) -> int:
    """Return what the files below a folder hold, bytes."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_size if path.is_file() else 0
    return size


def kill_tree(pid: int) -> None:
    """Kill `pid` and everything below it."""
    for each in (pid, *descendants(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
