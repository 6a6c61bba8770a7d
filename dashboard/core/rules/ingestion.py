"""Writes the job's reports on its scenarios to the database, in the materialiser's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import structlog

from dashboard.core.common.metrics import JUDGED_DIFFERENCES, JUDGED_TIME, MetricFamily
from dashboard.core.common.retention import delete_surplus
from dashboard.core.job.requests import settle
from dashboard.core.rules.models import BucketJudgement, CarriedScenario, RuleChange, RuleRecord
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.models import LogBound
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import scenario_from_plain
from wire.job import Carried, QueryReport

log = structlog.get_logger(__name__)

RECORDS_KEPT = 200
"""Most scenario records kept per partition, the newest ones."""
MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1


def ingest_changes(changes: BatchChanges) -> None:
    """Store the log bounds and rules that the job reports in a batch."""
    LogBound.ingest(changes.batch.progress)
    ingest_rules(changes.batch.progress)


def ingest_rules(records: Iterable[QueryReport]) -> None:
    """Store the scenarios reported, and the results of requests to change rules."""
    for record in records:
        if record.carried is not None:
            _store_scenario(record.carried, record)
        elif record.answer is not None and record.answer.action == "rule":
            settle(RuleChange.objects.all(), record.answer, record.at)


def text_of(scenario: Scenario) -> str:
    """Return a scenario as text, which `dashboard.core.rules.models.parsed` reads."""
    return dump(scenario.to_plain())


def dump(plain: Any) -> str:
    """Return plain data as JSON; the text is equal for equal data."""
    return json.dumps(plain, sort_keys=True)


def _store_scenario(carried: Carried, record: QueryReport) -> None:
    try:
        configured, rule = (
            scenario_from_plain(carried.configured),
            scenario_from_plain(carried.rule),
        )
    except ScenarioError as error:
        log.warning(
            "a scenario of the job cannot be read", scenario=carried.scenario, error=str(error)
        )
        return
    if not carried.scenario == configured.name == rule.name:
        log.warning("a scenario of the job has two names", scenario=carried.scenario[:40])
        return
    overlay, text = carried.overlay, text_of(rule)
    CarriedScenario.objects.update_or_create(
        scenario=rule.name,
        defaults={
            "query": record.query,
            "at": record.at,
            "version": carried.version[:64],
            "configured": text_of(configured),
            "rule": text,
            "keys": dump(overlay.keys),
            "user": overlay.user,
            "reason": overlay.reason,
            "since": overlay.since,
            "problem": carried.problem.replace("\0", "")[:2_000],
        },
    )
    for at, offset in carried.offsets.items():
        if 0 <= at <= MAX_PARTITION and 0 <= offset <= MAX_OFFSET:
            _keep(rule.name, at, offset, text, record.at)


def _keep(scenario: str, partition: int, offset: int, text: str, at: int) -> None:
    """Store a partition's newest rule. Records with higher offsets belong to a log that is gone."""
    kept = RuleRecord.objects.filter(scenario=scenario, partition=partition)
    kept.filter(offset__gt=offset).delete()
    stored = kept.filter(offset=offset)
    if not stored.exists():
        RuleRecord.objects.create(
            scenario=scenario, partition=partition, offset=offset, at=at, rule=text
        )
    stored.exclude(rule=text).update(rule=text, at=at)
    delete_surplus(kept.order_by("-offset"), RECORDS_KEPT)


def metrics() -> Iterator[MetricFamily]:
    """Yield when the plain fold last judged each bucket, and how many differences it found."""
    rows = BucketJudgement.objects.exclude(ended_at=None)
    ended = rows.values_list("scenario", "partition", "ended_at", "differences")
    judged = {
        (name, str(at)): ((when or 0) / 1000, differences) for name, at, when, differences in ended
    }
    yield JUDGED_TIME.family((bucket, when) for bucket, (when, _) in judged.items())
    yield JUDGED_DIFFERENCES.family(
        (bucket, differences) for bucket, (_, differences) in judged.items()
    )
