"""Which engine carries which scenario, and how many tasks run at once for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from domain.scenario import PythonRule, Scenario
from streaming.fold.rules import read_rules
from streaming.state.buckets import UNNAMED_STATE_PARTITIONS, Engine, Trigger
from streaming.state.checkpoint import begin_epochs, raise_epoch
from streaming.state.storage import StoragePath

# The scenarios of each engine that has any.
Shares = dict[Engine, dict[str, Scenario]]

HANDED_OVER = "handed-over.json"

# Tasks of a query in micro-batches that run at once; it can do with fewer.
MICRO_BATCH_SLOTS = 4


def assign_engines(
    preferred: Engine, scenarios: Mapping[str, Scenario], home: StoragePath
) -> Shares:
    """Assign each scenario an engine: Python for a rule in Python, now or in its log, else
    `preferred`.

    home: where the engines keep their checkpoints. A scenario that moves to another engine begins
    there from its log, in an epoch above all others, so that its versions go on rising.
    """
    carried, shares = _read(home), shared_out(preferred, scenarios, home)
    for engine, carries in shares.items():
        if any(carried.get(name, engine) != engine for name in carries):
            raise_epoch(home / engine)
    begin_epochs(home / engine for engine in shares)
    _write(home, {name: engine for engine, carries in shares.items() for name in carries})
    return shares


def shared_out(preferred: Engine, scenarios: Mapping[str, Scenario], home: StoragePath) -> Shares:
    """Return the scenarios of each engine, as `assign_engines` does, and change nothing."""
    in_python = _with_python_rules(home) | _handed_over(home)
    shares: Shares = {}
    for name, scenario in scenarios.items():
        engine = _engine_of(scenario, preferred, in_python)
        shares.setdefault(engine, {})[name] = scenario
    return shares


class AssignmentRefused(Exception):
    """The running job cannot adopt these scenarios; the message says why."""


class ProcessNeeded(Exception):
    """These scenarios divide the work differently, which takes a new process."""


@dataclass(frozen=True, slots=True)
class EngineAssignment:
    """How the work of a running job is shared out.

    room: tasks that may run at once, None: any; state_partitions: the most of any query's state.
    """

    preferred: Engine
    trigger: Trigger
    home: StoragePath
    shares: Shares
    room: int | None
    state_partitions: int = UNNAMED_STATE_PARTITIONS

    def anew(self, engine: Engine, scenarios: Mapping[str, Scenario]) -> dict[str, Scenario]:
        """Return the share of one engine out of scenarios that were read again.

        Raises Refused, or ProcessNeeded where a scenario has another engine now, or too few tasks
        could run at once.
        """
        in_python = _with_python_rules(self.home) | _handed_over(self.home)
        carried = {name: one for one, carries in self.shares.items() for name in carries}
        mine: dict[str, Scenario] = {}
        for name, scenario in scenarios.items():
            target = _engine_of(scenario, self.preferred, in_python)
            if carried.get(name, target) != target or target not in self.shares:
                raise ProcessNeeded(f"{name} goes to the {target} engine")
            if target == engine:
                mine[name] = scenario
        self._check(engine, mine)
        return mine

    def _check(self, engine: Engine, mine: dict[str, Scenario]) -> None:
        if not mine:
            raise AssignmentRefused(f"no scenario is left for the {engine} engine")
        for name, before in self.shares[engine].items():
            if name in mine and mine[name].partitions != before.partitions:
                raise AssignmentRefused(
                    f"{name}: partitions: expected {before.partitions} as before, "
                    f"got {mine[name].partitions}: a topic's partition count is fixed"
                )
        needed = slots({**self.shares, engine: mine}, self.trigger, self.state_partitions)
        if self.room is not None and needed > self.room:
            raise ProcessNeeded(f"{needed} tasks are to run at once, and {self.room} can")

    def adopt(self, engine: Engine, mine: dict[str, Scenario]) -> None:
        """Have the engine carry these from now on."""
        self.shares[engine] = mine
        _write(self.home, {name: one for one, carries in self.shares.items() for name in carries})


def _engine_of(scenario: Scenario, preferred: Engine, in_python: set[str]) -> Engine:
    python = isinstance(scenario.rule, PythonRule) or scenario.name in in_python
    return "python" if python else preferred


def trigger_of(engine: Engine, requested: Trigger) -> Trigger:
    """Return how an engine's query runs: Python in micro-batches, whatever is requested."""
    return requested if engine == "kernel" else "micro-batch"


def slots(
    shares: Shares, trigger: Trigger, state_partitions: int = UNNAMED_STATE_PARTITIONS
) -> int:
    """Return how many tasks run at once: in Real-time Mode one per source or state partition."""
    tasks = 0
    for engine, carries in shares.items():
        if trigger_of(engine, trigger) == "real-time":
            tasks += sum(scenario.partitions for scenario in carries.values()) + state_partitions
        else:
            tasks += MICRO_BATCH_SLOTS
    return max(tasks, MICRO_BATCH_SLOTS)


def most_slots(
    preferred: Engine,
    scenarios: Mapping[str, Scenario],
    trigger: Trigger,
    state_partitions: int = UNNAMED_STATE_PARTITIONS,
) -> int:
    """Return how many tasks run at once at most, whichever scenarios go over to Python."""
    in_python = slots({}, trigger)
    if preferred == "python":
        return in_python
    return slots({preferred: dict(scenarios)}, trigger, state_partitions) + in_python


def hand_over(home: StoragePath, scenario: str) -> None:
    """Have the Python engine carry `scenario` from the job's next start: its log calls for it."""
    names = sorted({scenario} | _handed_over(home))
    (home / HANDED_OVER).write_whole(json.dumps(names).encode())


def _handed_over(home: StoragePath) -> set[str]:
    try:
        return set(json.loads((home / HANDED_OVER).read_bytes()))
    except (OSError, ValueError):
        return set()


def _with_python_rules(home: StoragePath) -> set[str]:
    """Return the names of scenarios whose log, as far as the Python engine knows it, holds a rule
    in Python."""
    stored = read_rules(home / "python" / "rules.json").rules
    rules = [json.loads(text) for held in stored.values() for _, text in held]
    return {rule["name"] for rule in rules if rule["rule"]["kind"] == "python"}


def _read(home: StoragePath) -> dict[str, str]:
    try:
        return dict(json.loads((home / "engines.json").read_bytes()))
    except (OSError, ValueError):
        return {}


def _write(home: StoragePath, engines: Mapping[str, Engine]) -> None:
    (home / "engines.json").write_whole(json.dumps(engines).encode())
