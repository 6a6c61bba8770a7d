"""A Spark cluster of plain processes: a standalone master and workers, beside one broker or three.

The workers start with an empty environment, as on machines of their own: nothing of the job's
reaches them but what the job ships.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Self

from config.archives import pyspark_jars
from config.java import find_java
from domain.records import Report
from ops.leftovers import descendants
from support.kafka.brokers import ThreeBrokers
from support.run.stack import EmbeddedBroker, free_ports, wait_until
from support.spark.jobs import Job
from wire.source import encode_report

SECRET = "of-the-cluster-9d41c7e2b6f0a853"
"""What the cluster's processes and the job prove themselves with."""

SCENARIO = """\
[{name}]
partitions = {partitions}
vote_lifetime = "1d"
states = [{{ name = "attack" }}, {{ name = "odd" }}, {{ name = "clear" }}]
rule = {{ kind = "latest" }}
"""

PROPERTIES = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.master.rest.enabled false
"""


def scenario(name: str = "sites", partitions: int = 4) -> str:
    """Return a scenario in which each report of a `Feed` changes a state."""
    return SCENARIO.format(name=name, partitions=partitions)


@cache
def can_hide() -> bool:
    """Return whether this machine lets a process have mounts of its own."""
    with suppress(OSError):
        command = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


@dataclass
class Daemon:
    """A process of Spark's own, with its log. arguments: its class and what follows."""

    name: str
    arguments: Sequence[str]
    folder: Path
    hidden: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def start(self) -> None:
        """Start it with an empty environment; where a path is hidden, with mounts of its own."""
        home = pyspark_jars().parent
        java = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [*java, "-cp", f"{home}/jars/*", *self.arguments]
        if self.hidden is not None:
            mount = f'mount -t tmpfs tmpfs "{self.hidden}" && exec "$@"'
            command = ["unshare", "-m", "sh", "-c", mount, "sh", *command]
        bare = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().resolve().parent.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=bare, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill it and what it has started, as `kill -9` does."""
        if self.process is None:
            return
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Worker(Daemon):
    """A worker. `work`: the folder of its executors."""

    cores: int = 4

    @property
    def work(self) -> Path:
        return self.folder / f"{self.name}-work"

    @property
    def executors(self) -> list[int]:
        """The processes of its executors."""
        below = descendants(self.process.pid) if self.process else []
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command_line(pid)]


def command_line(pid: int) -> str:
    """Return what `ps` shows of a process; empty where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@dataclass
class Topology:
    """A cluster, and the broker beside it; jobs are made by `job`."""

    folder: Path
    broker: EmbeddedBroker
    master: Daemon
    workers: list[Worker] = field(default_factory=list)
    url: str = ""
    pages: str = ""
    jobs: list[Job] = field(default_factory=list)

    @property
    def data_dir(self) -> Path:
        """The data directory of the first job, which a blind worker does not see."""
        return self.folder / "job"

    def job(self, prefix: str, text: str = "", **fields: Any) -> Job:
        """Return a job on this cluster, configured and not started. text: its scenarios."""
        folder = self.folder / (f"job-{len(self.jobs)}" if self.jobs else "job")
        variables = {"TALLYBOARD_SPARK_SECRET": SECRET, "SPARK_LOCAL_IP": "127.0.0.1"}
        variables |= fields.pop("variables", {})
        if isinstance(self.broker, ThreeBrokers):
            variables["TALLYBOARD_KAFKA_BOOTSTRAP"] = self.broker.bootstrap
            fields.setdefault("replication", 3)
        made = Job(self.broker, folder, prefix, master=self.url, variables=variables, **fields)
        self.jobs.append(made)
        made.configure(text or scenario())
        return made

    def add_worker(self, cores: int = 4, *, memory: str = "2g", blind: bool = False) -> Worker:
        """Start one more worker, and return it. blind: it does not see the job's data directory."""
        name = f"worker-{len(self.workers)}"
        self.data_dir.mkdir(mode=0o700, exist_ok=True)
        hidden = self.data_dir if blind else None
        worker = Worker(name, (), self.folder, hidden, cores=cores)
        worker.arguments = [
            "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
            "--cores", str(cores), "--memory", memory, "--work-dir", str(worker.work),
            "--properties-file", str(self.folder / "spark.conf"), self.url,
        ]  # fmt: skip
        self.workers.append(worker)
        worker.start()
        registered = "Successfully registered with master"
        wait_until(lambda: registered in worker.text, 60, f"not registered, see {worker.log}")
        return worker

    def executors(self) -> list[int]:
        """The processes of all executors."""
        return [pid for worker in self.workers for pid in worker.executors]

    def clean_up(self) -> None:
        """End every process."""
        for job in self.jobs:
            job.clean_up()
        for daemon in [*self.workers, self.master]:
            daemon.kill()


@contextmanager
def topology(
    folder: Path,
    jars_dir: Path,
    *,
    workers: Sequence[int] = (4, 4),
    brokers: int = 1,
    blind: int | None = None,
    broker: EmbeddedBroker | None = None,
) -> Iterator[Topology]:
    """Yield a master with workers, and a broker or three; all of it ends with the context.

    workers: the cores of each; blind: the worker that does not see the job's data directory;
    broker: one that runs, in place of a new one.
    """
    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        running = broker or stack.enter_context(_brokers(folder, jars_dir, brokers))
        port, pages = free_ports(2)
        settings = folder / "spark.conf"
        settings.touch(mode=0o600)
        settings.write_text(PROPERTIES.format(secret=SECRET))
        arguments = [
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
            "--webui-port", str(pages), "--properties-file", str(settings),
        ]  # fmt: skip
        master = Daemon("master", arguments, folder)
        cluster = Topology(folder, running, master)
        stack.callback(cluster.clean_up)
        cluster.url, cluster.pages = f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{pages}"
        master.start()
        alive = "New state: ALIVE"
        wait_until(lambda: alive in master.text, 60, f"no master, see {master.log}")
        for number, cores in enumerate(workers):
            cluster.add_worker(cores, blind=number == blind)
        yield cluster


@contextmanager
def _brokers(folder: Path, jars_dir: Path, number: int) -> Iterator[EmbeddedBroker]:
    made = ThreeBrokers(folder, jars_dir) if number == 3 else None
    broker = made or EmbeddedBroker(folder / "broker", jars_dir)
    if made is None:
        (folder / "broker").mkdir()
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


class Feed:
    """Reports that come all the time, each of which changes the state of its asset.

    assets: how many there are; rate: reports per second, at most.
    """

    STATES = ("attack", "odd", "clear")

    def __init__(
        self, job: Job, name: str = "sites", *, assets: int = 200, rate: float = 200
    ) -> None:
        self._topic, self._producer = job.topics.reports(name), job.bus.producer(linger_ms=1)
        self._assets, self._pause = assets, 1 / rate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        for number in count():
            if self._over.wait(self._pause):
                return
            self.send(number)

    def send(self, number: int) -> None:
        """Send one report: the asset's state is another than in its last."""
        asset = f"asset-{number % self._assets}"
        state = self.STATES[number // self._assets % len(self.STATES)]
        value = encode_report(Report(asset, "w1", state))
        self._producer.send(self._topic, asset.encode(), value)
        self.sent += 1

    def stop(self) -> None:
        """Send no more; all that was sent is in the log then."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(10)
        assert self._producer.flush(30) == 0
