"""The scenarios that the job carries: scenarios.toml, and over it what the console has changed.

Each scenario's overlay is a file of its own below the data directory, written before its rule goes
into the log: a job that dies between the two appends the rule at its next start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from config.settings import Settings
from domain.overlay import digest, overlaid
from domain.scenario import Scenario, ScenarioError
from domain.scenario_parser import load_scenarios
from streaming.buckets import BucketId
from wire.job import Carried, Overlay
from wire.source import MAX_BRACKETS, MAX_RECORD, fits

log = logging.getLogger("streaming.overlays")

FOLDER = "overlay"
# What a scenario has that was never changed from the console.
NOTHING = Overlay()


@dataclass(frozen=True)
class Book:
    """Scenarios by name. configured: by the file; overlays: also those that do not fit any more;
    rules: the two together; problems: why an overlay does not count."""

    configured: Mapping[str, Scenario]
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    rules: Mapping[str, Scenario] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def overlay(self, name: str) -> Overlay:
        """Return what is laid over a scenario."""
        return self.overlays.get(name, NOTHING)

    def version(self, name: str) -> str:
        """Return the digest of a scenario's file and overlay."""
        return digest(self.configured[name], self.overlay(name).keys)

    def changed(self, name: str, overlay: Overlay) -> Book:
        """Return the book with another overlay. Raises ScenarioError where it does not fit."""
        rule = fitting(self.configured[name], overlay)
        problems = {other: why for other, why in self.problems.items() if other != name}
        return replace(
            self,
            overlays={**self.overlays, name: overlay},
            rules={**self.rules, name: rule},
            problems=problems,
        )

    def carried(self, names: Iterable[str], newest: Mapping[BucketId, int]) -> Iterator[Carried]:
        """Yield what is reported of these scenarios.

        newest: the offsets of their rules in the log.
        """
        for name in names:
            yield Carried(
                scenario=name,
                version=self.version(name),
                configured=self.configured[name].to_plain(),
                rule=self.rules[name].to_plain(),
                overlay=self.overlay(name),
                problem=self.problems.get(name, ""),
                offsets={b.partition: at for b, at in newest.items() if b.scenario == name},
            )


def fitting(configured: Scenario, overlay: Overlay) -> Scenario:
    """Return a scenario with its overlay, if a record can carry it. Raises ScenarioError."""
    rule = overlaid(configured, overlay.keys)
    if overlay.keys and not fits(rule):
        raise ScenarioError(
            f"{rule.name}: expected a scenario of at most {MAX_RECORD:,} bytes and "
            f"{MAX_BRACKETS} brackets, as a record of the log can carry it"
        )
    return rule


def read_book(settings: Settings) -> Book:
    """Read the file and the overlays as they are now.

    An overlay that does not fit the file keeps no scenario from running: the file alone counts.

    Raises ScenarioError for the file.
    """
    configured = load_scenarios(settings.scenarios, demo=settings.demo)
    overlays, problems = _read(settings.data_dir / FOLDER)
    rules = dict(configured)
    for name, overlay in overlays.items():
        if name not in configured:
            problems[name] = f"{name}: its overlay waits, as {settings.scenarios.name} lacks it"
            continue
        try:
            rules[name] = fitting(configured[name], overlay)
        except ScenarioError as error:
            problems[name] = f"the overlay does not fit {settings.scenarios.name}: {error}"
    for problem in problems.values():
        log.warning("%s", problem)
    return Book(configured, overlays, rules, problems)


def _read(folder: Path) -> tuple[dict[str, Overlay], dict[str, str]]:
    overlays, problems = {}, {}
    for path in sorted(folder.glob("*.json")):
        try:
            overlays[path.stem] = msgspec.json.decode(path.read_bytes(), type=Overlay)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            problems[path.stem] = f"{path} cannot be read, and does not count: {error}"
    return overlays, problems


def keep(data_dir: Path, name: str, overlay: Overlay) -> None:
    """Write a scenario's overlay, whole or not at all. Raises OSError."""
    folder = data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{name}.new"
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(overlay))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / f"{name}.json")
