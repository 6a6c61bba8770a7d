"""The JVM's gateway and its archive of classes, kept from one start to the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from config.archives import pyspark_jars
from config.java import find_java, java_version
from config.settings import load_settings
from streaming.kernel import archive, module_options, own_archives
from streaming.spark.jvm import JVM_OPTIONS, JvmLost

# ---- gateway -------------------------------------------------------------------------------------
# Spark's JVM on one machine, started without Spark's launcher: two scripts and another JVM.
#
# Spark begins to start in it by itself (kernel/Gateway.java) while Python imports PySpark. The
# JVM's class path leaves out what no query of ours uses: Spark would open it, and register some of
# it, at each start.

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

MAIN_CLASS = "tallyboard.kernel.Gateway"
ANSWER = "gateway"
LOOK_S = 0.005
START_S = 120.0

# How the names of archives begin that belong to Hive, machine learning, graphs, Kubernetes, YARN,
# Spark Connect, the Scala shell and ZooKeeper.
UNUSED = (
    *("HikariCP-", "datanucleus-", "derby", "hive-", "javax.jdo-", "javolution-", "jdo-api-"),
    *("jpam-", "jta-", "libfb303-", "libthrift-", "spark-hive", "transaction-api-"),
    *("JLargeArrays-", "JTransforms-", "algebra_", "arpack", "blas-", "breeze", "cats-kernel_"),
    *("lapack-", "spark-graphx_", "spark-mllib", "spire"),
    *("kubernetes-", "spark-kubernetes_", "spark-yarn_", "vertx-", "volcano-", "zjsonpatch-"),
    *("jline-", "spark-connect_", "spark-pipelines_", "spark-repl_"),
    *("curator-", "zookeeper-"),
)


@dataclass(frozen=True)
class Launched:
    """A JVM that starts. answer: the file in which it says how it is reached."""

    process: subprocess.Popen[bytes]
    answer: Path
    conf: Mapping[str, str]


def class_path(jars_dir: Path) -> list[Path]:
    """Return the archives of a JVM on one machine: connector, kernel, and what is used of Spark."""
    spark = [path for path in pyspark_jars().glob("*.jar") if not path.name.startswith(UNUSED)]
    return [*own_archives(jars_dir), *sorted(spark)]


def launch(
    jars_dir: Path,
    memory: str,
    options: Sequence[str],
    conf: Mapping[str, str],
    more: Sequence[Path] = (),
) -> Launched:
    """Start a JVM in which Spark starts with this configuration.

    memory: most of the JVM's heap, as Java takes it; more: archives besides our own, behind all
    others, as a class archive fits as long as its class path comes first. Raises KernelProblem,
    JavaProblem and OSError.
    """
    paths = [*class_path(jars_dir), *more, *_hadoop_configuration()]
    command = [
        *(str(find_java()), "-cp", os.pathsep.join(map(str, paths))),
        *(f"-Xmx{memory}", *module_options(jars_dir), *options),
        *(f"-D{name}={value}" for name, value in conf.items()),
        MAIN_CLASS,
    ]
    # Where the next start deletes what a process that was killed has left.
    folder = tempfile.mkdtemp(prefix="tallyboard-jvm-", dir=conf.get("spark.local.dir"))
    answer = Path(folder, ANSWER)
    process = subprocess.Popen(
        command,
        env={
            **os.environ,
            "SPARK_HOME": str(pyspark_jars().parent),
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
        },
        stdin=subprocess.PIPE,  # at whose end it ends
        preexec_fn=_leave_interrupts,  # noqa: PLW1509 - as PySpark does it
    )
    return Launched(process, answer, conf)


def _hadoop_configuration() -> list[Path]:
    """Return the folder of Hadoop's configuration, where one is named, as Spark's launcher does."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    return [Path(folder)] if folder else []


def _leave_interrupts() -> None:
    """Have Ctrl-C end Python alone, which then stops Spark in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def attach(launched: Launched) -> SparkSession:
    """Return the session of a JVM that was launched, once it is there. Raises JvmLost."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    gateway = connected(launched)
    jvm, conf = gateway.jvm, launched.conf
    session = jvm.tallyboard.kernel.Gateway.session()
    # PySpark asks the JVM for each setting that this has, one by one; Spark has its own.
    few = jvm.SparkConf(False)
    few.setMaster(conf["spark.master"]).setAppName(conf["spark.app.name"])
    context = SparkContext(
        gateway=gateway,
        jsc=jvm.JavaSparkContext(session.sparkContext()),
        conf=SparkConf(_jconf=few),
    )
    return SparkSession(context, session)


def connected(launched: Launched) -> JavaGateway:
    """Return PySpark's gateway to a JVM, as to one that has started Python: by two variables."""
    from pyspark.java_gateway import launch_gateway

    address = _address(launched)
    os.environ.update(address)
    try:
        gateway = launch_gateway()
    finally:
        for name in address:
            del os.environ[name]
    gateway.proc = launched.process
    return gateway


def _address(launched: Launched) -> dict[str, str]:
    """Return where the JVM listens, and its secret. Raises JvmLost."""
    from pyspark.serializers import UTF8Deserializer, read_int

    try:
        _await(launched)
        with launched.answer.open("rb") as answer:
            port, secret = read_int(answer), UTF8Deserializer().loads(answer)
    finally:
        shutil.rmtree(launched.answer.parent, ignore_errors=True)
    return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}


def _await(launched: Launched) -> None:
    """Wait until the JVM has written how it is reached. Raises JvmLost."""
    deadline = time.monotonic() + START_S
    while not launched.answer.exists():
        if launched.process.poll() is not None:
            raise JvmLost(f"Spark's JVM ended with {launched.process.returncode} at its start")
        if time.monotonic() > deadline:
            launched.process.kill()
            raise JvmLost(f"Spark's JVM has not answered for {START_S:g} s at its start")
        time.sleep(LOOK_S)


# ---- cds archive ---------------------------------------------------------------------------------
# The class archive: the classes that the job loads, laid out so that its next JVM maps them.
#
# Half of a start is the parsing of some 17,000 classes. The JVM can write down what it has loaded
# (class data sharing, JEP 350); `streaming/job/cds_training.py` has the job do so once, at set-up.
# Without an archive, or with one that does not fit, everything works, and starts more slowly.


def class_archive(jars_dir: Path) -> Path:
    """Return the path of the class archive, named after its class path, Java and options."""
    digest = hashlib.sha256("\n".join([_java(), *JVM_OPTIONS]).encode())
    for path in class_path(jars_dir):
        digest.update(bytes(path))
    return archive(jars_dir).with_name(f"classes-{digest.hexdigest()[:16]}.jsa")


def _java() -> str:
    """Return which build of Java runs: what it says of its options and its mode is left out."""
    lines = java_version(find_java()).splitlines()
    return "\n".join(line for line in lines if "Runtime Environment" in line)


def use(path: Path) -> tuple[str, ...]:
    """Return the options of a JVM that maps the archive; none if there is no archive."""
    return (
        (f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off") if path.exists() else ()
    )


def write(path: Path) -> tuple[str, ...]:
    """Return the options of a JVM that writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable", "-Xlog:all=error:stderr")


def main() -> None:
    """Exit with 1 unless there is an archive that fits: `python -m streaming.spark.gateway`."""
    sys.exit(not class_archive(load_settings().jars_dir).exists())


if __name__ == "__main__":
    main()
