"""A small HDFS in one process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from config.archives import pyspark_jars
from config.java import find_java
from support.run.stack import wait_until
from support.spark.storages.archives import archives

MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
QUICK = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class MiniHdfs:
    """A name node and a data node, whose files lie below `folder`."""

    def __init__(self, folder: Path, jars_dir: Path) -> None:
        self._folder, self._jars = folder, [*archives("hdfs", jars_dir), pyspark_jars() / "*"]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Start it, and wait until its data node has joined."""
        self._folder.mkdir(parents=True, exist_ok=True)
        details = self._folder / "details.json"
        command = [
            *(str(find_java()), *QUICK, "-cp", os.pathsep.join(map(str, self._jars)), MAIN),
            *("-format", "-datanodes", "1", "-nnport", "0", "-httpport", "0"),
            *("-D", f"hadoop.tmp.dir={self._folder}/tmp", "-writeDetails", str(details)),
        ]
        with (self._folder / "hdfs.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        wait_until(lambda: details.exists() or not self._runs(), 240, "no HDFS")
        assert self._runs(), (self._folder / "hdfs.log").read_text()[-3000:]
        self.url = f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it, with all that it holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
