"""Spark's JVM on one machine: what it is started with, and what is told when it does not start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from config.archives import pyspark_jars
from streaming.kernel import KernelProblem, module_options
from streaming.spark import gateway
from streaming.spark.gateway import UNUSED, Launched, attach, class_path, launch
from streaming.spark.jvm import JvmLost

CONF = {"spark.master": "local[1]", "spark.app.name": "a name"}


def test_the_class_path_has_spark_and_leaves_out_what_no_query_uses(tmp_path: Path) -> None:
    names = [path.name for path in class_path(tmp_path)]
    for wanted in ("kernel-", "spark-core_", "spark-sql_", "spark-catalyst_", "rocksdbjni-"):
        assert any(name.startswith(wanted) for name in names), wanted
    assert not [name for name in names if name.startswith("spark-mllib")]
    assert len(names) == len(set(names))


def test_each_family_that_is_left_out_is_one_of_pyspark() -> None:
    present = [path.name for path in pyspark_jars().glob("*.jar")]
    assert [family for family in UNUSED if not any(n.startswith(family) for n in present)] == []


def test_without_a_compiled_kernel_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KernelProblem, match="run make setup"):
        module_options(tmp_path)


def java(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shell script stand in for Java."""
    path = folder / "java"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(gateway, "find_java", lambda: path)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(gateway, "module_options", lambda _jars: ["--add-opens=a/b=ALL-UNNAMED"])


def launched(folder: Path) -> Launched:
    return launch(folder, "1g", ["-XX:+AnOption"], CONF)


def test_java_is_told_memory_options_and_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, f'for word do echo "$word"; done >{tmp_path}/words', monkeypatch)
    started = launched(tmp_path)
    assert started.process.wait(10) == 0
    words = (tmp_path / "words").read_text().splitlines()
    assert words[0] == "-cp"
    assert words[2:] == [
        *("-Xmx1g", "--add-opens=a/b=ALL-UNNAMED", "-XX:+AnOption"),
        *("-Dspark.master=local[1]", "-Dspark.app.name=a name", "tallyboard.kernel.Gateway"),
    ]


def test_a_jvm_that_ends_at_its_start_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "exit 3", monkeypatch)
    started = launched(tmp_path)
    with pytest.raises(JvmLost, match="ended with 3"):
        attach(started)
    assert not started.answer.parent.exists()


def test_a_jvm_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "exec cat", monkeypatch)
    monkeypatch.setattr(gateway, "START_S", 0.05)
    started = launched(tmp_path)
    with pytest.raises(JvmLost, match="has not answered"):
        attach(started)
    assert started.process.wait(10) < 0
    assert "PYSPARK_GATEWAY_SECRET" not in os.environ
