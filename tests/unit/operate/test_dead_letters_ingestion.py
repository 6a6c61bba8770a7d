"""Dead letters into the database: each refused record once, whatever is told or read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.base import ConsumerRecord
from bus.memory import MemoryBus
from dashboard.core.common import retention as common_retention
from dashboard.core.states.models import SinkOffset
from dashboard.operate.administration import tasks
from dashboard.operate.dead_letters import ingestion, models
from dashboard.operate.dead_letters.ingestion import UnreadableLetter, read_letter
from dashboard.operate.dead_letters.models import OPEN, DeadLetter, LetterCount
from dashboard.serve.materialiser.worker import Materialiser
from domain.records import DEAD_LETTER_REASONS, Report
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob
from support.run.selection import examples
from wire.sink import DeadRecord, Headers, encode_dead_letter
from wire.topics import Topics

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml")
NOW = 1_790_000_000_000


def catch_up(job: PlayedJob) -> None:
    """Fold, then materialise until nothing more arrives."""
    job.run()
    worker = Materialiser(job.bus, job.topics, SCENARIOS, lambda: NOW)
    while worker.step():
        pass
    worker.close()


def put(job: PlayedJob, key: bytes | None, value: bytes, headers: Headers = ()) -> None:
    """Append bytes to a source topic, as any producer may."""
    job.producer.send_and_wait(job.topics.reports("attack"), key, value, headers=headers)


def tell(job: PlayedJob, offset: int, reason: str = "not-json") -> None:
    """Tell of a refused record, as the job does after a replay too."""
    dead = DeadRecord(reason, job.topics.reports("attack"), 0, offset, NOW, b"shop", b"{")
    key, value, headers = encode_dead_letter(dead)
    job.producer.send_and_wait(job.topics.dead_letters, key, value, headers=headers)


def rows() -> list[tuple]:
    return list(DeadLetter.objects.order_by("id").values_list("offset", "repeats", "status"))


def test_what_the_job_refuses_is_kept_as_it_came(job):
    put(job, b"shop", b'{"type":"report","agent":"waf-1","state":"on-fire"}', [("trace", b"\xff")])
    catch_up(job)
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.scenario, letter.status) == ("unknown-state", "attack", OPEN)
    assert (letter.asset, letter.agent, letter.whole) == ("shop", "waf-1", True)
    assert (letter.record_key, letter.size) == (b"shop", len(letter.record_value or b""))
    assert letter.topic == job.topics.reports("attack")
    assert letter.headers == '[["trace","/w=="]]'


@pytest.mark.parametrize("back", range(1, 7))
def test_reading_the_topic_again_from_anywhere_changes_nothing(job, back):
    for offset in (5, 6, 5, 7, 6):
        tell(job, offset)
    catch_up(job)
    before = rows()
    assert before == [(5, 1, OPEN), (6, 1, OPEN), (7, 0, OPEN)]
    place = SinkOffset.objects.get(topic=job.topics.dead_letters)
    place.next_offset = max(0, place.next_offset - back)
    place.save()
    catch_up(job)
    assert rows() == before


def test_a_job_that_replays_tells_of_the_same_records_and_nothing_comes_twice(job):
    put(job, b"shop", b"{")
    put(job, b"shop", b'{"type":"report"}')
    catch_up(job)
    replay = PlayedJob.__new__(PlayedJob)
    replay.__dict__ = {**job.__dict__}
    replay.buckets = PlayedJob(MemoryBus(lambda: NOW), SCENARIOS.values()).buckets
    catch_up(replay)
    assert [(repeats, status) for _, repeats, status in rows()] == [(1, OPEN), (1, OPEN)]


def test_a_letter_that_was_dealt_with_stays_so_when_it_is_told_again(job):
    tell(job, 5)
    catch_up(job)
    DeadLetter.objects.update(status="discarded")
    tell(job, 5)
    catch_up(job)
    assert rows() == [(5, 1, "discarded")]


def test_offsets_and_letters_are_written_together(job, monkeypatch):
    tell(job, 5)
    job.run()
    monkeypatch.setattr(
        "dashboard.serve.materialiser.writer.advance_offsets",
        lambda _: (_ for _ in ()).throw(ZeroDivisionError),
    )
    worker = Materialiser(job.bus, job.topics, SCENARIOS, lambda: NOW)
    with pytest.raises(ZeroDivisionError):
        worker.step()
    assert rows() == []


def test_what_is_no_dead_letter_is_passed_over(job):
    for headers in ([], [("reason", b"because")], [("reason", b"\xff")]):
        job.producer.send_and_wait(job.topics.dead_letters, b"x", b"y", headers=headers)
    tell(job, 5)
    job.put("attack", Report("shop", "waf-1", "clear"))
    catch_up(job)
    assert rows() == [(5, 0, OPEN)]


def test_only_the_newest_are_kept_and_what_goes_is_counted(job, monkeypatch):
    monkeypatch.setattr(models, "MAX_LETTERS", 3)
    monkeypatch.setattr(common_retention, "PORTION", 2)
    for offset in range(8):
        tell(job, offset)
    catch_up(job)
    assert [offset for offset, *_ in rows()] == [5, 6, 7]
    assert LetterCount.objects.get(what="thinned").n == 5 == models.deleted_count()


def test_old_letters_go_by_schedule(job, monkeypatch):
    for offset in range(3):
        tell(job, offset)
    catch_up(job)
    DeadLetter.objects.filter(offset__lt=2).update(noted_at=NOW - models.KEPT_MS - 1)
    monkeypatch.setattr(tasks, "now_ms", lambda: NOW)
    assert tasks.apply_retention() == {"dead letters": 2}
    assert tasks.apply_retention() == {}
    assert [offset for offset, *_ in rows()] == [2]
    assert models.deleted_count() == 2


@given(
    reason=st.sampled_from(DEAD_LETTER_REASONS),
    key=st.none() | st.binary(max_size=6_000),
    value=st.none() | st.binary(max_size=300),
    headers=st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20)), max_size=4),
)
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_key_value_and_headers_can_be_kept(reason, key, value, headers):
    dead = DeadRecord(reason, "attack.reports", 0, 1, NOW, key, value, tuple(headers))
    key_, value_, headers_ = encode_dead_letter(dead)
    letter = read_letter(
        ConsumerRecord("dead-letters", 0, 7, NOW, key_, value_, tuple(headers_)), Topics()
    )
    DeadLetter.objects.all().delete()
    ingestion.ingest_letters([letter])
    kept = DeadLetter.objects.get()
    assert "\0" not in kept.asset + kept.agent + kept.headers
    assert len(kept.asset) <= 255
    assert kept.whole == (len(key or b"") <= ingestion.MAX_KEY)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("reason", b"other"),
        ("source-topic", b"a b"),
        ("source-topic", b"x" * 250),
        ("source-partition", b"-1"),
        ("source-offset", b"9" * 30),
        ("source-timestamp", b"253402300800000"),
        ("source-timestamp", b"now"),
    ],
)
def test_a_place_that_is_none_is_refused_by_name(header: str, value: bytes):
    dead = DeadRecord("not-json", "attack.reports", 0, 1, NOW, b"shop", b"{")
    _, _, headers = encode_dead_letter(dead)
    changed = tuple((n, value if n == header else v) for n, v in headers)
    with pytest.raises(UnreadableLetter, match=header if value != b"now" else "int"):
        read_letter(ConsumerRecord("dead-letters", 0, 7, NOW, b"shop", b"{", changed), Topics())
