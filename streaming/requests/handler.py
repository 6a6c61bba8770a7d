"""What each request has the job do, changes of rules among it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bus.base import BusError
from domain.overlay import canonical, differing, overlay_text
from domain.scenario import Scenario, ScenarioError
from streaming.fold.assignment import AssignmentRefused, EngineAssignment, ProcessNeeded
from streaming.fold.progress import ProgressReporter
from streaming.fold.rules import Book, keep
from streaming.fold.workload import Workload, now_ms
from streaming.queries.runner import BatchQueries
from streaming.requests.queue import RequestQueue
from streaming.requests.rebuild import StateRebuild
from streaming.state.buckets import Engine
from streaming.state.checkpoint import LogProblem, current_epoch
from wire.job import Control, Overlay

# ---- rule change ---------------------------------------------------------------------------------
# What an ask for another rule comes to: its parameters, judged by what the driver carries.


class RuleChangeParameters(msgspec.Struct, frozen=True):
    """An ask's parameters. keys: the whole overlay from now on, empty to take it back; base: the
    version that it was made from."""

    scenario: str
    keys: dict[str, Any]
    base: str


def changed_book(
    book: Book, mine: Mapping[str, Scenario], ask: Control, now: int
) -> tuple[str, Book]:
    """Return the scenario of a request and the book with its change. Raises AssignmentRefused.

    now: Unix ms.
    """
    try:
        change = msgspec.convert(ask.parameters, RuleChangeParameters)
    except msgspec.ValidationError as error:
        raise AssignmentRefused(f"parameters: {error}") from None
    name = change.scenario
    if name not in mine:
        raise AssignmentRefused(f"scenario: expected one of {', '.join(mine)}, got {name[:40]!r}")
    if book.overlay(name).id == ask.id:
        return name, book  # its file was written before the job ended
    if change.base != book.version(name):
        raise AssignmentRefused(
            f"{name}: another change came between; look at the rule as it is now, and ask again"
        )
    try:
        keys = canonical(book.configured[name], change.keys)
        overlay = Overlay(keys, ask.user, ask.reason, now, ask.id)
        return name, book.changed(name, overlay)
    except ScenarioError as error:
        raise AssignmentRefused(str(error)) from None


def share_of_book(sharing: EngineAssignment, engine: Engine, book: Book) -> dict[str, Scenario]:
    """Return the engine's share of the changed book. Raises Refused if a reload is not enough."""
    try:
        return sharing.anew(engine, book.rules)
    except ProcessNeeded as needed:
        raise AssignmentRefused(f"{needed}: that takes scenarios.toml and a new process") from None


def changes_in_toml(before: Scenario, after: Scenario) -> str:
    """Return what changed, as TOML in one line."""
    keys = differing(before, after)
    if not keys:
        return "the rule stays as it was"
    return " ".join(overlay_text(keys).split())


# ---- request handler -----------------------------------------------------------------------------
# What the console asks of a running query, carried out.

log = logging.getLogger("streaming.requests.handler")


class RequestHandler:
    """Carries out the requests of one query's queue."""

    def __init__(
        self,
        workload: Workload,
        queue: RequestQueue,
        report: ProgressReporter,
        rebuilds: StateRebuild,
        stop_ticks: Callable[[], None],
    ) -> None:
        self._workload, self._queue, self._report = workload, queue, report
        self._rebuilds, self._stop_ticks = rebuilds, stop_ticks
        self._batch_queries = BatchQueries(workload.settings, queue)
        self.new_process = ""
        """Why only a new process can do what was asked; empty while none is needed."""

    def carry_out(self) -> bool:
        """Carry out what is new; return whether what runs or waits now is to end for it."""
        actions = {
            "stop": self._stop,
            "start": self._start,
            "reload": self._reload,
            "rule": self._change_rule,
            "reset": self._rebuild,
            "rebuild": self._rebuild,
            "read-state": self._begin_batch_query,
            "what-if": self._begin_batch_query,
            "cancel": self._cancel_batch_query,
        }
        ends = False
        self._batch_queries.look()
        for request in self._queue.receive():
            ends |= actions.get(request.action, self._refuse_unknown)(request)
        return ends

    def finish_rule_changes(self) -> None:
        """Carry out the changes of rule that an earlier driver accepted and did not finish."""
        for request in self._queue.unfinished("rule"):
            self._change_rule(request)

    def close(self) -> None:
        """End the batch query that is under way."""
        self._batch_queries.close()

    # ---- the query ------------------------------------------------------------------------------

    def _stop(self, request: Control) -> bool:
        if (stopped := self._queue.stopped) is not None:
            self._queue.answer(request, "done", f"{stopped.user} had stopped it already")
            return False
        self._queue.accept(request)
        return True

    def _start(self, request: Control) -> bool:
        if self._queue.stopped is None and self._report.running:
            self._queue.answer(request, "done", "it runs already")
            return False
        self._queue.accept(request)
        return True  # also out of the pause after an error

    def _rebuild(self, request: Control) -> bool:
        try:
            self._rebuilds.judge(request, self._workload.scenarios)
        except (AssignmentRefused, BusError, LogProblem, OSError) as refused:
            self._queue.answer(request, "refused", str(refused))
            return False
        self._queue.begin_rebuild(request)
        try:
            self._rebuilds.prepare(request)  # the query goes on meanwhile
        except (AssignmentRefused, OSError) as refused:
            self._queue.answer(request, "refused", str(refused))
            return False
        return True

    # ---- its scenarios --------------------------------------------------------------------------

    def _reload(self, request: Control) -> bool:
        workload, before = self._workload, self._workload.scenarios
        try:
            book, mine = workload.read_anew()
        except (ScenarioError, AssignmentRefused) as refused:
            self._queue.answer(request, "refused", str(refused))
            return False
        except ProcessNeeded as needed:
            self._queue.accept(request)
            self.new_process = f"scenarios were read anew: {needed}"
            return True
        workload.adopt(book, mine)
        if mine == before:
            words = ["the scenarios are as they were", *workload.overlay_problems()]
            self._queue.answer(request, "done", "; ".join(words))
            workload.publish(self._report, {})
            return False
        words = [_changes(before, mine), *workload.overlay_problems()]
        return self._take_over(request, set(mine) == set(before), "; ".join(words))

    def _change_rule(self, request: Control) -> bool:
        workload, scenarios = self._workload, self._workload.scenarios
        try:
            name, book = changed_book(workload.book, scenarios, request, now_ms())
            mine = share_of_book(workload.sharing, workload.engine, book)
        except AssignmentRefused as refused:
            self._queue.answer(request, "refused", str(refused))
            return False
        self._queue.accept(request)  # from here on the next driver carries it out, if need be
        try:
            keep(workload.settings.data_dir, name, book.overlay(name))
        except OSError as error:
            self._queue.answer(request, "refused", f"the overlay cannot be written: {error}")
            return False
        workload.adopt(book, mine)
        words = changes_in_toml(scenarios[name], mine[name])
        return self._take_over(request, True, f"{name}: {words}")

    def _take_over(self, request: Control, same_topics: bool, changes: str) -> bool:
        """Bring changed scenarios into force; return whether the query is to start again."""
        if self._queue.stopped is not None:
            self._queue.answer(request, "done", f"{changes}; in force once it is started")
            self._workload.publish(self._report, {})
            return False
        if same_topics and self._report.running:
            try:
                self._workload.append_rules(self._report)
            except (BusError, OSError) as error:
                log.warning("rules could not be appended: %s", error)
            else:
                self._queue.answer(request, "done", changes)
                return False
        self._queue.accept(request)
        self._stop_ticks()
        return True

    # ---- batch queries ---------------------------------------------------------------------------

    def _begin_batch_query(self, request: Control) -> bool:
        workload = self._workload
        epoch = current_epoch(workload.home)
        self._batch_queries.begin(request, workload.engine, workload.scenarios, epoch)
        return False

    def _cancel_batch_query(self, request: Control) -> bool:
        self._batch_queries.cancel(request)
        return False

    def _refuse_unknown(self, request: Control) -> bool:
        self._queue.answer(request, "refused", f"{request.action} is not known to this job")
        return False


def _changes(before: Mapping[str, Scenario], after: Mapping[str, Scenario]) -> str:
    """Return what differs between scenarios, in words."""
    lists = {
        "changed": [name for name in after if name in before and after[name] != before[name]],
        "new": [name for name in after if name not in before],
        "gone": [name for name in before if name not in after],
    }
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in lists.items() if names)
