"""The embedded broker: one Kafka node from downloaded archives, its log in the data directory.

`python -m ops.broker` becomes the broker's Java process, so that signals reach it directly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from config.archives import ArchivesProblem, verify
from config.entry import enter
from config.java import JavaProblem, find_java
from config.settings import Settings
from ops.jars import STAMP
from ops.ports import PortProblem, free_port, require_free

JVM = (
    "-Xms96m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # halves the cost of a start; its hot paths are copies and checksums
    # It does not exit when memory runs out: a batch that unpacks to more than there is only ends
    # its own request, which is refused, and everybody else is still served.
)

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=BROKER://127.0.0.1:{port}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={log}
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=16777216
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""

LOGGING = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSS} [%level] %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
logger.started.name=org.apache.kafka.common.utils.AppInfoParser
logger.started.level=info
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
"""


class BrokerProblem(Exception):
    """The broker cannot be started; the message says what to do."""


def prepare(data_dir: Path, jars_dir: Path, port: int) -> list[str]:
    """Write the broker's files into `data_dir/broker`, and return the command that runs it.

    A new log directory is formatted elsewhere and then moved into place, so that a crash leaves
    nothing half-finished. Raises BrokerProblem, JavaProblem or PortProblem.
    """
    require_free("127.0.0.1", port, "TALLYBOARD_KAFKA_PORT")
    if not (jars_dir / STAMP).exists():
        raise BrokerProblem(f"No archives in {jars_dir}: run python -m ops.jars (or make setup).")
    try:
        verify("broker", jars_dir, data_dir)
    except ArchivesProblem as problem:
        raise BrokerProblem(str(problem)) from None
    home = data_dir / "broker"
    home.mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    java = [str(find_java()), *JVM, f"-Dlog4j2.configurationFile={home}/log4j2.properties"]
    java += ["-cp", f"{jars_dir}/broker/*"]
    controller = free_port()
    if not (home / "log").exists():
        _format(java, home, port, controller)
    properties = _write_properties(home, home / "log", port, controller)
    return [*java, "kafka.Kafka", str(properties)]


def _format(java: list[str], home: Path, port: int, controller: int) -> None:
    draft = home / "log.new"
    shutil.rmtree(draft, ignore_errors=True)
    properties = _write_properties(home, draft, port, controller)
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = [
        *java,
        "kafka.tools.StorageTool",
        "format",
        f"--cluster-id={cluster}",
        "-c",
        str(properties),
    ]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerProblem(f"Formatting {draft} failed: {(done.stderr or done.stdout).strip()}")
    draft.rename(home / "log")


def _write_properties(home: Path, log: Path, port: int, controller: int) -> Path:
    path = home / "server.properties"
    escaped = str(log).replace("\\", "\\\\")
    path.write_text(PROPERTIES.format(port=port, controller=controller, log=escaped))
    return path


def run(settings: Settings) -> None:
    """Become the broker. Returns only by raising (see `prepare`)."""
    command = prepare(settings.data_dir, settings.jars_dir, settings.kafka_port)
    os.execv(command[0], command)


def main() -> None:
    """Run the embedded broker in the foreground. Exits with a message if it cannot start."""
    try:
        run(enter())
    except (BrokerProblem, JavaProblem, PortProblem) as problem:
        sys.exit(f"broker: {problem}")


if __name__ == "__main__":
    main()
