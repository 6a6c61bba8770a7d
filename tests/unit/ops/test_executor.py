"""The command of an executor in a pod, out of what Spark's driver puts into its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.executor import ExecutorProblem, command, java_options, spark_jars
from support.run.stack import ROOT

POD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@job-0.job:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-7f",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "tallyboard-job-exec-3",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_0": "-Dfirst=1",
    "SPARK_JAVA_OPT_2": "-Dsecond=a b",
}


def test_the_command_says_what_the_environment_says() -> None:
    java, *rest = command(POD, Path("/usr/bin/java"))
    assert java == "/usr/bin/java"
    assert rest[:4] == ["-Dfirst=1", "-Dsecond=a b", "-Dlast=1", "-Dspark.master=k8s://driver"]
    assert rest[4:6] == ["-Xms2g", "-Xmx2g"]
    assert rest[6:8] == ["-cp", f"/opt/spark/conf:{spark_jars()}/*"]
    assert rest[8:] == [
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@job-0.job:7078"),
        *("--executor-id", "3", "--cores", "2", "--app-id", "spark-7f"),
        *("--hostname", "10.0.0.7", "--resourceProfileId", "0"),
        *("--podName", "tallyboard-job-exec-3"),
    ]


def test_options_come_in_the_order_of_their_numbers() -> None:
    assert java_options(POD) == ["-Dfirst=1", "-Dsecond=a b", "-Dlast=1"]
    assert java_options({"SPARK_JAVA_OPT_x": "-D"}) == []


def test_spark_has_the_class_that_is_started() -> None:
    assert list(spark_jars().glob("spark-kubernetes_*.jar"))


def test_without_a_driver_it_says_what_is_missing() -> None:
    with pytest.raises(ExecutorProblem, match=r"SPARK_DRIVER_URL, SPARK_EXECUTOR_MEMORY: not set"):
        command(POD | {"SPARK_DRIVER_URL": "", "SPARK_EXECUTOR_MEMORY": ""}, Path("java"))


def entry(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [ROOT / "ops" / "entrypoint.sh", *arguments],
        cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_images_entry_runs_what_it_is_given() -> None:
    done = entry("sh", "-c", 'echo "$1"; exit 3', "sh", "two words")
    assert (done.stdout, done.returncode) == ("two words\n", 3)


def test_the_images_entry_becomes_an_executor_for_spark() -> None:
    done = entry("executor")
    assert done.returncode == 1
    assert done.stderr.startswith("executor: SPARK_DRIVER_URL, ")
