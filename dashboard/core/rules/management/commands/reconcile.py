"""`manage.py reconcile`: replay the topics through the fold and compare with the database."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from bus.base import AccessRefused, Bus, BusError, Unavailable
from bus.kafka import KafkaBus
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.text import Bar
from dashboard.core.common.times import now_ms, utc
from dashboard.core.rules.changes import ChangeDifference
from dashboard.core.rules.log_replay import LONG_LOG, Snapshots, workspace
from dashboard.core.rules.reconciliation import (
    MOST_LISTED,
    Behind,
    Reconciler,
    Result,
    RowDifference,
    judge,
    sample,
)
from dashboard.core.states.aggregates import Miscounted
from dashboard.core.states.models import CHANGE
from wire.job import bucket_name

ANSWERS_S = 5.0
"""How long Kafka may take to answer the first request, s; later requests to it wait longer."""


class Command(BaseCommand):
    """List every difference between the topics and the database; exit code 1 if there is one."""

    help = "Replays the topics through the fold and lists every difference with the database."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --json, --patience, --from-snapshot, --plain, --kernel, --bucket and --sample."""
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument(
            "--patience",
            type=float,
            default=60,
            help="seconds that job and materialiser may take to reach the log's end (60)",
        )
        parser.add_argument(
            "--from-snapshot",
            action="store_true",
            help="begin at each bucket's newest snapshot, even if the log is complete",
        )
        engine = parser.add_mutually_exclusive_group()
        engine.add_argument(
            "--plain",
            action="store_const",
            const=False,
            dest="kernel",
            help=f"fold in Python, bucket by bucket, also a log of over {LONG_LOG:,} records",
        )
        engine.add_argument(
            "--kernel",
            action="store_const",
            const=True,
            dest="kernel",
            help="fold with the kernel in Spark, also a short log",
        )
        parser.add_argument(
            "--bucket",
            action="append",
            metavar="SCENARIO/PARTITION",
            help="judge this bucket alone; may be given several times",
        )
        parser.add_argument(
            "--sample",
            action="store_true",
            help="judge the buckets whose turn it is by the plain fold, and store the outcome, as "
            "the worker does once a day",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run once and exit. Raises CommandError.

        Exit code 0: no difference, 1: differences, 2: no comparison was possible.
        """
        _check_buckets(options["bucket"])
        bus = KafkaBus(settings.TALLYBOARD.kafka_options())
        with (
            Bar("Replaying") as bar,
            workspace(settings.TALLYBOARD.data_dir / "reconcile") as folder,
        ):
            run = self._sample if options["sample"] else self._reconcile
            try:
                _check_answers(bus)
                agrees = run(bus, bar, folder, options)
            except (Behind, BusError) as error:
                raise CommandError(str(error), returncode=2) from None
        sys.exit(0 if agrees else 1)

    def _reconcile(self, bus: Bus, bar: Bar, folder: Path, options: dict[str, Any]) -> bool:
        """Judge what the options say, and print the result. Returns whether all agrees."""
        own = {"kernel": options["kernel"], "buckets": options["bucket"]}
        result = _reconciler(bus, bar, folder, options, **own).run()
        self._print(result, as_json=options["json"])
        return result.agrees

    def _sample(self, bus: Bus, bar: Bar, folder: Path, options: dict[str, Any]) -> bool:
        """Judge the buckets whose turn it is, and print what came of it."""
        rows = sample(scenarios())

        def of(name: str) -> Reconciler:
            own = folder / name.replace("/", "-")
            alone = {"kernel": False, "buckets": [name], "totals": False}
            return _reconciler(bus, bar, own, options, **alone)

        agrees = judge(rows, of, now_ms)
        for row in rows:
            outcome = row.problem or f"{row.records:,} records, {row.compared:,} assets agree"
            self.stdout.write(f"{bucket_name(row.scenario, row.partition)}: {outcome}")
        return agrees

    def _print(self, result: Result, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(msgspec.json.encode(asdict(result)).decode())
            return
        for difference in result.differences:
            self._describe(difference)
        for change in result.changes:
            self._describe_change(change)
        for number in result.miscounted:
            self.stdout.write(f"{_named(number)}: expected {number.expected}, found {number.found}")
        self.stdout.write(
            f"{result.records:,} records replayed, {result.compared:,} assets compared, "
            f"{len(result.differences):,} differences, "
            f"{len(result.miscounted):,} counts on pages wrong"
        )
        self.stdout.write(
            f"{result.changes_compared:,} changes compared, {len(result.changes):,} differences: "
            "those of the records that were replayed, as far as retention keeps changes"
        )
        if result.unlisted:
            self.stdout.write(
                f"{result.unlisted:,} more assets differ: only the first {MOST_LISTED:,} are listed"
            )
        if result.unjudged:
            self.stdout.write(
                f"{result.unjudged:,} assets could not be judged: the beginning of their log has "
                "been deleted, and no snapshot meets what is left"
            )

    def _describe(self, difference: RowDifference) -> None:
        self.stdout.write(f"{difference.scenario}/{difference.asset}: {difference.kind}")
        for name, (expected, actual) in difference.fields.items():
            self.stdout.write(f"    {name}: expected {expected!r}, found {actual!r}")

    def _describe_change(self, each: ChangeDifference) -> None:
        what = f"change to {each.state or 'purged'}" if each.what == CHANGE else each.what
        said = {"missing": "is missing", "extra": "is not in the log"}.get(each.kind, "differs")
        offset = int(each.place.split(".")[0])
        self.stdout.write(
            f"{each.scenario}/{each.asset}: {what} at {utc(each.at)} (offset {offset}) {said}"
        )
        for name, (expected, actual) in each.fields.items():
            self.stdout.write(f"    {name}: expected {expected!r}, found {actual!r}")


def _reconciler(
    bus: Bus, bar: Bar, folder: Path, options: dict[str, Any], **more: Any
) -> Reconciler:
    return Reconciler(
        bus,
        topics(),
        scenarios(),
        Snapshots(settings.TALLYBOARD.data_dir / "snapshots", now_ms),
        now_ms,
        progress=bar,
        comparing=bar.next("Comparing"),
        patience_s=options["patience"],
        from_snapshot=options["from_snapshot"],
        folder=folder,
        **more,
    )


def _check_buckets(given: list[str] | None) -> None:
    """Raise CommandError for a bucket that is not there."""
    known = [
        bucket_name(scenario.name, partition)
        for scenario in scenarios().values()
        for partition in range(scenario.partitions)
    ]
    for name in given or ():
        if name not in known:
            why = f"--bucket: expected one of {', '.join(known)}, got {name[:80]}"
            raise CommandError(why, returncode=2)


def _check_answers(bus: Bus) -> None:
    """Check that a broker answers.

    Raises CommandError with its address if none does, and AccessRefused if it refuses.
    """
    try:
        bus.partitions(topics().reports(next(iter(scenarios()))), ANSWERS_S)
    except AccessRefused:
        raise
    except Unavailable as error:
        known = settings.TALLYBOARD
        advice = (
            "start it with make run, or set TALLYBOARD_KAFKA_PORT to the port of the one that runs"
            if known.embedded_broker
            else "check TALLYBOARD_KAFKA_BOOTSTRAP"
        )
        why = f"Kafka does not answer at {known.bootstrap} ({error}): {advice}."
        raise CommandError(why, returncode=2) from None


def _named(number: Miscounted) -> str:
    if number.kind == "names":
        return "names in the index of their parts"
    if number.kind == "doubt":
        return f"kept count of assets of {number.scenario} with the doubt {number.state}"
    return f"kept count of {number.scenario}/{number.state}"
