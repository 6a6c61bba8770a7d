"""Commands that were refused for their signature: counted, audited, told to whom they were of."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import SinkOffset
from dashboard.operate.dead_letters.ingestion import ACTION, MOST_A_MINUTE, refused, settle_sent
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.serve.materialiser.worker import Materialiser
from dashboard.watch.commands.models import Command as Row
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob
from wire.sink import DeadRecord, encode_dead_letter

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml")
NOW = 1_790_000_000_000
FORGED = b'{"type":"set","id":"x","user":"olga","state":"clear","secret":"s"}'


def tell(
    job: PlayedJob, offset: int, reason: str = "unsigned", topic: str = "attack.reports"
) -> None:
    """Tell of a refused record, as the job does."""
    dead = DeadRecord(reason, topic, 0, offset, NOW, b"shop", FORGED)
    key, value, headers = encode_dead_letter(dead)
    job.producer.send_and_wait(job.topics.dead_letters, key, value, headers=headers)


def materialise(job: PlayedJob) -> None:
    worker = Materialiser(job.bus, job.topics, SCENARIOS, lambda: NOW)
    while worker.step():
        pass
    worker.close()


def entries() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=ACTION).order_by("number"))


def test_each_record_is_counted_and_audited_once_with_what_it_claims(job):
    for offset in (5, 6, 5):
        tell(job, offset)
    tell(job, 7, "bad-signature", job.topics.control)
    tell(job, 8, "not-json")
    materialise(job)
    SinkOffset.objects.all().delete()  # as if all were read again
    materialise(job)
    assert refused() == [
        ("attack.reports", "unsigned", 2),
        (job.topics.control, "bad-signature", 1),
    ]
    rows = entries()
    assert [(e.name, e.source, e.target, e.outcome) for e in rows] == [
        ("job", "system", "shop", "unsigned"),
        ("job", "system", "shop", "unsigned"),
        ("job", "system", "shop", "bad-signature"),
    ]
    facts = json.loads(rows[0].facts)
    assert facts["place"] == "attack.reports/0/5"
    assert facts["claims"] == {"type": "set", "id": "x", "user": "olga", "state": "clear"}


def test_a_flood_does_not_become_the_audits_content(job):
    for offset in range(100):
        tell(job, offset)
    materialise(job)
    rows = entries()
    assert len(rows) == MOST_A_MINUTE
    assert rows[-1].target == f"{101 - MOST_A_MINUTE} more records"
    assert json.loads(rows[-1].facts)["reasons"] == {"unsigned": 101 - MOST_A_MINUTE}
    tell(job, 100)
    materialise(job)
    assert len(entries()) == MOST_A_MINUTE
    assert refused() == [("attack.reports", "unsigned", 101)]


def command(**fields: object) -> Row:
    """A command of the board's own that is on its way."""
    return Row.objects.create(
        id=uuid4(),
        scenario="attack",
        asset="shop",
        kind="set",
        username="olga",
        source="form",
        created_at=now_ms(),
        status="sent",
        **fields,
    )


def test_a_command_of_our_own_that_was_refused_is_told_so(job):
    ours, other = command(partition=0, offset=5), command(partition=0, offset=6)
    late = command()
    tell(job, 5, "unknown-key")
    tell(job, 9, "unknown-key")
    materialise(job)
    late.partition, late.offset = 0, 9
    late.save()
    settle_sent(late)
    statuses = {row.pk: (row.status, row.outcome) for row in Row.objects.all()}
    assert statuses[ours.pk] == ("answered", "refused: unknown-key")
    assert statuses[late.pk] == ("answered", "refused: unknown-key")
    assert statuses[other.pk] == ("sent", "")
    assert DeadLetter.objects.count() == 2
