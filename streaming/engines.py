"""Which engine carries which scenario, and how many tasks run at once for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from domain.scenario import PythonRule, Scenario
from streaming.checkpoint import raise_epoch
from streaming.query import Engine, Trigger
from streaming.session import STATE_PARTITIONS

Shares = dict[Engine, dict[str, Scenario]]
"""The scenarios of each engine that has any."""

HANDED_OVER = "handed-over.json"

MICRO_BATCH_SLOTS = 4
"""Tasks of a query in micro-batches that run at once; it can do with fewer."""


def share_out(preferred: Engine, scenarios: Mapping[str, Scenario], home: Path) -> Shares:
    """Each scenario's engine: Python for a rule in Python, now or in its log, else `preferred`.

    home: where the engines keep their checkpoints. A scenario that moves to another engine begins
    there from its log, in an epoch above all others, so that its versions go on rising.
    """
    carried, in_python = _read(home), _with_python_rules(home) | _handed_over(home)
    shares: Shares = {}
    for name, scenario in scenarios.items():
        python = isinstance(scenario.rule, PythonRule) or name in in_python
        engine: Engine = "python" if python else preferred
        shares.setdefault(engine, {})[name] = scenario
    for engine, carries in shares.items():
        if any(carried.get(name, engine) != engine for name in carries):
            raise_epoch(home / engine)
    _write(home, {name: engine for engine, carries in shares.items() for name in carries})
    return shares


def trigger_of(engine: Engine, wanted: Trigger) -> Trigger:
    """How an engine's query runs: Python in micro-batches, whatever is wanted."""
    return wanted if engine == "kernel" else "micro-batch"


def slots(shares: Shares, trigger: Trigger) -> int:
    """Tasks that run at once: in Real-time Mode one per partition, of source and state."""
    found = 0
    for engine, carries in shares.items():
        if trigger_of(engine, trigger) == "real-time":
            found += sum(scenario.partitions for scenario in carries.values()) + STATE_PARTITIONS
        else:
            found += MICRO_BATCH_SLOTS
    return max(found, MICRO_BATCH_SLOTS)


def hand_over(home: Path, scenario: str) -> None:
    """From the job's next start on the Python engine carries `scenario`: its log calls for it."""
    home.mkdir(parents=True, exist_ok=True)
    (home / HANDED_OVER).write_text(json.dumps(sorted({scenario} | _handed_over(home))))


def _handed_over(home: Path) -> set[str]:
    try:
        return set(json.loads((home / HANDED_OVER).read_text()))
    except (OSError, ValueError):
        return set()


def _with_python_rules(home: Path) -> set[str]:
    """Scenarios whose log, as far as the Python engine knows it, holds a rule in Python."""
    try:
        stored = json.loads((home / "python" / "rules.json").read_text())
    except (OSError, ValueError):
        return set()
    rules = [json.loads(text) for held in stored.values() for _, text in held]
    return {rule["name"] for rule in rules if rule["rule"]["kind"] == "python"}


def _read(home: Path) -> dict[str, str]:
    try:
        return dict(json.loads((home / "engines.json").read_text()))
    except (OSError, ValueError):
        return {}


def _write(home: Path, engines: Mapping[str, Engine]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    draft = home / "engines.new"
    draft.write_text(json.dumps(engines))
    draft.replace(home / "engines.json")
