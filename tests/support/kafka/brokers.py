"""What a broker holds, and a second one beside the embedded one."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bus.base import ConsumerRecord
from bus.kafka import KafkaBus
from config.java import find_java
from ops.broker import JVM, LOGGING
from support.run.stack import EmbeddedBroker, free_port, wait_until

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


def _settings(file: Path) -> dict[str, str]:
    """The settings of a file of Java's properties."""
    lines = (line for line in file.read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)
