"""What a broker holds, and a second one beside the embedded one."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bus.base import ConsumerRecord
from bus.kafka import KafkaBus
from config.java import find_java
from ops.broker import JVM, LOGGING
from ops.broker import PROPERTIES as ALONE
from support.run.stack import EmbeddedBroker, free_port, free_ports, wait_until

PROPERTIES = """\
process.roles=broker
node.id=2
controller.quorum.voters={voters}
listeners=BROKER://127.0.0.1:{port}
advertised.listeners=BROKER://127.0.0.1:{port}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={log}
replica.fetch.wait.max.ms=100
"""

# Java's properties: the last line of a name counts.
ONE_OF_THREE = f"""\
{ALONE}
node.id={{node}}
controller.quorum.voters={{voters}}
min.insync.replicas=2
num.io.threads=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
replica.fetch.wait.max.ms=100
"""


def bus_of(broker: EmbeddedBroker) -> KafkaBus:
    """A client of a broker."""
    return KafkaBus({"bootstrap.servers": broker.bootstrap})


def log_of(broker: EmbeddedBroker, topic: str, records: int) -> list[ConsumerRecord]:
    """The records of a topic, once there are so many."""
    bus = bus_of(broker)
    reader = bus.reader({(topic, at): 0 for at in range(bus.partitions(topic))})
    log: list[ConsumerRecord] = []

    def complete() -> bool:
        log.extend(reader.poll(0.2))
        return len(log) >= records and reader.at_end()

    wait_until(complete, 30, f"{topic} does not hold {records} records")
    reader.close()
    return log


class SecondBroker:
    """A broker that follows an embedded one, which is also the controller of both."""

    def __init__(self, first: EmbeddedBroker, folder: Path) -> None:
        self.first, self.port = first, free_port()
        folder.mkdir()
        (folder / "log4j2.properties").write_text(LOGGING)
        self._properties, self._log = folder / "server.properties", folder / "broker.log"
        theirs = _settings(first.data_dir / "broker" / "server.properties")
        self._properties.write_text(
            PROPERTIES.format(
                voters=theirs["controller.quorum.voters"], port=self.port, log=folder / "log"
            )
        )
        self._java = [
            str(find_java()), *JVM, f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
            "-cp", f"{first.jars_dir}/broker/*",
        ]  # fmt: skip
        cluster = _settings(Path(theirs["log.dirs"], "meta.properties"))["cluster.id"]
        form = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
        subprocess.run([*self._java, *form, "-c", str(self._properties)], check=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until the cluster has two brokers."""
        with self._log.open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        admin = AdminClient({"bootstrap.servers": self.first.bootstrap})
        wait_until(lambda: len(admin.list_topics(timeout=5).brokers) == 2, 60, f"see {self._log}")

    def stand_still(self) -> None:
        """Have it do nothing, as a machine that swaps does."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it go on where it stood still."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        if self._process:
            self._process.kill()
            self._process.wait()


class ThreeBrokers(EmbeddedBroker):
    """Three brokers, each a controller too, as plain processes; topics may have three replicas."""

    CLUSTER = "dGhyZWUtYnJva2Vycy0xMg"

    def __init__(self, folder: Path, jars_dir: Path) -> None:
        numbers = free_ports(6)
        super().__init__(folder, jars_dir, numbers[0])
        self.folder, self.ports, self._controllers = folder, numbers[:3], numbers[3:]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all three."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, timeout_s: float = 90) -> None:
        """Start them, and wait until each sees all three."""
        for number in range(3):
            self._format(number)
            self.start_one(number)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wait_until(lambda: _count(admin) == 3, timeout_s, f"see {self.folder}/broker-*.log")

    def start_one(self, number: int) -> None:
        """Start one of them, 0 to 2."""
        command = [*self._java(), "kafka.Kafka", str(self._properties(number))]
        with (self.folder / f"broker-{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT
            )

    def kill_one(self, number: int) -> None:
        """Kill one of them as `kill -9` does."""
        self._processes[number].kill()
        self._processes[number].wait()

    def kill(self) -> None:
        """Kill all three as `kill -9` does."""
        for number in self._processes:
            self.kill_one(number)

    def _java(self) -> list[str]:
        logging = self.folder / "broker-log4j2.properties"
        logging.write_text(LOGGING)
        java = [str(find_java()), *JVM, f"-Dlog4j2.configurationFile={logging}"]
        return [*java, "-cp", f"{self.jars_dir}/broker/*"]

    def _properties(self, number: int) -> Path:
        return self.folder / f"broker-{number}.properties"

    def _format(self, number: int) -> None:
        voters = [f"{at + 1}@127.0.0.1:{port}" for at, port in enumerate(self._controllers)]
        text = ONE_OF_THREE.format(
            node=number + 1, voters=",".join(voters), port=self.ports[number],
            controller=self._controllers[number], log=self.folder / f"broker-{number}",
        )  # fmt: skip
        self._properties(number).write_text(text)
        form = ["kafka.tools.StorageTool", "format", f"--cluster-id={self.CLUSTER}"]
        command = [*self._java(), *form, "-c", str(self._properties(number))]
        subprocess.run(command, check=True, capture_output=True)


def _count(admin: AdminClient) -> int:
    """Return how many brokers answer; 0 while none does."""
    try:
        return len(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        return 0


def _settings(file: Path) -> dict[str, str]:
    """The settings of a file of Java's properties."""
    lines = (line for line in file.read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)
