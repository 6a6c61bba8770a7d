"""The job refuses a topic of reports with a setting that would make other states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.base import BusError, TopicSpec
from bus.memory import MemoryBus
from domain.scenario_parser import load_scenarios
from streaming.job.sources import SourceWatch, WrongSetting, bound, check
from streaming.spark import run_loop
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage
from wire.topics import BOUNDED

REPORTS = TOPICS.reports("sites")
COMMAND = (
    f"kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --entity-type topics "
    f"--entity-name {REPORTS} --add-config message.timestamp.type=LogAppendTime"
)


@pytest.fixture
def stage(tmp_path: Path, bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver, begun by the test, whose topic of reports somebody made by hand."""
    made = Stage(tmp_path, bus, monkeypatch)
    made.file.write_text(SCENARIOS)
    bus.ensure_topics([TopicSpec(REPORTS, 2, {})])
    monkeypatch.setattr(run_loop, "PAUSE_STAYING_S", 0.1)
    yield made
    made.end()


def changed(watch: SourceWatch, looks: int) -> list[bool]:
    """What so many looks find."""
    return [watch._is_changed(watch._look()) for _ in range(looks)]


def test_a_topic_that_was_deleted_is_noticed_at_the_third_look(bus: MemoryBus) -> None:
    bus.ensure_topics([TopicSpec("a.reports", 1, {}), TopicSpec("b.reports", 1, {})])
    watch = SourceWatch(bus, ["a.reports", "b.reports"])
    bus.delete("a.reports")
    assert changed(watch, 3) == [False, False, True]


def test_a_broker_that_does_not_name_a_topic_for_a_moment_changes_nothing(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.ensure_topics([TopicSpec("a.reports", 1, {})])
    watch = SourceWatch(bus, ["a.reports"])
    for _ in range(2):
        with monkeypatch.context() as starting:
            starting.setattr(bus, "topic_ids", lambda *_: {})
            assert changed(watch, 2) == [False, False]
        assert changed(watch, 1) == [False]


@pytest.mark.parametrize("again", [True, False], ids=["created again", "with a partition more"])
def test_another_topic_is_noticed_at_once(bus: MemoryBus, *, again: bool) -> None:
    bus.ensure_topics([TopicSpec("a.reports", 1, {})])
    watch = SourceWatch(bus, ["a.reports"])
    if again:
        bus.delete("a.reports")
        bus.ensure_topics([TopicSpec("a.reports", 1, {})])
    else:
        bus.add_partitions("a.reports", 2)
    assert changed(watch, 1) == [True]


def test_topics_as_the_product_makes_them_are_taken(bus: MemoryBus) -> None:
    bus.ensure_topics([TopicSpec("a.reports", 1, {"message.timestamp.type": "LogAppendTime"})])
    check(bus, ["a.reports", "missing.reports"], "k:9092")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [("message.timestamp.type", "CreateTime"), ("cleanup.policy", "compact"),
     ("cleanup.policy", "compact,delete")],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_what_corrects_it(
    bus: MemoryBus, key: str, wrong: str
) -> None:
    bus.ensure_topics([TopicSpec("a.reports", 1, {"message.timestamp.type": "LogAppendTime"})])
    bus.alter("a.reports", {key: wrong})
    with pytest.raises(WrongSetting) as refused:
        check(bus, ["a.reports"], "k1:9092,k2:9092")
    message = str(refused.value)
    assert message.startswith(f"a.reports: {key}: expected ")
    assert f", got {wrong}: kafka-configs.sh --bootstrap-server k1:9092,k2:9092 " in message
    assert "--entity-name a.reports " in message
    assert "\n" not in message


def test_a_topic_of_before_is_bounded_and_left_as_it_is_otherwise(bus: MemoryBus) -> None:
    looser = {"compression.type": "producer", "max.message.bytes": "9000000", "retention.ms": "5"}
    bus.ensure_topics([TopicSpec("a", 1, looser), TopicSpec("b", 1, {**BOUNDED})])
    bus.alter("b", {"max.message.bytes": "70000"})
    assert bound(bus, ["a", "b", "missing"], "k:9092") == []
    settings = bus.settings(["a", "b"])
    assert settings["a"].items() >= {**BOUNDED, "retention.ms": "5"}.items()
    assert settings["b"]["max.message.bytes"] == "70000", "a tighter one stays"


def test_what_kafka_forbids_is_told_with_the_command(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise BusError("TOPIC_AUTHORIZATION_FAILED")

    bus.ensure_topics([TopicSpec("a", 1, {**BOUNDED, "compression.type": "producer"})])
    monkeypatch.setattr(bus, "alter", forbidden)
    (problem,) = bound(bus, ["a"], "k:9092")
    assert problem.startswith("a: compression.type: expected uncompressed, got producer: kafka-con")
    assert problem.endswith("--entity-name a --add-config compression.type=uncompressed")


def test_every_topic_of_the_product_is_bounded() -> None:
    file = load_scenarios(Path("scenarios.toml"))
    for spec in TOPICS.specs(file.values()):
        assert spec.config.items() >= BOUNDED.items(), spec.name


def test_the_job_waits_until_it_is_corrected(stage: Stage, bus: MemoryBus) -> None:
    stage.begin()
    stage.wait_for("waiting")
    report = stage.query_reports()[-1]
    assert f"{REPORTS}: message.timestamp.type: expected LogAppendTime" in report.message
    assert COMMAND.partition("--alter")[2] in report.message
    assert stage.queries == []
    assert stage.rules() == 0, "nothing is appended to a log that may not be read"

    bus.alter(REPORTS, {"message.timestamp.type": "LogAppendTime"})

    wait_until(lambda: stage.queries, 20, "the job does not go on by itself")
    stage.wait_for("running")
