"""The small parts of the job: bucket keys, errors, versions, checkpoints, progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from ops import broker
from streaming.fold.progress import batch_figures
from streaming.job.cds_training import NoClasses, wait_for_batches
from streaming.kernel import sources
from streaming.spark import gateway
from streaming.spark.gateway import class_archive, use, write
from streaming.spark.jvm import JVM_OPTIONS
from streaming.spark.restart_policy import first_line, judge
from streaming.spark.session import VersionProblem, check_versions, spark_conf
from streaming.state.buckets import BucketId, bucket_key, bucket_keys, spark_hash
from streaming.state.checkpoint import (
    LogProblem,
    current_epoch,
    drop_uncommitted,
    folders_beside,
    gaps,
    positions,
    raise_epoch,
)
from streaming.state.storage import LocalPath
from wire.topics import Topics


@pytest.mark.parametrize("state_partitions", [2, 3, 4, 8])
def test_buckets_spread_evenly_over_the_state_partitions(state_partitions: int) -> None:
    buckets = [BucketId(name, at) for name in ("attack", "orders") for at in range(8)]
    keys = bucket_keys(buckets, state_partitions)
    assert len(set(keys.values())) == len(buckets)
    held = [spark_hash(key) % state_partitions for key in keys.values()]
    counts = [held.count(at) for at in range(state_partitions)]
    assert max(counts) - min(counts) <= 2


def test_a_key_depends_on_its_own_bucket_alone() -> None:
    one = BucketId("attack", 1)
    assert bucket_keys([one], 4)[one] == bucket_keys([BucketId("new", 0), one], 4)[one]


@pytest.mark.parametrize("bucket", [BucketId("attack", 3), BucketId("a-b", 17)])
def test_a_key_names_its_bucket(bucket: BucketId) -> None:
    assert BucketId.parse(bucket_key(bucket, 4)) == bucket == BucketId.parse(str(bucket))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] ...", "slots"),
     ("TopicMismatch: topic a has 3 partitions, expected 4: a topic's partition count is fixed",
      "partition count"),
     ("WrongSetting: a.reports: message.timestamp.type: expected LogAppendTime", "correct it"),
     ("LogProblem: a/0: the log ends at 3, the checkpoint at 9", "Replay"),
     ("org.apache.kafka.common.errors.SaslAuthenticationException: no", "password"),
     ("NotPermitted: Kafka refuses the topic a (TOPIC_AUTHORIZATION_FAILED): ...", "rights"),
     ("LoginRefused: Kafka refuses the login (SASL authentication error): ...", "KAFKA_USERNAME"),
     ("OSError: hdfs://n/x: o.a.h.security.AccessControlException: Permission denied: user=a",
      "its rights there"),
     ("OSError: s3a://b/x: AccessDeniedException: b: (Status Code: 403)", "credentials"),
     ("OSError: s3a://b/x: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "SPARK_JARS"),
     ("PythonException: Traceback (most recent call last): ValueError", "corrected")],
)  # fmt: skip
def test_errors_that_stay_say_what_is_needed(text: str, wanted: str) -> None:
    verdict = judge(text)
    assert not verdict.passes
    assert wanted in verdict.advice


@pytest.mark.parametrize(
    "text",
    ["Unavailable: no broker", "ExecutorLostFailure (executor 1 exited)",
     "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
     "Python worker exited unexpectedly (crashed) Traceback (most recent call last): EOFError",
     "OSError: hdfs://n/x: java.net.ConnectException: Call From a to n failed: Connection refused",
     "something never seen before"],
)  # fmt: skip
def test_errors_that_pass(text: str) -> None:
    assert judge(text).passes


def test_the_first_line_prefers_the_innermost_cause() -> None:
    assert first_line("a\n  at b\nCaused by: x\n  at c\nCaused by: y\n") == "Caused by: y"
    assert len(first_line("z" * 999)) == 300


def test_epochs(tmp_path: LocalPath) -> None:
    home = tmp_path / "kernel"
    assert current_epoch(home) == (1, home / "epoch-1")
    for number in range(1, 12):
        assert raise_epoch(home).number == number
    (home / "epoch-old").mkdir()
    assert current_epoch(home).number == 11
    other = tmp_path / "python"
    assert current_epoch(other).number == 12
    assert raise_epoch(other).number == 12
    assert raise_epoch(home).number == 13
    assert current_epoch(other).number == 12


def test_each_job_knows_the_folders_of_the_others(tmp_path: LocalPath) -> None:
    assert folders_beside(tmp_path, named=False) == []
    for name in ("shop", "guard"):
        (tmp_path / "jobs" / name).make()
    shop, guard = tmp_path / "jobs" / "shop", tmp_path / "jobs" / "guard"
    assert folders_beside(tmp_path, named=False) == [guard, shop]
    assert folders_beside(shop, named=True) == [tmp_path, guard]


def test_a_checkpoint_without_a_committed_batch_is_dropped(tmp_path: LocalPath) -> None:
    checkpoint = tmp_path / "epoch-1"
    drop_uncommitted(checkpoint)
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "commits" / "0").touch()
    drop_uncommitted(checkpoint)
    assert checkpoint.exists()
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "state").mkdir()
    (checkpoint / "metadata").touch()
    drop_uncommitted(checkpoint)
    assert list(checkpoint.iterdir()) == []


def test_positions_are_those_of_the_last_committed_batch(tmp_path: LocalPath) -> None:
    assert positions(tmp_path) == {}
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch in (8, 9, 10):
        lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({"a.reports": {"0": batch}})]
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
    for batch in (8, 9):
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    (tmp_path / "commits" / ".9.crc").write_text("")
    assert positions(tmp_path) == {("a.reports", 0): 9}


def test_gaps_between_checkpoint_and_log() -> None:
    one, two, gone = ("a.reports", 0), ("a.reports", 1), ("b.reports", 0)
    edges = {one: (7, 20), two: (0, 20)}
    reached = {one: 5, two: 20, gone: 3}
    assert gaps(reached, edges, {one, two}) == [
        "a.reports/0: offsets 5 to 6 are lost",
        "b.reports/0: no longer read",
    ]
    with pytest.raises(LogProblem, match=r"a\.reports/1: the log ends at 20, the checkpoint at 21"):
        gaps({two: 21}, edges, {one, two})


def test_a_connector_of_another_version_is_one_clear_message(tmp_path: LocalPath) -> None:
    pins = tmp_path / "jars.toml"
    pins.write_text('pyspark = "4.3.0"\n[spark]\nmodules = ["g:conn_2.13:4.2.0"]\n')
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "conn_2.13-4.1.0.jar").touch()
    with pytest.raises(VersionProblem, match=r"expected conn_2.13-4.2.0.jar, found conn_2.13-4.1"):
        check_versions(tmp_path, pins)
    pins.write_text('pyspark = "3.5.0"\n')
    with pytest.raises(VersionProblem, match=r"pyspark is 4.3.0, expected 3.5.0"):
        check_versions(tmp_path, pins)


def test_a_job_that_ends_before_its_classes_are_noted_is_not_waited_for() -> None:
    bus, topics = MemoryBus(lambda: 0), Topics()
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs([]))
    with pytest.raises(NoClasses, match="ended before"):
        wait_for_batches(bus, topics, {}, lambda: False)


def test_classes_are_verified_as_java_does_it() -> None:
    options = [*JVM_OPTIONS, *broker.JVM, *use(Path(__file__)), *write(Path(__file__))]
    assert [option for option in options if "verif" in option.lower()] == []


def test_a_class_archive_is_of_the_options_that_it_was_written_with(
    tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = class_archive(tmp_path)
    assert class_archive(tmp_path) == before
    monkeypatch.setattr(gateway, "JVM_OPTIONS", (*JVM_OPTIONS, "-XX:+UseSerialGC"))
    assert class_archive(tmp_path) != before


def test_figures_count_records_where_a_row_holds_many() -> None:
    offsets = {"startOffset": {"a.reports": {"0": 100}}, "endOffset": {"a.reports": {"0": 1_100}}}
    progress = {"numInputRows": 4, "processedRowsPerSecond": 2.0, "sources": [offsets]}
    figures = batch_figures(progress)
    assert (figures["numInputRows"], figures["processedRowsPerSecond"]) == (1_000, 500.0)


@pytest.mark.parametrize("begin", [None, {"a.reports": {"0": 1_099}}, {}])
def test_figures_count_rows_where_offsets_say_no_more(begin: dict[str, dict[str, int]]) -> None:
    source = {"startOffset": begin, "endOffset": {"a.reports": {"0": 1_100}}}
    assert batch_figures({"numInputRows": 4, "sources": [source]})["numInputRows"] == 4


def test_progress_carries_the_promised_figures_alone() -> None:
    custom = {"rocksdbGetCount": 7, "rocksdbFilesReused": 1, "numMapStateVars": 2}
    operator = {"numRowsUpdated": 5, "custom": 1, "customMetrics": custom}
    spark = {"batchId": 3, "runId": "x", "stateOperators": [operator]}
    assert batch_figures(spark) == {
        "batchId": 3,
        "state": {"numRowsUpdated": 5},
        "rocksdb": {"getCount": 7},
    }
    assert batch_figures({"batchId": 0}) == {"batchId": 0, "state": {}}


# ---- who may talk to Spark ----------------------------------------------------------------------


def conf_of(tmp_path: LocalPath, **changes: object) -> dict[str, str]:
    settings = Settings(data_dir=tmp_path, _env_file=None, **changes)  # type: ignore[arg-type,call-arg]
    return spark_conf(settings, 2, ())


def test_on_one_machine_spark_listens_there_alone(tmp_path: LocalPath) -> None:
    for master in (None, "local", "local[3]"):
        conf = conf_of(tmp_path, spark_master=master)
        assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert not (tmp_path / "spark-secret").exists()


def test_on_one_machine_the_kernel_writes_the_checkpoint_and_on_a_cluster_spark(
    tmp_path: LocalPath,
) -> None:
    manager, files = "spark.sql.streaming.checkpointFileManagerClass", "spark.hadoop.fs.file.impl"
    own = conf_of(tmp_path)
    assert (own[manager], own[files]) == (
        "tallyboard.kernel.LocalCheckpoint",
        "tallyboard.kernel.LocalFiles",
    )
    names = {path.stem for path in sources()}
    assert {own[manager].rpartition(".")[2], own[files].rpartition(".")[2]} <= names
    assert not {manager, files} & conf_of(tmp_path, spark_master="spark://tally:7077").keys()


def test_on_one_machine_rows_are_handed_over_in_memory_and_on_a_cluster_by_spark(
    tmp_path: LocalPath,
) -> None:
    manager = "spark.shuffle.manager.incremental"
    own = conf_of(tmp_path)[manager]
    assert own == "tallyboard.kernel.LocalShuffle"
    assert own.rpartition(".")[2] in {path.stem for path in sources()}
    assert manager not in conf_of(tmp_path, spark_master="spark://tally:7077")


def test_on_a_cluster_spark_proves_itself_and_encrypts(tmp_path: LocalPath) -> None:
    conf = conf_of(tmp_path, spark_master="spark://tally:7077")
    secret = conf["spark.authenticate.secret"]
    assert len(secret) > 40
    assert (tmp_path / "spark-secret").stat().st_mode & 0o077 == 0
    again = conf_of(tmp_path, spark_master="local-cluster[1,1,1024]")
    assert again["spark.authenticate.secret"] == secret
    for name in (
        "spark.authenticate",
        "spark.network.crypto.enabled",
        "spark.io.encryption.enabled",
    ):
        assert conf[name] == "true"
    assert conf["spark.network.crypto.saslFallback"] == "false"
    assert "spark.driver.bindAddress" not in conf
    own = conf_of(tmp_path, spark_master="yarn", spark_secret="of-ours")
    assert own["spark.authenticate.secret"] == "of-ours"


def test_on_a_cluster_no_port_without_a_lock_is_opened_unasked(tmp_path: LocalPath) -> None:
    def wanted(**changes: object) -> str:
        return Settings(_env_file=None, **changes).effective_trigger  # type: ignore[arg-type,call-arg]

    assert wanted() == wanted(spark_master="local[4]") == "real-time"
    assert wanted(spark_master="spark://tally:7077") == "micro-batch"
    assert wanted(spark_master="spark://tally:7077", trigger="real-time") == "real-time"
