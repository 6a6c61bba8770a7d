"""Kafka's tools against a real broker: topics, sending, a group's partitions, offsets, resets."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from django.core.management import CommandError, call_command

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from bus.kafka_admin import KafkaAdmin
from dashboard.core.audit.models import AuditEntry
from support.kafka.consumers import LINE, ConsumeProcess, Line
from support.run.stack import EmbeddedBroker, free_port, wait_until

SESSION_S = 6.0
# How much later than the session's end a standby may have taken over.
MARGIN_S = 2.0

Run = Callable[..., str]


@pytest.fixture
def run(broker: EmbeddedBroker, settings: Any, db: None) -> Run:
    """Run a command against the broker; what it prints."""
    settings.TALLYBOARD = broker.settings()

    def command(*arguments: str) -> str:
        output = StringIO()
        call_command(*arguments, stdout=output)
        return output.getvalue()

    return command


@pytest.fixture
def logs(bus: KafkaBus) -> str:
    """A topic of two partitions, with ten records in each."""
    topic = f"logs-{uuid.uuid4().hex[:8]}"
    bus.ensure_topics([TopicSpec(topic, 2, {})])
    fill(bus, topic, 10)
    return topic


@pytest.fixture
def start(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Callable[..., ConsumeProcess]]:
    """Start consumers as processes, which end with the test."""
    processes: list[ConsumeProcess] = []

    def consume(*arguments: str) -> ConsumeProcess:
        processes.append(ConsumeProcess(broker, tmp_path / "data", *arguments))
        return processes[-1]

    yield consume
    for each in processes:
        each.kill()


def fill(bus: KafkaBus, topic: str, each: int) -> None:
    """Send so many records to both partitions."""
    producer = bus.producer()
    for number in range(2 * each):
        producer.send(topic, None, b"%d" % (number // 2), partition=number % 2)
    assert producer.flush(20) == 0


def printed(text: str, event: str) -> list[Line]:
    """The lines of one kind in what a command printed."""
    lines = [Line(int(m["consumer"]), m["event"], m["text"]) for m in LINE.finditer(text)]
    return [line for line in lines if line.event == event]


def offsets_read(lines: list[Line]) -> dict[str, list[int]]:
    """The offsets that were read of each partition, in order."""
    read: dict[str, list[int]] = {}
    for line in lines:
        read.setdefault(line.place, []).append(line.number("offset"))
    return read


# ---- topics -------------------------------------------------------------------------------------


def test_a_topic_is_made_and_described(run: Run) -> None:
    topic = f"userLogins-{uuid.uuid4().hex[:8]}"
    text = run("topics", "create", topic, "--partitions", "4", "--config", "retention.ms=60000")
    assert text == f"Topic {topic} is made: 4 partitions, replication 1.\n"
    described = run("topics", "describe", topic).splitlines()
    assert described[0].startswith(f"{topic} partitions=4 cleanup.policy=delete retention.ms=60000")
    assert described[1].split() == [
        "partition", "leader", "in-sync", "replicas", "begin", "high-watermark", "log-end",
    ]  # fmt: skip
    assert [line.split()[0] for line in described[2:]] == ["0", "1", "2", "3"]
    assert all(re.match(r"  \d +1@127\.0\.0\.1:\d+ +1 +1 +0 +0 +0$", row) for row in described[2:])
    assert topic in run("topics", "describe")
    assert AuditEntry.objects.filter(action="topic.created", target=topic).count() == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("userLogins", "--replication", "2"),
            r"cannot have 2 .*: the cluster has 1 broker\.",
        ),
        (("user logins",), "one or more characters other than ASCII alphanumerics"),
        (("userLogins", "--config", "retention=1"), "Unknown topic config name: retention"),
        (("userLogins", "--partitions", "0"), "expected 1 to 1,000, got '0'"),
        (("userLogins", "--config", "retention"), "expected KEY=VALUE"),
    ],
)
def test_what_the_cluster_cannot_have_is_refused_in_words(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        run("topics", "create", *arguments)
    assert "userLogins " not in run("topics", "describe")


def test_a_topic_is_made_once(run: Run, logs: str) -> None:
    with pytest.raises(CommandError, match=f"There is a topic {logs} already"):
        run("topics", "create", logs)
    with pytest.raises(CommandError, match="There is no topic missing"):
        run("topics", "describe", "missing")


def test_the_beginning_after_a_deletion_is_not_0(run: Run, broker, logs: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(logs, 0, 4)]).values():
        future.result(20)
    rows = [line.split()[4:] for line in run("topics", "describe", logs).splitlines()[2:]]
    assert rows == [["4", "10", "10"], ["0", "10", "10"]]
    text = run("consume", logs, "--group", "deleted", "--seek", "begin", "--idle", "100ms")
    read = offsets_read(printed(text, "record"))
    assert read == {f"{logs}/0": [*range(4, 10)], f"{logs}/1": [*range(10)]}
    with pytest.raises(CommandError, match=f"{logs}/0 holds no offset 0: expected 4 to 10"):
        run("consume", logs, "--group", "deleted", "--seek", "0")


# ---- produce ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["--sync", "--async", "--callback"])
def test_each_record_sent_prints_partition_and_offset(run: Run, bus, logs: str, way: str) -> None:
    lines = run("produce", logs, "--count", "20", way).splitlines()
    places = [re.fullmatch(rf"KEY-\d+ {logs}/([01]) offset=(\d+)", line) for line in lines[:-1]]
    assert len(places) == 20
    offsets = {(int(place[1]), int(place[2])) for place in places if place}
    ends = {partition: end for (_, partition), (_, end) in bus.offsets([logs]).items()}
    assert offsets == {(p, at) for p, end in ends.items() for at in range(10, end)}
    assert re.fullmatch(rf"20 of 20 records delivered in [0-9.]+ s, {way[2:]}\.", lines[-1])


@pytest.mark.spread(1)
@pytest.mark.parametrize(("way", "errors"), [("--sync", 1), ("--async", 5), ("--callback", 5)])
def test_without_a_broker_each_record_sent_prints_its_error(
    run: Run, settings: Any, way: str, errors: int
) -> None:
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"kafka_port": free_port()})
    output = StringIO()
    with pytest.raises(CommandError, match=r"0 of 5 records delivered"):
        call_command("produce", "logs", "--count=5", way, "--timeout=1s", stdout=output)
    error_lines = re.findall(r"^KEY-\d error: _MSG_TIMED_OUT", output.getvalue(), re.MULTILINE)
    assert len(error_lines) == errors


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_kafka_tools.py::"
    "test_without_a_broker_each_record_sent_prints_its_error"
)
def test_the_other_commands_say_that_no_broker_answers(run: Run, settings: Any) -> None:
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"kafka_port": free_port()})
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:\d+ does not answer: _TRANSPORT"):
        run("topics", "describe")


def test_a_topic_of_the_product_is_not_written_to(run: Run) -> None:
    with pytest.raises(CommandError, match=r"attack\.reports is a topic of the product"):
        run("produce", "attack.reports")
    with pytest.raises(CommandError, match="There is no topic missing"):
        run("produce", "missing")


# ---- consume ------------------------------------------------------------------------------------


def test_one_consumer_has_both_partitions_and_says_how_far_it_is(run: Run, logs: str) -> None:
    text = run("consume", logs, "--group", logs, "--max-records", "5", "--idle", "100ms")
    assert [line.text for line in printed(text, "assigned")] == [f"{logs}/0 {logs}/1"]
    assert [line.text for line in printed(text, "revoked")] == [f"{logs}/0 {logs}/1"]
    assert offsets_read(printed(text, "record")) == {f"{logs}/{p}": [*range(10)] for p in (0, 1)}
    for line in printed(text, "offsets"):
        assert line.number("position") == line.number("committed")
        assert (line.number("high-watermark"), line.number("log-end")) == (10, 10)
    events = " ".join(match["event"] for match in LINE.finditer(text))
    assert max(batch.count("record") for batch in events.split("offsets")) == 5


def test_the_commit_is_the_last_offset_and_one_with_a_text(run: Run, broker, logs: str) -> None:
    text = run("consume", logs, "--group", logs, "--max-records", "5", "--idle", "100ms")
    commits = offsets_read(printed(text, "commit"))
    records = offsets_read(printed(text, "record"))
    assert {place: offsets[-1] for place, offsets in commits.items()} == {
        place: offsets[-1] + 1 for place, offsets in records.items()
    }
    kept = KafkaAdmin({"bootstrap.servers": broker.bootstrap}).committed(logs)
    assert {place: at.offset for place, at in kept.items()} == {(logs, 0): 10, (logs, 1): 10}
    assert all(re.fullmatch(r"consume-\d+-1", at.metadata) for at in kept.values())


def test_a_group_goes_on_where_it_was_and_another_gets_all(run: Run, bus, logs: str) -> None:
    run("consume", logs, "--group", f"{logs}-a", "--idle", "100ms")
    fill(bus, logs, 3)
    again = run("consume", logs, "--group", f"{logs}-a", "--idle", "100ms")
    other = run("consume", logs, "--group", f"{logs}-b", "--idle", "100ms")
    late = run("consume", logs, "--group", f"{logs}-c", "--idle", "100ms", "--reset", "latest")
    assert offsets_read(printed(again, "record")) == {f"{logs}/{p}": [10, 11, 12] for p in (0, 1)}
    assert offsets_read(printed(other, "record")) == {f"{logs}/{p}": [*range(13)] for p in (0, 1)}
    assert printed(late, "record") == []


def test_commits_every_so_often_come_late_and_at_the_end(run: Run, logs: str) -> None:
    text = run("consume", logs, "--group", logs, "--commit", "60s", "--idle", "100ms")
    events = [match["event"] for match in LINE.finditer(text)]
    assert events.index("commit") > max(at for at, e in enumerate(events) if e == "offsets")
    assert all("committed=- " in line.text for line in printed(text, "offsets"))
    assert [line.number("offset") for line in printed(text, "commit")] == [10, 10]


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("seek", "first"), [("end", None), ("7", 7), ("2000-01-01T00:00:00Z", 0), ("2100-01-01", None)]
)
def test_a_seek_goes_before_what_was_committed(
    run: Run, logs: str, seek: str, first: int | None
) -> None:
    run("consume", logs, "--group", logs, "--idle", "100ms")
    text = run("consume", logs, "--group", logs, "--seek", seek, "--idle", "100ms")
    wanted = {} if first is None else {f"{logs}/{p}": [*range(first, 10)] for p in (0, 1)}
    assert offsets_read(printed(text, "record")) == wanted


def test_one_consumer_reads_several_topics(run: Run, bus: KafkaBus, logs: str) -> None:
    other = f"{logs}-other"
    bus.ensure_topics([TopicSpec(other, 1, {})])
    bus.producer().send_and_wait(other, b"k", b"v")
    text = run("consume", logs, other, "--group", logs, "--idle", "100ms")
    assert offsets_read(printed(text, "record")).keys() == {f"{logs}/0", f"{logs}/1", f"{other}/0"}


def test_a_session_timeout_that_the_broker_refuses_is_said(run: Run, logs: str) -> None:
    with pytest.raises(CommandError, match=r"it takes 6 s to 30 min"):
        run("consume", logs, "--group", logs, "--session-timeout", "1s")


def test_of_three_threads_one_stands_by(run: Run, logs: str) -> None:
    text = run("consume", logs, "--group", logs, "--consumers", "3", "--idle", "100ms")
    last = {line.consumer: line.text for line in printed(text, "assigned")}
    assert sorted(last.values()) == [f"{logs}/0", f"{logs}/1", "nothing, it stands by"]


def three(
    start: Callable[..., ConsumeProcess], logs: str, *options: str
) -> tuple[ConsumeProcess, ConsumeProcess, ConsumeProcess]:
    """Three processes of a group: the first two have a partition each, the third none."""
    processes = [start(logs, "--group", logs, *options) for _ in range(3)]

    def settled() -> bool:
        each_has = [each.assigned() for each in processes]
        return sorted(map(str, each_has)) == [f"['{logs}/0']", f"['{logs}/1']", "[]"]

    wait_until(settled, 60, "of three consumers one stands by")
    first, second, third = sorted(processes, key=lambda each: each.assigned() or ["~"])
    return first, second, third


def position(process: ConsumeProcess) -> int:
    """The next offset that a process would read of its partition; 0 before it has read."""
    offsets = process.lines("offsets")
    return offsets[-1].number("position") if offsets else 0


def heir_of(place: str, *processes: ConsumeProcess) -> dict[str, list[int]]:
    """The offsets of a partition that these processes have read between them."""
    lines = [line for each in processes for line in each.lines("record") if line.place == place]
    return offsets_read(lines)


def shares(*processes: ConsumeProcess) -> list[str]:
    """The partitions that processes have, in order; one that two have is there twice."""
    return sorted(place for each in processes for place in each.assigned() or ())


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_kafka_tools.py::"
    "test_a_group_goes_on_where_it_was_and_another_gets_all"
)
@pytest.mark.slow
def test_a_standby_takes_over_from_one_killed_and_reads_again(
    run: Run, bus: KafkaBus, start: Callable[..., ConsumeProcess], logs: str
) -> None:
    """Position 20, committed 10: what was read past the commit comes again, none is missing."""
    run("reset-offsets", "--group", logs, "--topic", logs, "--to", "10", "--apply")
    timeout = f"{SESSION_S:g}s"
    first, second, standby = three(start, logs, "--session-timeout", timeout, "--commit", "60s")
    fill(bus, logs, 10)
    wait_until(lambda: position(first) == position(second) == 20, 20, "both read")
    assert all(line.number("committed") == 10 for line in first.lines("offsets"))

    first.kill()
    wait_until(
        lambda: shares(second, standby) == [f"{logs}/0", f"{logs}/1"],
        SESSION_S + MARGIN_S,
        f"nobody has {logs}/0",
    )
    read_again = {f"{logs}/0": [*range(10, 20)]}
    assert offsets_read(first.lines("record")) == read_again
    wait_until(lambda: heir_of(f"{logs}/0", second, standby) == read_again, 20, "it is read again")


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_kafka_tools.py::test_of_three_threads_one_stands_by"
)
@pytest.mark.slow
def test_one_that_leaves_is_replaced_at_once(
    start: Callable[..., ConsumeProcess], logs: str
) -> None:
    """A signal ends the poll, and leaving needs no session to end."""
    first, second, standby = three(start, logs, "--session-timeout", "60s")
    assert first.stop() == 0
    assert first.lines()[-1].event == "revoked"

    wait_until(
        lambda: shares(second, standby) == [f"{logs}/0", f"{logs}/1"],
        10,
        "the standby has the partition",
    )


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_kafka_tools.py::"
    "test_a_group_goes_on_where_it_was_and_another_gets_all"
)
def test_a_consumer_outlives_its_broker(tmp_path: Path, jars_dir: Path) -> None:
    broker = EmbeddedBroker(tmp_path, jars_dir)
    broker.start()
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    bus.ensure_topics([TopicSpec("logs", 2, {})])
    fill(bus, "logs", 5)
    consumer = ConsumeProcess(broker, tmp_path / "data", "logs", "--group", "logs")
    try:
        wait_until(lambda: len(consumer.lines("record")) == 10, 30, "it reads")
        broker.kill()
        broker.start()
        fill(bus, "logs", 5)
        wait_until(lambda: len(consumer.lines("record")) >= 20, 60, "it reads on")
        read = offsets_read(consumer.lines("record"))
        assert {place: set(offsets) for place, offsets in read.items()} == {
            f"logs/{partition}": set(range(10)) for partition in (0, 1)
        }
        assert consumer.stop() == 0
        assert committed(broker, "logs") == {0: 10, 1: 10}
    finally:
        consumer.kill()
        broker.kill()


# ---- reset-offsets ------------------------------------------------------------------------------


def committed(broker: EmbeddedBroker, group: str) -> dict[int, int]:
    """What a group has committed, by partition."""
    kept = KafkaAdmin({"bootstrap.servers": broker.bootstrap}).committed(group)
    return {partition: at.offset for (_, partition), at in kept.items()}


def test_a_reset_is_shown_first_and_done_when_asked(run: Run, broker, logs: str) -> None:
    run("consume", logs, "--group", logs, "--idle", "100ms")
    asked = ("reset-offsets", "--group", logs, "--topic", logs, "--to")
    shown = run(*asked, "earliest").splitlines()
    assert [row.split(maxsplit=5) for row in shown[1:3]] == [
        ["0", "10", "0", "0", "10", "10 again"],
        ["1", "10", "0", "0", "10", "10 again"],
    ]
    assert shown[3] == "Nothing has been changed. Add --apply to reset the group."
    assert committed(broker, logs) == {0: 10, 1: 10}

    run(*asked, "3", "--partition", "1", "--apply")
    assert committed(broker, logs) == {0: 10, 1: 3}
    assert re.search(r"^1 +3 +10 +0 +10 +7 skipped$", run(*asked, "latest"), re.MULTILINE)
    run(*asked, "2000-01-01T00:00:00Z", "--apply")
    assert committed(broker, logs) == {0: 0, 1: 0}
    entry = AuditEntry.objects.filter(action="offsets.reset").latest("number")
    assert entry.target == logs
    assert json.loads(entry.facts)["offsets"] == {"0": 0, "1": 0}

    text = run("consume", logs, "--group", logs, "--idle", "100ms")
    assert offsets_read(printed(text, "record")) == {f"{logs}/{p}": [*range(10)] for p in (0, 1)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "11"), "holds no offset 11: expected 0 to 10"),
        (("--to", "1", "--partition", "2"), "has no partition 2: expected 0 to 1"),
        (("--to", "soon"), "expected begin, earliest, end, latest, an offset, or a time"),
    ],
)
def test_a_reset_to_what_is_not_there_is_refused(
    run: Run, broker, logs: str, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        run("reset-offsets", "--group", logs, "--topic", logs, *arguments, "--apply")
    assert committed(broker, logs) == {}


def test_a_group_with_members_is_not_reset(
    run: Run, broker, start: Callable[..., ConsumeProcess], logs: str
) -> None:
    member = start(logs, "--group", logs)
    wait_until(lambda: len(member.lines("commit")) >= 2, 30, "it commits")
    asked = ("reset-offsets", "--group", logs, "--topic", logs, "--to", "earliest", "--apply")
    with pytest.raises(CommandError, match=rf"has 1 members \(consume-{member.process.pid}-1 on"):
        run(*asked)
    assert committed(broker, logs) == {0: 10, 1: 10}
    assert member.stop() == 0
    run(*asked)
    assert committed(broker, logs) == {0: 0, 1: 0}
