"""The Spark session of the job, and the check that what runs together fits together."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from config.archives import ArchivesProblem, listed, verify
from config.java import JavaProblem, set_java_home
from streaming.kernel import build, own_archives
from streaming.spark.conf_file import SparkConfProblem, with_file
from streaming.spark.gateway import attach, class_archive, launch, use
from streaming.spark.jvm import JVM_OPTIONS, LOGGING
from streaming.spark.submission import submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"

# What an executor logs until it knows the driver's settings.
EXECUTOR_OPTIONS = "-Dorg.apache.logging.log4j.level=WARN"

# Longest that a row waits for others in Real-time Mode, on a cluster; see docs/experiments.md.
FLUSH_MS = 15

# Tasks behind a shuffle. A query of the fold has as many as its checkpoint has state partitions.
SHUFFLE_PARTITIONS = 2


class VersionProblem(Exception):
    """PySpark, connector or Java do not fit together; the message says which and what to do."""


def check_versions(jars_dir: Path, pins: Path = ROOT / "ops" / "jars.toml") -> None:
    """Raise VersionProblem unless pyspark and the connector's jars are the pinned ones."""
    present, pinned = metadata.version("pyspark"), tomllib.loads(pins.read_text())
    if present != pinned["pyspark"]:
        raise VersionProblem(f"pyspark is {present}, expected {pinned['pyspark']}: run make setup")
    for module in pinned["spark"]["modules"]:
        _, artifact, version = module.split(":")
        _check_jar(jars_dir / "spark", artifact, version)


def check_archives(settings: Settings) -> list[Path]:
    """Return the archives of TALLYBOARD_SPARK_JARS.

    Raises VersionProblem unless every archive that the JVM loads is the one in the lock, or in that
    list.
    """
    try:
        for group in ("spark", "pyspark"):
            verify(group, settings.jars_dir, settings.data_dir)
        return listed(settings.spark_jars) if settings.spark_jars else []
    except ArchivesProblem as problem:
        raise VersionProblem(str(problem)) from None


def _check_jar(folder: Path, artifact: str, version: str) -> None:
    if (folder / f"{artifact}-{version}.jar").exists():
        return
    others = sorted(path.name for path in folder.glob(f"{artifact}-*.jar"))
    present = ", ".join(others) or "no such archive"
    raise VersionProblem(
        f"{folder}: expected {artifact}-{version}.jar, found {present}: run make setup"
    )


def prepare_environment(settings: Settings) -> None:
    """Set what PySpark reads from the environment when it starts its JVM and its workers.

    Raises VersionProblem without a supported Java, or without the interpreter that is set.
    """
    try:
        set_java_home()
    except JavaProblem as problem:
        raise VersionProblem(str(problem)) from None
    if settings.one_machine:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = _interpreter(settings)
    os.environ["PYSPARK_UDS_MODE"] = "true"
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(ROOT) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *known])


def _interpreter(settings: Settings) -> str:
    """Return the Python that runs tasks in Python, here and on executors. Raises VersionProblem."""
    if settings.spark_python is None:
        return sys.executable
    if not os.access(settings.spark_python, os.X_OK):
        raise VersionProblem(
            f"TALLYBOARD_SPARK_PYTHON is {settings.spark_python}, which is no program on this "
            "machine: expected the path of a Python that this machine and all workers have"
        )
    return str(settings.spark_python)


def scratch_of(settings: Settings, role: str = "") -> Path:
    """Return where Spark keeps what it needs while it runs; a role other than the job's has its
    own."""
    return settings.data_dir / "spark" / role


def spark_conf(
    settings: Settings,
    slots: int,
    java_options: Sequence[str],
    role: str = "",
    more: Sequence[Path] = (),
) -> dict[str, str]:
    """Return Spark's configuration for these settings. slots: tasks that are to run at once; more:
    archives besides our own."""
    master = settings.spark_master or f"local[{slots}]"
    scratch = scratch_of(settings, role)
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        "spark.master": master,
        "spark.app.name": " ".join(
            filter(None, ("tallyboard", settings.topic_prefix, settings.job))
        ),
        **_jars([*own_archives(settings.jars_dir), *more], master),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": " ".join([*JVM_OPTIONS, *java_options]),
        **_access(settings),
        **_executors(settings),
        **_compression(settings),
        **_files(settings),
        **_shuffle(settings),
        "spark.ui.enabled": "true" if settings.spark_ui_port else "false",
        "spark.ui.port": str(settings.ui_port_of(settings.job) or 4040),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.streaming.stateStore.providerClass": store,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stopTimeout": "3s",
        "spark.sql.adaptive.enabled": "false",
        "spark.task.maxFailures": "4",
    }


def _files(settings: Settings) -> dict[str, str]:
    """Return the options of who writes files: on one machine the kernel's own classes, which start
    no processes, and on a cluster Spark's, but in an object store."""
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    objects = (settings.checkpoint or "").startswith("s3a://")
    # Copied through the client that writes all else: Amazon's other one expects another Netty.
    copies = {"spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false"} if objects else {}
    if not settings.one_machine:
        return copies | ({manager: "tallyboard.kernel.ObjectCheckpoint"} if objects else {})
    return copies | {
        "spark.hadoop.fs.file.impl": "tallyboard.kernel.LocalFiles",
        manager: "tallyboard.kernel.LocalCheckpoint",
    }


def _shuffle(settings: Settings) -> dict[str, str]:
    """Return the options of who hands rows from task to task in Real-time Mode: on one machine the
    kernel's own class, in memory."""
    if settings.one_machine:
        return {"spark.shuffle.manager.incremental": "tallyboard.kernel.LocalShuffle"}
    return {"spark.shuffle.streaming.networkBufferMaxWaitTimeMs": str(FLUSH_MS)}


def _access(settings: Settings) -> dict[str, str]:
    """Return the options of who may talk to Spark: only this machine, or who has the secret."""
    if settings.one_machine:
        return {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return {
        "spark.authenticate": "true",
        **_secret(settings),
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
    }


def _secret(settings: Settings) -> dict[str, str]:
    """Return the secret, or on Kubernetes the file that has it in the pods of executors too: Spark
    would put the secret itself into their description."""
    file = settings.spark_secret_file
    if file is not None and (settings.spark_master or "").startswith("k8s:"):
        return {"spark.authenticate.secret.file": str(file)}
    return {"spark.authenticate.secret": settings.cluster_secret()}


def _executors(settings: Settings) -> dict[str, str]:
    """Return the options of executors, which look at what they share before their first task: see
    kernel/SharedStorage.java."""
    if settings.one_machine:
        return {}
    keys = settings.command_keys_file
    return {
        "spark.plugins": "tallyboard.kernel.Executors",
        "spark.tallyboard.checkpoint": settings.checkpoint_place,
        "spark.tallyboard.keys": str(keys) if keys.exists() else "",
        "spark.tallyboard.logging": str(LOGGING),
        "spark.executor.extraJavaOptions": EXECUTOR_OPTIONS,
    }


def _compression(settings: Settings) -> dict[str, str]:
    """Return options that pack nothing where nothing travels: that would be work for no gain."""
    if not settings.one_machine:
        return {}
    return {"spark.shuffle.compress": "false", "spark.shuffle.spill.compress": "false"}


def _jars(archives: Sequence[Path], master: str) -> dict[str, str]:
    """Return the options of archives for executors; on one machine they are on the class path,
    which a class archive needs."""
    if _is_local(master):
        return {}
    return {"spark.jars": ",".join(map(str, archives))}


def _is_local(master: str) -> bool:
    return master.partition("[")[0] == "local"


def start_session(
    settings: Settings, slots: int, java_options: Sequence[str] | None = None, role: str = ""
) -> SparkSession:
    """Start Spark with room for `slots` tasks at once, where the settings do not say more.

    java_options: more options for the JVM; by default those that map the class archive; role: of
    the process, where two share a data directory. Raises VersionProblem or KernelProblem before the
    JVM is started, and JvmLost where it does not start.
    """
    check_versions(settings.jars_dir)
    more = check_archives(settings)
    prepare_environment(settings)
    build(settings.jars_dir)
    if java_options is None:
        java_options = use(class_archive(settings.jars_dir))
    # What a killed JVM left there is of no use to the next.
    scratch = scratch_of(settings, role)
    shutil.rmtree(scratch / "local", ignore_errors=True)
    for folder in ("local", "warehouse"):
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    conf = _whole_conf(settings, spark_conf(settings, slots, java_options, role, more))
    if not _is_local(conf["spark.master"]):
        return submit(conf, scratch)
    options = [*JVM_OPTIONS, *java_options]
    return attach(launch(settings.jars_dir, settings.spark_memory, options, conf, more))


def _whole_conf(settings: Settings, ours: dict[str, str]) -> dict[str, str]:
    """Return the configuration with the settings of an admin's file. Raises VersionProblem."""
    try:
        return with_file(settings.spark_conf, ours)
    except SparkConfProblem as problem:
        raise VersionProblem(str(problem)) from None
