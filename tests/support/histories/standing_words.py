"""Every history of a few steps in which one agent may say worse than the row shows.

Two agents say the mildest word throughout. A third one says this and that, by a clock that may be
wrong, and its records may come late, twice or not readable. Its *standing word* is what it said
last, by true time. A history is wrong where the standing word is worse than the row, is not on it,
and its agent is not in doubt; and where the row is not calm although all have said the mildest word
for two lifetimes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from domain.asset import Asset
from domain.fold import Bucket
from domain.records import (
    Command,
    Leave,
    Record,
    RefusedReport,
    Report,
    ScenarioChange,
    Tombstone,
)
from domain.scenario import FOLD, Scenario
from domain.scenario_parser import scenario_from_plain
from support.histories.false_green import ANY, LATEST, MAJORITY, SITE, START
from support.histories.histories import stamped

MINUTE = 60_000
LIFETIME, FORGET = 10 * MINUTE, 30 * MINUTE
BAD, MEH, GOOD, ODD = "attack", "suspicious", "clear", "odd"
AGENT, OTHERS = "a", ("b", "c")


class Act(NamedTuple):
    """What happens in a step.

    do: say, refuse, again (the first report once more), again-last, leave, rename, purge; word:
    said, or the state that is renamed; clock: of the agent, minutes ahead; held: how many minutes
    the record was on its way.
    """

    do: str
    word: str = ""
    clock: float = 0
    held: float = 0


SMALL = (
    Act("say", BAD),
    Act("say", GOOD),
    Act("say", BAD, 2),
    Act("say", GOOD, 2),
    Act("say", BAD, -60),
    Act("say", GOOD, 6),
    Act("again"),
    Act("leave"),
    Act("say", GOOD, 0, 0.75),
)
WIDE = (
    *SMALL,
    Act("say", BAD, 6),
    Act("say", BAD, -30),
    Act("say", BAD, -2),
    Act("say", GOOD, -2),
    Act("say", GOOD, 180),
    Act("say", BAD, 0, 4),
    Act("say", MEH),
    Act("say", MEH, -60),
    Act("refuse"),
    Act("leave", "", 0, 0.75),
    Act("rename", GOOD),
    Act("rename", BAD),
    Act("rename"),
    Act("purge"),
    Act("again-last"),
)
GAPS = (1, 6)
"""Minutes from one step to the next, of which a history has one."""
BEGINNINGS = ((), (Act("say", GOOD),), (Act("say", BAD),))
RULES = (MAJORITY, ANY, LATEST)
LOOKS = (0.25, 4, 9, 11, 19, 24)
"""Minutes after the last step at which the row is looked at."""


class History(NamedTuple):
    """One of them. rule: which of RULES."""

    rule: int
    gap: int
    beginning: tuple[Act, ...]
    steps: tuple[Act, ...]


def histories(alphabet: Sequence[Act], length: int) -> Iterator[History]:
    """Yield every history of so many steps."""
    for steps in product(alphabet, repeat=length):
        for rule, gap, beginning in product(range(len(RULES)), GAPS, BEGINNINGS):
            yield History(rule, gap, beginning, steps)


@cache
def scenario(rule: int, renamed: str = "", fold: int = FOLD) -> Scenario:
    """The scenario, one of whose states may have another name."""
    names = [f"new-{name}" if name == renamed else name for name in (BAD, MEH, GOOD)]
    plain: dict[str, Any] = {
        "name": "watch",
        "fold": fold,
        "states": [{"name": name} for name in names],
        "rule": _named(RULES[rule], dict(zip((BAD, MEH, GOOD), names, strict=True))),
        "vote_lifetime": LIFETIME,
        "min_voters": 2,
    }
    return scenario_from_plain(plain)


def _named(rule: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return the rule with its states by other names."""
    if "ladder" not in rule:
        return rule
    ladder = [{**step, "state": names[step["state"]]} for step in rule["ladder"]]
    default = rule.get("default", "keep")
    return {**rule, "ladder": ladder, "default": names.get(default, default)}


class Said(NamedTuple):
    """What the agent said. at: by true time; until: how long it must be seen, both ms."""

    word: str
    at: int
    until: int


@dataclass
class Run:
    """A history as it is folded."""

    history: History
    fold: int = FOLD
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rule = scenario(self.history.rule, "", self.fold)
        self._bucket = Bucket(self.rule, 0, 1)
        self._offset = 0
        self._said: Said | None = None
        self._left = 0
        self._sent: list[tuple[Record, Said]] = []

    def run(self) -> list[str]:
        """Return what is wrong with the history."""
        now = 0.0
        self._others(now)
        for act in self.history.beginning:
            self._do(act, now)
        for step in self.history.steps:
            now += self.history.gap
            self._look(now - 0.1)
            self._do(step, now)
            self._look(now + 0.1)
        for later in LOOKS:
            self._look(now + later)
        self._clears(now + LOOKS[-1] + 1)
        return self.faults

    def _clears(self, now: float) -> None:
        """Let all say the mildest word for two lifetimes."""
        for later in range(0, 22, 2):
            self._others(now + later)
            self._append(Report(SITE, AGENT, self.rule.mildest, _ms(now + later)), now + later)
        asset = self._asset()
        if asset is None or asset.shown != self.rule.mildest or not _is_calm(asset):
            self.faults.append(f"not calm at the end: {asset}")

    # ---- steps ----

    def _do(self, act: Act, now: float) -> None:
        match act.do:
            case "say":
                at = _ms(now - act.held)
                report = Report(SITE, AGENT, act.word, at + round(act.clock * MINUTE))
                life = _life(act) if self.rule.knows(act.word) else LIFETIME
                self._send(report, Said(act.word, at, _ms(now) + life), now)
            case "refuse":
                refused = RefusedReport(SITE, AGENT, None, "bad-field")
                self._send(refused, Said(ODD, _ms(now), _ms(now) + LIFETIME), now)
            case "again" | "again-last":
                if self._sent:
                    self._append(self._sent[0 if act.do == "again" else -1][0], now)
            case "leave":
                at = _ms(now - act.held)
                self._append(Leave(SITE, AGENT, at), now)
                self._left = max(self._left, at)
                if self._said is not None and self._said.word != ODD and self._said.at <= at:
                    self._said = None
            case "rename":
                self.rule = scenario(self.history.rule, act.word, self.fold)
                self._append(ScenarioChange(self.rule), now)
            case "purge":
                id_ = f"{self._offset:08d}-0000-4000-8000-000000000000"
                self._append(Command("purge", SITE, id_, "olga"), now)

    def _send(self, record: Record, said: Said, now: float) -> None:
        self._sent.append((record, said))
        self._append(record, now)
        if said.at >= (self._left if self._said is None else self._said.at):
            self._said = said

    def _others(self, now: float) -> None:
        for agent in OTHERS:
            self._append(Report(SITE, agent, self.rule.mildest, _ms(now)), now)

    def _append(self, record: Record, now: float) -> None:
        time = _ms(now)
        emissions = self._bucket.apply(stamped(record, time), self._offset, time)
        self._offset += 1
        if any(isinstance(emission, Tombstone) for emission in emissions):
            self._said = None

    # ---- looks ----

    def _look(self, now: float) -> None:
        self._others(now)
        said, asset = self._said, self._asset()
        if said is None or asset is None or asset.shown is None or _ms(now) >= said.until:
            return
        seen = [_rank(asset.shown)]
        if asset.disputed is not None:
            seen.append(self.rule.severity(asset.disputed))
        if _rank(said.word) < min(seen) and not _is_in_doubt(asset):
            self.faults.append(f"{said.word} of {said.at - START} not seen at {now}")

    def _asset(self) -> Asset | None:
        return self._bucket.assets.get(SITE)


def _life(act: Act) -> int:
    """Return for how long a word must be seen, ms.

    That is a lifetime; and longer if it came at once, by a clock that was not behind.
    """
    return LIFETIME if act.clock < 0 or act.held else LIFETIME + FORGET - 8 * MINUTE


def _rank(word: str) -> int:
    """Return how bad a word is, whatever a change of rule calls it."""
    known = [name for name in (BAD, MEH, GOOD) if word.endswith(name)]
    return (BAD, MEH, GOOD).index(known[0]) if known else -1


def _is_calm(asset: Asset) -> bool:
    return not (asset.unconfirmed or asset.disputed or asset.is_in_doubt())


def _is_in_doubt(asset: Asset) -> bool:
    vote = asset.votes.get(AGENT)
    return AGENT in asset.doubts or (vote is not None and vote.doubt is not None)


def _ms(minutes: float) -> int:
    return START + round(minutes * MINUTE)


def faulty(histories: Iterator[History], fold: int = FOLD) -> Iterator[tuple[History, list[str]]]:
    """Yield the histories that are wrong, and what is."""
    for history in histories:
        if faults := Run(history, fold).run():
            yield history, faults
