"""The set-up on a machine without Java: a copy of the tree, an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from config.java import own_java
from ops.supervise import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

HIDDEN = {"apt-get", "java", "python3.11"}
"""Commands that are not on the path, or not as they are here: no Java, and nothing to bring it."""
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "test-results", "node_modules")

BROKER_AND_SPARK = """\
from pathlib import Path

from config.settings import load_settings
from support.run.stack import EmbeddedBroker
from streaming.spark.jvm import end_spark, jvm_process
from streaming.spark.session import start_session

settings = load_settings()
broker = EmbeddedBroker(settings.data_dir, settings.jars_dir)
broker.start()
try:
    spark = start_session(settings, 1)
    for process in (broker._process, jvm_process(spark)):
        print(Path(f"/proc/{process.pid}/exe").readlink())
    print(spark.range(10).count())
    end_spark(spark, patience_s=30, exit_s=30)
finally:
    broker.stop()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the product's sources: nothing is set up in it."""
    return Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=LEFT_OUT))


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds every command but those hidden."""
    folder = tmp_path / "bin"
    folder.mkdir()
    folders = [Path(each) for each in os.environ["PATH"].split(os.pathsep) if Path(each).is_dir()]
    commands = {path.name: path for each in reversed(folders) for path in each.iterdir()}
    for name in commands.keys() - HIDDEN:
        (folder / name).symlink_to(commands[name])
    python = f'#!/bin/sh\nexec {Path(sys.base_prefix, "bin", "python3.11")} "$@"\n'
    (folder / "python3.11").write_text(python)
    (folder / "python3.11").chmod(0o755)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TALLYBOARD_")}
    kept.pop("JAVA_HOME", None)
    return kept | {"PATH": str(folder)}


def run(command: list[str], tree: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_broker_and_spark_run_where_there_was_no_java(
    tree: Path, without_java: dict[str, str]
) -> None:
    said = run(["make", "setup"], tree, without_java)
    assert "setup: installing the Java that requirements-java.lock pins" in said
    assert "classes: done" in said, "the job wrote its class archive with that Java"
    python = str(tree / ".venv" / "bin" / "python")
    ours = {"PYTHONPATH": f"{tree}:{tree / 'tests'}", "TALLYBOARD_DATA_DIR": str(tree / "data")}
    seen = run([python, "-c", BROKER_AND_SPARK], tree, without_java | ours).split()
    java = (own_java(tree / ".venv").parent.parent / "runtime" / "bin" / "java").resolve()
    assert seen[-3:] == [str(java), str(java), "10"], "what Java warns of comes before"
