"""What a session on a cluster is given, and when the job may start on its executors."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from config.settings import Settings
from streaming.spark import executors, submission
from streaming.spark.executors import Cluster, Executor
from streaming.spark.restart_policy import judge
from streaming.spark.session import VersionProblem, prepare_environment, spark_conf
from streaming.spark.submission import pack_code, properties


def settings(folder: Path, **fields: object) -> Settings:
    return Settings(data_dir=folder, _env_file=None, **fields)  # type: ignore[arg-type,call-arg]


def test_one_machine_has_no_plugin_and_a_cluster_looks_at_checkpoint_and_keys(
    tmp_path: Path,
) -> None:
    assert "spark.plugins" not in spark_conf(settings(tmp_path), 4, ())
    keys = tmp_path / "command-keys.json"
    keys.touch()
    conf = spark_conf(settings(tmp_path, spark_master="spark://m:7077"), 4, ())
    assert conf["spark.plugins"] == "tallyboard.kernel.Executors"
    assert conf["spark.tallyboard.checkpoint"] == str(tmp_path / "checkpoint")
    assert conf["spark.tallyboard.keys"] == str(keys)


def test_the_interpreter_is_the_drivers_unless_one_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    prepare_environment(settings(tmp_path))
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    prepare_environment(settings(tmp_path, spark_python="/bin/sh"))
    assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == (
        "/bin/sh", sys.executable,
    )  # fmt: skip
    with pytest.raises(VersionProblem, match="TALLYBOARD_SPARK_PYTHON is /nowhere/python"):
        prepare_environment(settings(tmp_path, spark_python="/nowhere/python"))


def test_javas_properties_keep_every_value(tmp_path: Path) -> None:
    assert properties({"spark.a": " b\\c\né=\U0001f600", "spark.d": "x=y:z"}) == (
        "spark.a=\\ b\\\\c\\n\\u00e9=\\ud83d\\ude00\nspark.d=x=y:z\n"
    )


def test_the_secret_goes_by_a_file_that_is_gone_once_the_session_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    class Context:
        def addPyFile(self, path: str) -> None:  # noqa: N802, Spark's own name
            seen["code"] = path

    class Session:
        sparkContext = Context()  # noqa: N815, Spark's own name

    def start(conf: Any) -> Session:
        file = tmp_path / "submit.conf"
        seen.update(text=file.read_text(), mode=file.stat().st_mode & 0o777)
        seen["arguments"] = os.environ[submission.SUBMIT]
        return Session()

    monkeypatch.setattr(submission, "_session", start)
    monkeypatch.delenv(submission.SUBMIT, raising=False)
    submission.submit({"spark.authenticate.secret": "of-ours"}, tmp_path)
    assert seen["text"] == "spark.authenticate.secret=of-ours\n"
    assert seen["mode"] == 0o600
    assert "of-ours" not in seen["arguments"]
    assert not (tmp_path / "submit.conf").exists()
    assert submission.SUBMIT not in os.environ
    assert Path(seen["code"]).suffix == ".zip"


def test_the_shipped_code_is_importable_without_the_checkout(tmp_path: Path) -> None:
    archive = pack_code(tmp_path)
    names = zipfile.ZipFile(archive).namelist()
    assert {"rules/loudest.py", "pipelines/report_rates.py", "domain/fold.py"} <= set(names)
    assert not [name for name in names if not name.endswith(".py")]
    assert pack_code(tmp_path) == archive
    code = (
        "import streaming.fold.processor as p; from domain.python_rules import rule_functions; "
        "assert '.zip' in p.__file__; print(rule_functions())"
    )
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": str(archive)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert "'loudest'" in done.stdout, done.stderr
    assert importlib.util.find_spec("rules.loudest")


class Roll:
    """A cluster whose executors a test plays; time passes as it waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, needed: int = 6) -> None:
        self.now = 0.0
        self.executors: list[Executor] = []
        self.said: list[tuple[float, str]] = []
        monkeypatch.setattr(executors, "known_executors", lambda _spark: self.executors)
        monkeypatch.setattr(executors.time, "monotonic", lambda: self.now)
        spark: Any = None
        self.cluster = Cluster(spark, "spark://m:7077", lambda: needed)

    def start(self, until: float = 60, **at: list[Executor]) -> bool:
        """Have executors be there from some second on (`s5=...`); return whether the query may
        start within `until` seconds."""

        def pause(seconds: float) -> None:
            self.now += seconds
            for name, them in at.items():
                if self.now >= float(name[1:]):
                    self.executors = them

        return self.cluster.await_executors(
            lambda: self.now > until, pause, lambda why: self.said.append((self.now, why))
        )


def ready(id_: str, cores: int) -> Executor:
    return Executor(id_, f"host-{id_}", cores, looked=True)


def test_a_query_starts_at_once_with_enough_slots_and_soon_with_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roll = Roll(monkeypatch)
    roll.executors = [ready("0", 4)]
    assert roll.start(s3=[ready("0", 4), ready("1", 4)])
    assert (3 <= roll.now - executors.STEADY_S < 4, roll.said) == (True, [])
    assert roll.cluster.shortage() == ""
    roll.executors = [ready("0", 4)]
    begun = roll.now
    assert roll.start()  # it has begun before: who is missing now was lost
    assert roll.now == begun
    assert roll.cluster.shortage().startswith("Real-time Mode needs 6 slots, the cluster has 4: ")
    fewer = Roll(monkeypatch)
    fewer.executors = [ready("0", 4)]
    assert fewer.start()
    assert executors.SETTLE_S <= fewer.now < executors.SETTLE_S + 1


def test_an_executor_without_the_checkpoint_is_named_within_20_s_and_nothing_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind = Executor(
        "1", "10.0.0.7", 4, True, "absent", "/var/tallyboard/checkpoint", "no such file"
    )
    roll = Roll(monkeypatch)
    assert not roll.start(s2=[ready("0", 8), blind])
    assert len(roll.said) == 1
    at, why = roll.said[0]
    assert at < 20
    assert why.startswith("executor 1 on 10.0.0.7 does not see the checkpoint /var/tallyboard/")
    assert "mount its storage there" in why
    assert "reads and writes nothing" in why
    assert roll.start(until=120, s62=[ready("0", 8), ready("1", 4)])


def test_a_cluster_without_executors_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    roll = Roll(monkeypatch)
    assert not roll.start(s5=[Executor("0", "10.0.0.7", 4)])
    assert [executors.NONE_S <= at < 20 for at, _ in roll.said] == [True]
    assert "spark://m:7077 has given the job no executor" in roll.said[0][1]
    assert "0 on 10.0.0.7" in roll.said[0][1]


def test_slots_that_are_short_pass_by_themselves_on_a_cluster_alone() -> None:
    text = "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] ..."
    assert judge(text, one_machine=False).passes
    assert not judge(text).passes
    assert "local[N]" in judge(text).advice
