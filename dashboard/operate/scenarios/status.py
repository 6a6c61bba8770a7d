"""The status of a scenario: in its file, its overlay, the log, and each bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Literal

from django.db.models import Max, Q, Sum

from dashboard.core.common.scenarios import FileNow, file_now, scenarios
from dashboard.core.common.tables import Column, Table
from dashboard.core.job.status import Beats, newest_beats
from dashboard.core.rules.models import CarriedScenario, RuleRecord, parsed
from dashboard.core.states.models import StateCount
from domain.overlay import LIVE_KEYS
from domain.scenario import Scenario
from wire.job import bucket_name

PlaceStatus = Literal["in force", "not in force yet", "another rule", "not in the log", "unknown"]
NAMED = 8
"""Most partitions that a sentence names."""

SCENARIOS = Table(
    "scenarios", "Scenario", "States", "Rule", "Changed here", Column.number("Assets"),
    Column.number("Partitions"), "Engine", "Status", css="scenarios",
)  # fmt: skip
PLACES = Table(
    "rules",
    Column.time("Partition"),
    "Status",
    Column.number("Rule at", "offset of the newest scenario record", "rule's offset"),
    Column.number("Reached", "the last offset that the bucket applied"),
    "Engine",
    Column.number("Epoch", "how many times the query has started again from its log"),
    narrow=True,
)


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of a scenario's log: its newest rule, and how far its bucket has come.

    record: where that rule is, or None if unknown; reached: the last offset applied.
    """

    partition: int
    record: RuleRecord | None
    reached: int | None
    engine: str
    epoch: int | None
    status: PlaceStatus


@dataclass(frozen=True, slots=True)
class ScenarioStatus:
    """A scenario and what is known about it.

    scenario: as this process loaded it; file: as its file now has it, None if the file lacks it;
    carried: what the job reported about it, None before that; configured, present: as the job has
    it, from the file alone and with the overlay `keys`.
    """

    scenario: Scenario
    file: Scenario | None
    carried: CarriedScenario | None
    configured: Scenario
    present: Scenario
    keys: Mapping[str, Any]
    places: tuple[PartitionStatus, ...]
    assets: int

    @property
    def engines(self) -> list[str]:
        """Return the engines that carry the scenario."""
        return sorted({place.engine for place in self.places if place.engine})

    @property
    def taken_up(self) -> int:
        """Return in how many partitions the rule is in force."""
        return sum(place.status == "in force" for place in self.places)

    @property
    def in_the_log(self) -> int:
        """Return in how many partitions the log has the rule."""
        return sum(place.status in ("in force", "not in force yet") for place in self.places)

    @property
    def file_waits(self) -> bool:
        """Return whether the file has changed since the job read it."""
        if self.carried is None or self.file is None:
            return False
        return _live(self.file) != _live(self.configured)


def _live(scenario: Scenario) -> dict[str, Any]:
    plain = scenario.to_plain()
    return {key: plain[key] for key in (*LIVE_KEYS, "states", "vocabulary", "partitions")}


def known(name: str, now: int) -> ScenarioStatus:
    """Return the status of a scenario. name: one that this process has; now: Unix ms."""
    carried = CarriedScenario.objects.filter(pk=name).first()
    return _known(scenarios()[name], carried, file_now(), newest_beats(now))


def all_known(now: int) -> list[ScenarioStatus]:
    """Return the status of every scenario, in the file's order. now: Unix ms."""
    carried = {row.scenario: row for row in CarriedScenario.objects.all()}
    file, beats = file_now(), newest_beats(now)
    return [_known(each, carried.get(name), file, beats) for name, each in scenarios().items()]


def _known(
    scenario: Scenario, carried: CarriedScenario | None, file: FileNow, beats: Beats
) -> ScenarioStatus:
    counted = StateCount.objects.filter(scenario=scenario.name).aggregate(n=Sum("n"))["n"]
    here = file.scenarios.get(scenario.name)
    return ScenarioStatus(
        scenario=scenario,
        file=here,
        carried=carried,
        configured=parsed(carried.configured) if carried else here or scenario,
        present=parsed(carried.rule) if carried else here or scenario,
        keys=json.loads(carried.keys) if carried else {},
        places=tuple(_places(scenario, carried, beats)),
        assets=counted or 0,
    )


def _places(
    scenario: Scenario, carried: CarriedScenario | None, beats: Beats
) -> list[PartitionStatus]:
    newest = _newest(scenario.name)
    places = []
    for at in range(scenario.partitions):
        received = beats.get(bucket_name(scenario.name, at))
        beat = received[1] if received else None
        reached = beat.offset if beat else None
        places.append(
            PartitionStatus(
                partition=at,
                record=newest.get(at),
                reached=reached,
                engine=beat.engine if beat else "",
                epoch=beat.epoch if beat else None,
                status=_status(carried, newest.get(at), reached),
            )
        )
    return places


def _newest(scenario: str) -> dict[int, RuleRecord]:
    """Return the newest rule of each partition."""
    records = RuleRecord.objects.filter(scenario=scenario)
    lasts = list(records.values_list("partition").annotate(last=Max("offset")))
    conditions = [Q(partition=at, offset=last) for at, last in lasts]
    newest = records.filter(reduce(or_, conditions)) if conditions else ()
    return {record.partition: record for record in newest}


def _status(
    carried: CarriedScenario | None, record: RuleRecord | None, reached: int | None
) -> PlaceStatus:
    if carried is None:
        return "unknown"
    if record is None:
        return "not in the log"
    if record.rule != carried.rule:
        return "another rule"
    return "in force" if reached is not None and reached >= record.offset else "not in force yet"


def problems(status: ScenarioStatus, file_error: str) -> list[str]:
    """Return what the reader should know before trusting the figures, in words."""
    messages = [f"{file_error}. What the job has in force stays."] if file_error else []
    if status.carried is None:
        return [*messages, "The job has not reported its rule: check that it runs."]
    if status.file is None and not file_error:
        messages.append("The file lacks this scenario now.")
    if status.carried.problem:
        messages.append(f"What was changed from here does not count: {status.carried.problem}")
    if status.file_waits:
        messages.append("The file has changed since the job read it: reload the job to apply it.")
    for waiting, words in _WAITING.items():
        if waits := [place.partition for place in status.places if place.status == waiting]:
            messages.append(f"{words}{_partitions(waits, len(status.places))}.")
    return messages


_WAITING: dict[PlaceStatus, str] = {
    "another rule": "The log still has another rule",
    "not in the log": "The rule is not in the log yet",
    "not in force yet": "The job has not applied the rule yet",
}


def _partitions(numbers: list[int], of: int) -> str:
    if len(numbers) == of:
        return ""
    named = ", ".join(map(str, numbers[:NAMED]))
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return f" in partition{'s' if len(numbers) > 1 else ''} {named}{more}"
