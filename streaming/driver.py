"""The job's driver: keeps the query running for as long as it takes."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, NoReturn

from bus.base import Bus, BusError, TopicPartition, TopicSpec
from domain.scenario import Scenario, ScenarioError
from streaming import asides, legs, rulechange
from streaming import query as queries
from streaming.bounds import in_log, known, merged, remember
from streaming.buckets import BucketId
from streaming.checkpoint import Epoch, LogProblem, current_epoch, drop_uncommitted, gaps, positions
from streaming.control import Desk
from streaming.engine import Engine, Trigger
from streaming.engines import ProcessNeeded, Refused, Sharing, hand_over, trigger_of
from streaming.errands.runner import Errands
from streaming.errors import first_line, judge
from streaming.guard import Guard
from streaming.overlays import Book, keep, read_book
from streaming.processor import Plan
from streaming.progress import Reporting
from streaming.rebuilds import Rebuilds
from streaming.rules import Rules
from streaming.sources import bound as bound_topics
from streaming.sources import check
from streaming.starts import Start, bound, start_of
from streaming.ticks import Ticker
from wire.job import MAX_REASON, Control, Status
from wire.keys import KeyFile
from wire.signature import Signer
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from config.settings import Settings

log = logging.getLogger("streaming.driver")

LONG_BACKLOG = 50_000
"""Records: some seconds of Real-time Mode, in which new reports would wait behind old ones."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
"""Pauses before a restart after an error that passes: doubled each time."""

PAUSE_STAYING_S = 30.0
"""Pause after an error that stays."""

LONGEST_WHY = 600
"""Characters of an error that stays: it may hold a command that corrects it."""

HEALTHY_S = 30.0
"""A query that ran this long starts over with the first pause."""

STOP_S, EXIT_S = 5.0, 2.0
"""How long Spark may take to stop before its JVM is killed, and a JVM without Spark to end."""


LOOK_S = 0.2
BEAT_S = 1.0
"""How often a driver that waits looks for what it is asked."""

END_S = 30.0
"""How long a query that is asked to stop may take to end, before its process is given up."""

CONTROL = "control.json"


class JvmLost(Exception):
    """Spark's JVM is gone, or another share of the work calls for one: start the process anew."""


class Driver:
    """Prepares topics and rules, lets time pass, runs one engine's query, and starts it again."""

    def __init__(
        self,
        settings: Settings,
        sharing: Sharing,
        bus: Bus,
        spark: SparkSession,
        stop: threading.Event,
        engine: Engine,
        book: Book | None = None,
    ) -> None:
        """book: what `sharing` was made from; None: what the settings lead to."""
        self._settings, self._sharing, self._bus, self._spark = settings, sharing, bus, spark
        self._stop, self._engine = stop, engine
        self._scenarios = sharing.shares[engine]
        self._book = book or read_book(settings)
        self._topics = Topics(settings.topic_prefix)
        self._home = settings.data_dir / "checkpoint" / engine
        self._report = Reporting(bus, self._topics.progress, engine, _now)
        path = self._home / CONTROL
        self._keys = KeyFile(settings.command_keys_file).made()
        guard = Guard(bus, self._topics, self._keys, self._demands_signatures)
        self._desk = Desk(bus, self._topics.control, engine, path, _now, self._report.answer, guard)
        self._report.rebuild = lambda: self._desk.rebuilding
        self._errands = Errands(settings, self._desk)
        snapshots = settings.data_dir / "snapshots"
        self._rebuilds = Rebuilds(
            self._desk, bus, self._topics, self._home, snapshots, engine, _now
        )
        self._starts = asides.Starts(self._home)
        self._unbounded: list[str] = []
        self._interrupted = False
        self._leave = ""
        self._ticker: Ticker | None = None
        self._pause = FIRST_PAUSE_S

    def _demands_signatures(self) -> bool:
        """Whether a scenario of this query takes commands with a signature alone."""
        return any(scenario.signed_commands for scenario in self._scenarios.values())

    def run(self) -> None:
        """Run until `stop` is set. Raises JvmLost, and nothing else."""
        if self._desk.stopped is None:
            self._report.status("starting")
        self._desk.give_up_errands()
        while not self._stop.is_set():
            begun = time.monotonic()
            self._interrupted = False
            try:
                for ask in self._desk.left_over("rule"):
                    self._ask_rule(ask)
                self._stand_still() if self._desk.stopped else self._run_once()
            except Exception as error:  # noqa: BLE001, nothing but a signal ends the driver
                if self._stop.is_set():
                    break
                self._after(error, time.monotonic() - begun)
            if self._leave:
                self._give_up(self._leave)
        self._close()

    def _stand_still(self) -> None:
        """Do nothing until somebody asks for a start: no query runs, and no time passes."""
        self._stop_ticks()
        assert self._desk.stopped is not None
        self._report.stand_still(self._desk.stopped)
        self._tell_scenarios({})
        self._desk.settle("done", "states stand as they are until it is started")
        while self._desk.stopped and not self._leave and not self._stop.wait(LOOK_S):
            self._asked()

    def _run_once(self) -> None:
        plan, epoch, passed_over = self._prepare()
        self._step_over(plan, epoch)
        trigger = trigger_of(self._engine, self._settings.wanted_trigger)
        if trigger == "real-time" or self._rebuilds.under_way(epoch):
            self._catch_up(plan, epoch, passed_over)
        if not self._due_to_end():
            self._run_query(plan, epoch, trigger, "running", passed_over)

    # ---- what nobody can read ---------------------------------------------------------------

    def _set_aside(self, epoch: Epoch, begun: Mapping[TopicPartition, int]) -> None:
        """Look for what ended the last starts, which got nowhere, and set it aside.

        begun: the next offset of each partition that is read. Raises BusError and OSError.
        """
        folder = self._home.parent
        if self._starts.note(f"{epoch.number}: {sorted(begun.items())}") >= asides.MOST_STARTS:
            edges = self._bus.offsets({topic for topic, _ in begun})
            ends = {place: end for place, (_, end) in edges.items()}
            held = asides.known(folder)
            for place, found in asides.look(self._bus, begun, ends).items():
                name = self._bucket(place)
                for batch, size in found:
                    span = (batch.first, batch.last)
                    if span not in held.get(name, ()):
                        asides.tell(self._bus, self._topics.dead_letters, place, batch, size)
                        asides.remember(folder, {name: [span]})
        mine = {self._bucket(place) for place in begun}
        known_ones = asides.known(folder)
        self._report.asides = {name: known_ones[name] for name in known_ones.keys() & mine}

    def _begins(self, epoch: Epoch, start: Start) -> dict[TopicPartition, int]:
        """The next offset of each partition that is read."""
        edges = self._bus.offsets(self._topics.reports(name) for name in self._scenarios)
        reached = self._reached(epoch, start)
        return {place: reached.get(place, begin) for place, (begin, _) in edges.items()}

    def _step_over(self, plan: Plan, epoch: Epoch) -> None:
        """Have the query go on behind what was set aside, if that lies before it."""
        begun = self._begins(epoch, plan.start)
        held = {place: self._report.asides.get(self._bucket(place), ()) for place in begun}
        while not self._due_to_end() and (leg := legs.next_leg(begun, held)) is not None:
            legs.plan_batch(epoch.path, leg.ends, queries.batch_metadata(self._spark))
            self._run_query(plan, epoch, "leg", "catching-up", [], one_by_one=leg.close)
            if legs.ends_at(epoch.path, leg.ends):
                legs.jump(epoch.path, leg.ends | leg.jumps)
            begun = self._begins(epoch, plan.start)

    def _catch_up(self, plan: Plan, epoch: Epoch, passed_over: list[str]) -> None:
        """Drain a long backlog in micro-batches, which are faster; and get over lost records.

        So is what was asked to be read again, however little it is.

        A log that begins past the checkpoint ends Real-time Mode, whatever the query is told.
        """
        while (
            passed_over
            or self._rebuilds.under_way(epoch)
            or self._backlog(plan, epoch) > LONG_BACKLOG
        ):
            self._run_query(plan, epoch, "catch-up", "catching-up", passed_over)
            passed_over = []
            if self._due_to_end():
                return

    def _run_query(
        self,
        plan: Plan,
        epoch: Epoch,
        trigger: Trigger,
        status: Status,
        passed_over: list[str],
        *,
        one_by_one: bool = False,
    ) -> None:
        if trigger != "leg":
            drop_uncommitted(epoch.path)
        query = queries.start(
            self._spark,
            self._settings,
            plan,
            epoch.path,
            engine=self._engine,
            trigger=trigger,
            loss_known=bool(passed_over),
            one_by_one=one_by_one,
        )
        words = [*passed_over, *self._overlay_problems(), *self._unbounded]
        message = "; ".join([*words, *asides.in_words(self._report.asides)])
        self._report.runs(status, trigger, message, epoch.path)
        self._desk.settle("done")
        try:
            queries.watch(query, self._due_to_end, partial(self._batch, epoch))
            self._rebuilds.look(epoch)
        finally:
            if self._stop.is_set():
                self._spark.sparkContext.setLogLevel("OFF")  # of every task that is broken off
            if query.isActive:
                self._end(query)
            if self._stop.is_set() or self._interrupted:
                self._starts.forget()

    def _batch(self, epoch: Epoch, figures: Mapping[str, Any]) -> None:
        self._report.batch(figures)
        self._rebuilds.look(epoch)

    def _end(self, query: StreamingQuery) -> None:
        """Stop the query. One that was asked to stop is waited for: nothing runs beside its next.

        A batch that is broken off is read again at the next start, and gives the same versions.
        """
        give_up = time.monotonic() + END_S
        while True:
            try:
                query.stop()
            except Exception as error:
                if not self._interrupted:
                    raise
                if time.monotonic() > give_up:
                    self._leave = f"the query was stopped, and does not end: {error}"
                    raise
                log.debug("the query does not end yet: %s", error)
            if not self._interrupted or not query.isActive:
                return

    # ---- what the console asks --------------------------------------------------------------

    def _due_to_end(self) -> bool:
        """Whether a signal or an ask ends what runs now."""
        if not self._stop.is_set() and not self._interrupted:
            self._interrupted = self._asked()
        return self._stop.is_set() or self._interrupted

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until a signal or an ask."""
        end = time.monotonic() + seconds
        while not self._due_to_end() and (left := end - time.monotonic()) > 0:
            self._stop.wait(min(left, LOOK_S))

    def _asked(self) -> bool:
        """Carry out what the console asks; whether what runs or waits now is to end for it."""
        carry_out = {
            "stop": self._ask_stop,
            "start": self._ask_start,
            "reload": self._ask_reload,
            "rule": self._ask_rule,
            "reset": self._ask_rebuild,
            "rebuild": self._ask_rebuild,
            "read-state": self._ask_errand,
            "what-if": self._ask_errand,
            "cancel": self._ask_cancel,
        }
        ends = False
        self._errands.look()
        for ask in self._desk.asks():
            ends |= carry_out.get(ask.action, self._ask_unknown)(ask)
        return ends

    def _ask_errand(self, ask: Control) -> bool:
        self._errands.begin(ask, self._engine, self._scenarios, current_epoch(self._home))
        return False

    def _ask_cancel(self, ask: Control) -> bool:
        self._errands.cancel(ask)
        return False

    def _ask_unknown(self, ask: Control) -> bool:
        self._desk.answer(ask, "refused", f"{ask.action} is not known to this job")
        return False

    def _ask_stop(self, ask: Control) -> bool:
        if (stopped := self._desk.stopped) is not None:
            self._desk.answer(ask, "done", f"{stopped.user} had stopped it already")
            return False
        self._desk.accept(ask)
        return True

    def _ask_start(self, ask: Control) -> bool:
        if self._desk.stopped is None and self._report.running:
            self._desk.answer(ask, "done", "it runs already")
            return False
        self._desk.accept(ask)
        return True  # also out of the pause after an error

    def _ask_reload(self, ask: Control) -> bool:
        before = self._scenarios
        try:
            book = read_book(self._settings)
            mine = self._sharing.anew(self._engine, book.rules)
        except (ScenarioError, Refused) as refused:
            self._desk.answer(ask, "refused", str(refused))
            return False
        except ProcessNeeded as needed:
            self._desk.accept(ask)
            self._leave = f"scenarios were read anew: {needed}"
            return True
        self._sharing.adopt(self._engine, mine)
        self._book, self._scenarios = book, mine
        if mine == before:
            words = ["the scenarios are as they were", *self._overlay_problems()]
            self._desk.answer(ask, "done", "; ".join(words))
            self._tell_scenarios({})
            return False
        words = [_changes(before, mine), *self._overlay_problems()]
        return self._take_over(ask, set(mine) == set(before), "; ".join(words))

    def _ask_rule(self, ask: Control) -> bool:
        try:
            name, book = rulechange.changed(self._book, self._scenarios, ask, _now())
            mine = rulechange.share(self._sharing, self._engine, book)
        except Refused as refused:
            self._desk.answer(ask, "refused", str(refused))
            return False
        self._desk.accept(ask)  # from here on it is carried out, by the next driver if need be
        try:
            keep(self._settings.data_dir, name, book.overlay(name))
        except OSError as error:
            self._desk.answer(ask, "refused", f"the overlay cannot be written: {error}")
            return False
        words = rulechange.told(self._scenarios[name], mine[name])
        self._sharing.adopt(self._engine, mine)
        self._book, self._scenarios = book, mine
        return self._take_over(ask, True, f"{name}: {words}")

    def _ask_rebuild(self, ask: Control) -> bool:
        try:
            self._rebuilds.judge(ask, self._scenarios)
        except (Refused, BusError) as refused:
            self._desk.answer(ask, "refused", str(refused))
            return False
        self._desk.begin_rebuild(ask)
        try:
            self._rebuilds.prepare(ask)  # the query goes on meanwhile
        except (Refused, OSError) as refused:
            self._desk.answer(ask, "refused", str(refused))
            return False
        return True

    def _overlay_problems(self) -> list[str]:
        """Why what the console changed does not count, where it does not."""
        others = self._book.configured.keys() - self._scenarios.keys()
        problems = self._book.problems.items()
        return [why[:MAX_REASON] for name, why in problems if name not in others]

    def _tell_scenarios(self, newest: Mapping[BucketId, int]) -> None:
        """Tell what is carried. newest: the offsets of the records in which the log has it."""
        for carried in self._book.carried(self._scenarios, newest):
            self._report.carries(carried)

    def _take_over(self, ask: Control, same_topics: bool, changes: str) -> bool:
        """Bring changed scenarios into force; whether the query is to be started anew for them."""
        if self._desk.stopped is not None:
            self._desk.answer(ask, "done", f"{changes}; in force once it is started")
            self._tell_scenarios({})
            return False
        if same_topics and self._report.running:
            try:
                self._settle_rules()
            except (BusError, OSError) as error:
                log.warning("rules could not be appended: %s", error)
            else:
                self._desk.answer(ask, "done", changes)
                return False
        self._desk.accept(ask)
        self._stop_ticks()
        return True

    def _backlog(self, plan: Plan, epoch: Epoch) -> int:
        """Records between the checkpoint and the log's end."""
        reached = self._reached(epoch, plan.start)
        edges = self._bus.offsets(self._topics.reports(name) for name in plan.partitions)
        return sum(end - max(begin, reached.get(at, 0)) for at, (begin, end) in edges.items())

    def _prepare(self) -> tuple[Plan, Epoch, list[str]]:
        """Topics, rules and ticks; what the query is to know.

        Raises BusError, also where a source topic's settings are wrong, and LogProblem.
        """
        self._bus.wait(10)
        specs = [TopicSpec(*spec) for spec in self._topics.specs(self._scenarios.values())]
        self._bus.ensure_topics(specs, replication=self._settings.replication)
        sources = [self._topics.reports(name) for name in self._scenarios]
        check(self._bus, sources, self._settings.bootstrap)
        self._unbounded = bound_topics(
            self._bus, [spec.name for spec in specs], self._settings.bootstrap
        )
        rules = self._settle_rules()
        places = {(self._topics.reports(b.scenario), b.partition) for b in rules}
        if self._ticker is None:
            self._ticker = Ticker(self._bus, places, self._settings.tick_ms)
            self._ticker.start()
        self._rebuilds.carry_out(self._scenarios)
        epoch = current_epoch(self._home)
        self._report.epoch = epoch.number
        partitions = {name: s.partitions for name, s in self._scenarios.items()}
        start = self._begun(epoch)
        first = {bucket: start.rules.get(str(bucket), rule) for bucket, rule in rules.items()}
        prefix, keys = self._settings.topic_prefix, str(self._keys.path)
        plan = Plan(prefix, epoch.number, partitions, first, start, keys)
        self._set_aside(epoch, self._begins(epoch, start))
        return plan, epoch, self._gaps(self._reached(epoch, start), places)

    def _begun(self, epoch: Epoch) -> Start:
        """How an epoch begins: as long as nothing rests on it, with all bounds that are known."""
        start, folder = start_of(epoch), self._home.parent
        if not positions(epoch.path):
            edges = self._bus.offsets(self._topics.reports(name) for name in self._scenarios)
            mine = {self._bucket(place): edge for place, edge in edges.items()}
            bounds = in_log(merged(known(folder), start.bounds), mine)
            start = start if bounds == start.bounds else bound(epoch, bounds)
        remember(folder, start.bounds)
        self._report.bounds = start.bounds
        return start

    def _bucket(self, place: TopicPartition) -> str:
        return str(BucketId(self._topics.scenario_of(place[0]) or "", place[1]))

    def _reached(self, epoch: Epoch, start: Start) -> dict[TopicPartition, int]:
        """The next offset that the query reads, as far as the log's beginning is not meant."""
        begun = {BucketId.parse(name): at for name, at in start.offsets.items() if at >= 0}
        places = {(self._topics.reports(b.scenario), b.partition): at for b, at in begun.items()}
        return positions(epoch.path) or places

    def _settle_rules(self) -> dict[BucketId, str]:
        """Append the rules that differ from those in the log. Raises BusError."""
        signer = Signer(self._keys.ring, _now)
        path = self._home / "rules.json"
        rules = Rules(self._bus, self._topics, path, self._keys.ring, signer)
        first = rules.settle(self._scenarios)
        self._tell_scenarios(rules.newest)
        return first

    def _gaps(self, reached: Mapping[TopicPartition, int], read: set[TopicPartition]) -> list[str]:
        """What the query will pass over, in words. Raises LogProblem."""
        return gaps(reached, self._bus.offsets({topic for topic, _ in reached}), read)

    def _after(self, error: Exception, ran_s: float) -> None:
        """Tell of an error and wait as long as it calls for."""
        self._check_jvm(error)
        text = f"{type(error).__name__}: {error}"
        self._check_rule(text)
        log.debug("the query ended", exc_info=error)
        verdict = judge(text)
        self._report.restarts += 1
        if not verdict.passes:
            why = f"{verdict.advice} ({first_line(text, LONGEST_WHY)})"
            self._report.status("waiting", why, text)
            self._desk.settle("failed", why)
            self._wait(PAUSE_STAYING_S)
            return
        self._pause = FIRST_PAUSE_S if ran_s > HEALTHY_S else self._pause
        self._report.status("restarting", f"in {self._pause:g} s: {first_line(text)}", text)
        self._wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)

    def _check_rule(self, text: str) -> None:
        """Hand a scenario over to the Python engine where the kernel has met a rule in Python."""
        found = re.search(r"NeedsPython: ([a-z0-9-]+)", text)
        if found is not None:
            hand_over(self._home.parent, found[1])
            self._give_up(
                f"{found[1]}: its log holds a rule in Python: "
                "it goes over to the Python engine at the next start"
            )

    def _check_jvm(self, error: Exception) -> None:
        if isinstance(error, BusError | LogProblem):
            return
        process = jvm(self._spark)
        if process is not None and isinstance(error, OSError):
            with suppress(TimeoutExpired):
                process.wait(EXIT_S)  # it no longer answers: it is about to end
        if process is not None and process.poll() is not None:
            self._give_up(f"Spark's JVM ended with {process.returncode}", str(error))

    def _give_up(self, why: str, error: str = "") -> NoReturn:
        """End the driver, for a new process to begin."""
        self._report.status("failed", why, error)
        self._close()
        raise JvmLost(why)

    def _stop_ticks(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def _close(self) -> None:
        self._stop_ticks()
        self._errands.close()
        self._desk.close()
        if self._stop.is_set():
            self._report.status("stopped")
        self._report.close()


def _changes(before: Mapping[str, Scenario], after: Mapping[str, Scenario]) -> str:
    """What differs between scenarios, in words."""
    lists = {
        "changed": [name for name in after if name in before and after[name] != before[name]],
        "new": [name for name in after if name not in before],
        "gone": [name for name in before if name not in after],
    }
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in lists.items() if names)


def run_all(
    drivers: Sequence[Driver], stop: threading.Event, beat: Callable[[], None] = lambda: None
) -> None:
    """Run one query beside the other until `stop` is set, or one of them raises JvmLost.

    beat: called each second while all of them run.
    """
    with ThreadPoolExecutor(len(drivers), "query") as pool:
        running = [pool.submit(driver.run) for driver in drivers]
        while not wait(running, BEAT_S, return_when=FIRST_COMPLETED).done:
            beat()
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
    for one in running:
        one.result()


def jvm(spark: SparkSession) -> Any:
    """The process of Spark's JVM, a Popen, or None where somebody else started it."""
    return getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001


def _now() -> int:
    return int(time.time() * 1000)


def end_spark(spark: SparkSession, patience_s: float = STOP_S, exit_s: float = EXIT_S) -> None:
    """Stop Spark, with its queries; kill its JVM when that takes longer than `patience_s`.

    exit_s: how long the JVM may then take to end. Raises subprocess.TimeoutExpired.
    """
    process = jvm(spark)
    stopping = threading.Thread(target=_stop_quietly, args=(spark,), daemon=True)
    stopping.start()
    stopping.join(patience_s)
    if process is not None and process.poll() is None:
        process.kill() if stopping.is_alive() else process.stdin.close()
        process.wait(exit_s)


def _stop_quietly(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001, it may be gone already
        log.debug("Spark did not stop: %s", error)
