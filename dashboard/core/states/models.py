"""The states on the board, their history, and the database's progress in the logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from bus.base import TopicPartition
from dashboard.core.common.extension_point import Provider
from dashboard.core.common.models import AssetRow, ScenarioRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.sql import execute_many
from dashboard.core.common.times import DAY_MS
from domain.bounds import Bound
from domain.quarantine import QuarantinedRange
from domain.scenario import MAX_DETAILS
from wire.job import QueryReport, bucket_name

# ---- checkpoints ---------------------------------------------------------------------------------
# The database's progress in the logs, the faults found, and snapshots of the fold. Times in ms.


class SinkOffset(models.Model):
    """The next offset to read of a sink partition, stored together with what was read before it.

    log: the id of the topic that the offset is of, "" where unknown.
    """

    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    next_offset = models.BigIntegerField()
    log = models.CharField(max_length=40, blank=True, default="", db_default="")

    class Meta:
        constraints = (
            UniqueConstraint(fields=["topic", "partition"], name="one_offset_per_partition"),
        )

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}: {self.next_offset}"


class EventCount(models.Model):
    """How often something has happened in the materialiser, stored together with its effects.

    Kept in the database because the materialiser serves no metrics: a web process reports the
    counts, and they survive restarts. topic: the topic concerned, or empty.
    """

    name = models.CharField(max_length=40)
    topic = models.CharField(max_length=249, blank=True)
    n = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["name", "topic"], name="one_count_per_name_and_topic"),
        )

    def __str__(self) -> str:
        return f"{self.name} {self.topic}: {self.n}"


class Terms(NamedTuple):
    """The terms on which a bucket's log is folded: bounds on append times, records set aside.

    Every fold of a log here uses those of the job: otherwise its states would differ from the
    job's.
    """

    bounds: tuple[Bound, ...] = ()
    asides: tuple[QuarantinedRange, ...] = ()


NO_TERMS = Terms()


def dump_pairs(pairs: Iterable[tuple[int, int]]) -> str:
    """Return pairs of numbers as JSON, for the database."""
    return msgspec.json.encode(list(pairs)).decode()


def load_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of numbers from the text that `dump_pairs` returned."""
    return msgspec.json.decode(text, type=tuple[tuple[int, int], ...])


class LogBound(models.Model):
    """The bounds on append times with which the job folds a bucket's log: see domain/bounds.py.

    pairs: JSON; epoch: the newest one that reported the pairs; asides: JSON, the first and last
    offsets of records set aside: see domain/quarantine.py.
    """

    bucket = models.CharField(max_length=60, primary_key=True)
    epoch = models.IntegerField()
    pairs = models.TextField()
    asides = models.TextField(default="[]", db_default="[]")

    def __str__(self) -> str:
        return f"{self.bucket}: {self.pairs}"

    @property
    def terms(self) -> Terms:
        """The terms that it stores."""
        return Terms(load_pairs(self.pairs), load_pairs(self.asides))

    @classmethod
    def terms_of(cls, scenario: str, partition: int) -> Terms:
        """Return the terms of a bucket; none if the job has reported none."""
        row = cls.objects.filter(pk=bucket_name(scenario, partition)).first()
        return row.terms if row is not None else NO_TERMS

    @classmethod
    def ingest(cls, reports: Sequence[QueryReport]) -> None:
        """Store the latest of the job's reports on each bucket."""
        newest: dict[str, LogBound] = {}
        for report in reports:
            for bucket in sorted({*report.bounds, *report.asides}):
                known = newest.get(bucket)
                if known is None or report.epoch >= known.epoch:
                    newest[bucket] = cls._reported(bucket, report)
        kept = {row.bucket: row for row in cls.objects.filter(bucket__in=newest)}
        for bucket, row in sorted(newest.items()):
            before = kept.get(bucket)
            if before is None or (row.epoch >= before.epoch and row.terms != before.terms):
                row.save()

    @classmethod
    def _reported(cls, bucket: str, report: QueryReport) -> LogBound:
        pairs = dump_pairs(report.bounds.get(bucket, ()))
        asides = dump_pairs(report.asides.get(bucket, ()))
        return cls(bucket=bucket, epoch=report.epoch, pairs=pairs, asides=asides)


class FoldSnapshot(ScenarioRow):
    """The fold of a bucket up to `next_offset`, including its rule, as a file.

    bounds: JSON, the bounds on append times used in the fold; asides: the records it left out.
    """

    partition = models.IntegerField()
    next_offset = models.BigIntegerField()
    clock = models.BigIntegerField()
    taken_at = models.BigIntegerField()
    file = models.CharField(max_length=255)
    assets = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    bounds = models.TextField(default="[]", db_default="[]")
    asides = models.TextField(default="[]", db_default="[]")

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "partition", "next_offset"], name="one_snapshot_per_offset"
            ),
        )

    def fits(self, terms: Terms) -> bool:
        """Return whether a fold on these terms arrives at this state.

        It does if the snapshot was folded with each bound, or its clock has not passed the bound;
        and if it left out each range set aside, or ends before that range.
        """
        bounds, asides = load_pairs(self.bounds), load_pairs(self.asides)
        return all(each in bounds or self.clock <= each[0] for each in terms.bounds) and all(
            each in asides or self.next_offset <= each[0] for each in terms.asides
        )


class Divergence(AssetRow):
    """Two records with the same version but different content, which must never happen."""

    version = models.CharField(max_length=40)
    kept = models.TextField()
    other = models.TextField()
    found_at = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "version"], name="one_divergence_per_version"
            ),
        )


# ---- offsets -------------------------------------------------------------------------------------
# The database's progress in the logs.


def begin_offsets(
    edges: Mapping[TopicPartition, tuple[int, int]], logs: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Store and return where to begin in each partition: where one has been in this very log, else
    at its beginning.

    edges: first and next offsets; logs: the ids of the topics.
    """
    kept = {(row.topic, row.partition): row for row in SinkOffset.objects.all()}
    starts, changed = {}, {}
    for place, (begin, _) in edges.items():
        row, log = kept.get(place), logs.get(place[0], "")
        same = row is not None and (row.log in ("", log) or not log)
        starts[place] = row.next_offset if row is not None and same else begin
        if row is None or (log and row.log != log):
            changed[place] = starts[place]
    _store_offsets(changed, ("next_offset", "log"), logs)
    return starts


def advance_offsets(offsets: Mapping[TopicPartition, int]) -> None:
    """Store the next offset of each partition, in the transaction that stores what came before."""
    _store_offsets(offsets, ("next_offset",))


def _store_offsets(
    offsets: Mapping[TopicPartition, int],
    fields: Sequence[str],
    logs: Mapping[str, str] = {},
) -> None:
    rows = [
        SinkOffset(topic=topic, partition=partition, next_offset=offset, log=logs.get(topic, ""))
        for (topic, partition), offset in offsets.items()
    ]
    SinkOffset.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["topic", "partition"],
        update_fields=fields,
    )


def forget_log(scenario: str, partition: int) -> None:
    """Delete what is about offsets of a source partition whose topic was created again."""
    FoldSnapshot.objects.filter(scenario=scenario, partition=partition).delete()
    LogBound.objects.filter(bucket=bucket_name(scenario, partition)).delete()


# ---- counts --------------------------------------------------------------------------------------
# Counts of other processes that the web process reports.

_ADD = """\
INSERT INTO states_eventcount (name, topic, n) VALUES (%s, %s, %s)
ON CONFLICT (name, topic) DO UPDATE SET n = states_eventcount.n + excluded.n"""


def add_counts(counts: Mapping[tuple[str, str], int]) -> None:
    """Add to the stored counts, by name and topic, in the caller's transaction. Sorted: no
    deadlock."""
    execute_many(_ADD, [(*key, n) for key, n in sorted(counts.items()) if n])


def event_counts() -> Mapping[str, Mapping[str, int]]:
    """Return the materialiser's counts: by name, then by topic or bucket."""
    kept: dict[str, dict[str, int]] = {}
    for name, topic, n in EventCount.objects.values_list("name", "topic", "n"):
        kept.setdefault(name, {})[topic] = n
    return kept


def from_zero(
    kept: Mapping[str, Mapping[str, int]], name: str, places: Iterable[str]
) -> Iterable[tuple[str, int]]:
    """Return the counts under a name, by place; 0 for each of `places` without a count yet."""
    return {**dict.fromkeys(places, 0), **kept.get(name, {})}.items()


# ---- states --------------------------------------------------------------------------------------
# The states on the board and their history. Times in Unix ms of the broker's clock.

VERSION = 40
"""Length of a version in its sortable form."""
PLACE = 33
"""Length of a sortable version without its epoch."""

DETAIL_KINDS = ("detail", "amount")
"""Beginnings of the names of a detail's columns: of its text, and of its number."""

CHANGE = "change"
"""Kind of a transition that changes the state."""
IMPORT = "import"
"""Cause of a transition from before the product, which no log has."""
UNCONFIRMED, CONFIRMED = "unconfirmed", "confirmed"
"""Kinds of a transition that only changes the `unconfirmed` mark."""


class AssetState(AssetRow):
    """The newest state record of one asset.

    record: the record's JSON as it stands in the topic (of a purged asset, the last one); rank: its
    position on the board before time and name, see `dashboard.core.states.caveats`, null once
    purged; disputed: the worst state voted for if it is worse than the state, else null; silent:
    how many votes that count are silent, null for none; doubt: how many agents that count are in
    doubt, with or without a vote, null for none; changed_at: the time of its cause; reported_at:
    the time of the newest live vote of an agent, null without one; reported_in: its quarter of an
    hour since 1970; voteless_in: that of changed_at if there is no such vote; override_*: of the
    override, null without one; detail_*, amount_*: the scenario's details in order, a text in the
    first, a number in the second. Purged rows stay hidden for a week, so that a replay cannot bring
    an asset back. Names are also indexed by their parts, see `dashboard.core.states.name_search`.
    """

    partition = models.IntegerField()
    state = models.CharField(max_length=64)
    severity = models.IntegerField()
    rank = models.IntegerField(null=True)
    previous = models.CharField(max_length=64, blank=True)
    since = models.BigIntegerField()
    unconfirmed = models.BooleanField(default=False)
    unconfirmed_reason = models.CharField(max_length=200, null=True)  # noqa: DJ001 - as the others
    disputed = models.CharField(max_length=64, null=True)  # noqa: DJ001 - as the others
    silent = models.IntegerField(null=True)
    doubt = models.IntegerField(null=True)
    version = models.CharField(max_length=VERSION)
    changed_at = models.BigIntegerField()
    cause_type = models.CharField(max_length=20)
    reported_at = models.BigIntegerField(null=True)
    reported_in = models.IntegerField(null=True)
    voteless_in = models.IntegerField(null=True)
    overridden = models.BooleanField(default=False)
    override_since = models.BigIntegerField(null=True)
    override_until = models.BigIntegerField(null=True)
    override_user = models.CharField(max_length=255, null=True)  # noqa: DJ001 - as the others
    pending_due = models.BigIntegerField(null=True)
    detail_1 = models.CharField(max_length=200, null=True)  # noqa: DJ001 - as the others
    amount_1 = models.FloatField(null=True)
    detail_2 = models.CharField(max_length=200, null=True)  # noqa: DJ001 - as the others
    amount_2 = models.FloatField(null=True)
    detail_3 = models.CharField(max_length=200, null=True)  # noqa: DJ001 - as the others
    amount_3 = models.FloatField(null=True)
    detail_4 = models.CharField(max_length=200, null=True)  # noqa: DJ001 - as the others
    amount_4 = models.FloatField(null=True)
    record = models.TextField()
    purged = models.BooleanField(default=False)
    purged_at = models.BigIntegerField(null=True)

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "asset"], name="one_row_per_asset"),)
        # Each row is in one of the first two. The first includes the state so that filters by
        # state or by text are answered from the index alone.
        indexes = (
            Index(
                fields=["scenario", "rank", "-since", "asset", "state"],
                condition=Q(purged=False),
                name="board_order",
            ),
            Index(fields=["purged_at"], condition=Q(purged=True), name="purged_rows"),
            Index(
                fields=["scenario", "override_until", "override_since"],
                condition=Q(overridden=True),
                name="overrides",
            ),
            # Two indexes of rows that no other query needs: over all rows, a planner would pick
            # one for queries that the board's order answers without reading a row. They do not
            # hold the times themselves, which change with every record: each would then have to
            # be written to the index as well.
            Index(
                fields=["scenario", "reported_in", "id"],
                condition=Q(purged=False, reported_in__isnull=False),
                name="last_reports",
            ),
            Index(
                fields=["scenario", "voteless_in", "id"],
                condition=Q(purged=False, voteless_in__isnull=False),
                name="voteless",
            ),
            # Four indexes, each of only the rows that one filter selects: usually few.
            Index(
                fields=["scenario"],
                condition=Q(purged=False, disputed__isnull=False),
                name="disputed_rows",
            ),
            Index(
                fields=["scenario"],
                condition=Q(purged=False, unconfirmed=True),
                name="unconfirmed_rows",
            ),
            Index(
                fields=["scenario"],
                condition=Q(purged=False, silent__isnull=False),
                name="silent_rows",
            ),
            Index(
                fields=["scenario"],
                condition=Q(purged=False, doubt__isnull=False),
                name="doubt_rows",
            ),
            # Of each detail's column, for filters and for what completes them.
            *(
                Index(
                    fields=["scenario", f"{kind}_{n + 1}"],
                    condition=Q(purged=False, **{f"{kind}_{n + 1}__isnull": False}),
                    name=f"{kind}_{n + 1}_rows",
                )
                for n in range(MAX_DETAILS)
                for kind in DETAIL_KINDS
            ),
        )


class DetailKeys(ScenarioRow):
    """The keys of the details that a scenario's rows have in their columns, as JSON."""

    keys = models.TextField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario"], name="one_list_of_details"),)


class NameRun(models.Model):
    """One or two consecutive characters, ASCII in upper case, that are or were in an asset's name.

    A run that is not here occurs in no name. The materialiser adds runs in the transactions that
    add rows; a name that is deleted leaves its runs behind.
    """

    run = models.CharField(max_length=2, primary_key=True)

    def __str__(self) -> str:
        return self.run


class StateCount(ScenarioRow):
    """The number of visible assets in a state, which saves counting a million rows.

    The materialiser updates it in the transactions that write the rows.
    """

    state = models.CharField(max_length=64)
    n = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "state"], name="one_count_per_state"),)


class DoubtCount(ScenarioRow):
    """The number of visible assets that have a doubt: disputed, unconfirmed, with silent votes, or
    with an agent in doubt.

    Maintained like `StateCount`, one row for each. doubt: from
    `dashboard.core.states.caveats.DOUBTS`.
    """

    doubt = models.CharField(max_length=20)
    n = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "doubt"], name="one_count_per_doubt"),)


class Transition(AssetRow):
    """A change of an asset's state, or a record in its history that did not change the state.

    kind: `change` (an empty `state` is a purge), `unconfirmed` or `confirmed` if only that mark
    changed, or the cause of a record that left the state as it was: `reminder`, `override-end`.
    Queries for changes of state filter by `change`. place: offset and step of the version.
    unconfirmed: the mark after the record; null in rows written before it was stored. A rebuild
    reports the same transitions in a new epoch: they replace the earlier ones.
    """

    kind = models.CharField(max_length=20, default=CHANGE, db_default=CHANGE)
    version = models.CharField(max_length=VERSION)
    place = models.CharField(max_length=PLACE)
    at = models.BigIntegerField()
    previous = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=64, blank=True)
    unconfirmed = models.BooleanField(null=True)
    cause_type = models.CharField(max_length=20)
    cause = models.TextField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_transition_per_place"
            ),
        )
        indexes = (
            Index(fields=["scenario", "at"], name="transitions_by_age"),
            Index(fields=["at", "id"], name="transitions_newest"),
        )


MAX_OUTCOME = 200
"""Length of the longest outcome stored, in characters."""


class Answer(AssetRow):
    """The first answer to a command, whoever sent it. `version`: of the answering record."""

    command = models.CharField(max_length=36, unique=True)
    outcome = models.CharField(max_length=200)
    version = models.CharField(max_length=VERSION)
    at = models.BigIntegerField()

    class Meta:
        indexes = (Index(fields=["at"], name="answer_age"),)


# ---- states --------------------------------------------------------------------------------------
# Retention of the history, and how long the rows of purged assets are kept.

HIDDEN_KEPT_MS = 7 * DAY_MS
"""How long a purged row stays hidden, so that a replay cannot bring the asset back. Its labels are
deleted with it, so `watch/annotations`, which knows the labels, deletes both."""
HISTORY_KEPT_MS = 90 * DAY_MS

CHANGES = Retention("changes of assets", Transition, "at", HISTORY_KEPT_MS, by_scenario=True)
KEPT = (
    CHANGES,
    Retention("answers to commands", Answer, "at", HISTORY_KEPT_MS),
)

own_period: Provider[[str], int | None] = Provider(lambda _scenario: None)
"""Returns how long a scenario keeps its changes, ms; None if it has no period of its own."""


def history_edge(scenario: str, now: int) -> int:
    """Return the time (Unix ms) since which retention at `now` has deleted no change."""
    return now - (own_period(scenario) or HISTORY_KEPT_MS)
