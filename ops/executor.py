"""`python -m ops.executor`: one of Spark's executors in a pod, as its driver on Kubernetes asks.

Spark gives a pod the argument `executor` and describes the rest in the environment. The image's
entry turns that argument into this module, which becomes the executor's JVM.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from config.java import JavaProblem, find_java

MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
# Spark's arguments, each with the variable that holds its value.
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
MEMORY = "SPARK_EXECUTOR_MEMORY"
# Directories and archives that come before Spark's own, as far as they are given.
FIRST = ("SPARK_CONF_DIR", "SPARK_EXTRA_CLASSPATH", "SPARK_CLASSPATH")
# Spark takes its secret from a file only where it knows that it is on Kubernetes.
ON_KUBERNETES = "-Dspark.master=k8s://driver"
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


class ExecutorProblem(Exception):
    """The environment describes no executor; the message says what it lacks."""


def spark_jars() -> Path:
    """Return the folder of Spark's archives, which come with PySpark."""
    return Path(str(metadata.distribution("pyspark").locate_file("pyspark"))) / "jars"


def command(environ: Mapping[str, str], java: Path) -> list[str]:
    """Return the executor's command. Raises ExecutorProblem."""
    names = (*ARGUMENTS.values(), MEMORY)
    if missing := [name for name in names if not environ.get(name)]:
        raise ExecutorProblem(
            f"{', '.join(missing)}: not set: Spark's driver sets them in the pods that it makes "
            "(spark.kubernetes.container.image names this image there); run nothing else with the "
            "argument `executor`"
        )
    path = [environ[name] for name in FIRST if environ.get(name)]
    arguments = [part for name, source in ARGUMENTS.items() for part in (name, environ[source])]
    return [
        *(str(java), *java_options(environ), ON_KUBERNETES),
        *(f"-Xms{environ[MEMORY]}", f"-Xmx{environ[MEMORY]}"),
        *("-cp", os.pathsep.join([*path, f"{spark_jars()}/*"]), MAIN, *arguments),
    ]


def java_options(environ: Mapping[str, str]) -> list[str]:
    """Return Java's options out of SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 and so on, in that order."""
    numbers = sorted(int(match[1]) for match in map(_OPTION.fullmatch, environ) if match)
    return [environ[f"SPARK_JAVA_OPT_{number}"] for number in numbers]


def main() -> None:
    """Become the executor. Exits with a message where there is no Java, or none is described."""
    os.umask(0o077)
    try:
        arguments = command(os.environ, find_java())
    except (ExecutorProblem, JavaProblem) as problem:
        sys.exit(f"executor: {problem}")
    if local := os.environ.get("SPARK_LOCAL_DIRS"):
        os.chdir(local.partition(",")[0])  # Spark puts the archives that it fetches where it runs
    os.execv(arguments[0], arguments)


if __name__ == "__main__":
    main()
