"""Changes of states from before the product, brought in from a file.

The file is read asset by asset, so that memory holds the history of one alone. A file that comes
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec
from django.db import transaction

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import iso_second
from dashboard.core.states.ingestion import StateChange
from dashboard.core.states.models import CHANGE, IMPORT, Transition
from dashboard.core.states.rows import IMPORTED_PLACES, Shown, imported_place, kind_of
from dashboard.notify.summaries.ingestion import KINDS, Condition, Move, follow
from dashboard.notify.summaries.models import (
    ImpairedSpan,
    ImportedHistory,
    Presence,
    Progress,
    raw_edge,
)
from dashboard.watch.incidents.ingestion import follow as follow_incidents
from dashboard.watch.incidents.models import Incident
from domain.names import name_ok
from domain.scenario import Scenario

KEYS = ("scenario", "asset", "at", "state", "unconfirmed")
MOST_OF_ASSET = 100_000
"""Most changes of one asset."""
PRESENCE, IMPAIRED, _ = KINDS


class ImportProblem(ValueError):
    """A line that cannot be brought in. key: of the line; expected: in its place."""

    def __init__(self, line: int, key: str, expected: str, got: Any) -> None:
        super().__init__(f"{line}: {key}: expected {expected}, got {got!r}")


class PastChange(NamedTuple):
    """A line of the file. at: Unix ms; state: "" once the asset is off the board."""

    line: int
    scenario: str
    asset: str
    at: int
    state: str
    unconfirmed: bool


@dataclass
class ImportTally:
    """What a file comes to, of one scenario. known: changes that had been brought in before."""

    assets: int = 0
    changes: int = 0
    known: int = 0
    begin: int | None = None

    def add(self, own: list[PastChange], *, known: bool) -> None:
        """Count the changes of an asset."""
        self.assets += 1
        self.changes += len(own)
        self.known += len(own) if known else 0
        self.begin = own[0].at if self.begin is None else min(self.begin, own[0].at)


@dataclass
class HistoryImport:
    """The import of a file. now: Unix ms; apply: whether to write.

    firsts: when the product itself saw each scenario first, up to which a history may reach.
    """

    now: int
    apply: bool = False
    tallies: dict[str, ImportTally] = field(default_factory=dict)
    _firsts: dict[str, int | None] = field(default_factory=dict)

    def read(self, lines: Iterable[bytes], progress: Callable[[int], None]) -> None:
        """Check the lines of a file, and write their history if that is requested.

        progress: is called with the bytes read so far. Raises ImportProblem at the first line that
        is wrong; with `apply`, the assets before it are written then.
        """
        changes = self._checked(self._counted(lines, progress))
        for (scenario, _), own in groupby(changes, key=lambda each: each[1:3]):
            self._take(scenarios()[scenario], list(islice(own, MOST_OF_ASSET + 1)))

    def finish(self, name: str) -> None:
        """Record what was written from the file of this name."""
        for scenario, tally in self.tallies.items():
            first = self._firsts[scenario]
            if tally.begin is None or first is None or tally.changes == tally.known:
                continue
            ImportedHistory.objects.create(
                scenario=scenario, begin=tally.begin, end=first, assets=tally.assets,
                changes=tally.changes - tally.known, file=name[-200:], at=self.now,
            )  # fmt: skip

    # ---- lines --------------------------------------------------------------------------------

    @staticmethod
    def _counted(
        lines: Iterable[bytes], progress: Callable[[int], None]
    ) -> Iterator[tuple[int, bytes]]:
        done = 0
        for number, line in enumerate(lines, 1):
            done += len(line)
            progress(done)
            if line.strip():
                yield number, line

    def _checked(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[PastChange]:
        """Yield the changes of lines, which must be in the order of scenario, asset and time."""
        last: tuple[str, str, int] = ("", "", 0)
        for number, line in lines:
            change = self._change(number, line)
            place = (change.scenario, change.asset, change.at)
            if place <= last:
                expected = "lines in the order of scenario, asset and time, each once"
                raise ImportProblem(number, "at", expected, iso_second(change.at))
            last = place
            yield change

    def _change(self, number: int, line: bytes) -> PastChange:
        """Return a line's change. Raises ImportProblem."""
        try:
            given = msgspec.json.decode(line)
        except (ValueError, RecursionError) as error:  # no UTF-8, or too deep
            raise ImportProblem(number, "line", "a JSON object", str(error)) from None
        if not isinstance(given, dict):
            raise ImportProblem(number, "line", "a JSON object", given)
        if unknown := [key for key in given if key not in KEYS]:
            raise ImportProblem(number, unknown[0], f"one of {', '.join(KEYS)}", given[unknown[0]])
        scenario, asset, state = (given.get(key) for key in ("scenario", "asset", "state"))
        known = scenarios().get(scenario) if isinstance(scenario, str) else None
        if known is None:
            raise ImportProblem(number, "scenario", f"one of {', '.join(scenarios())}", scenario)
        if not isinstance(asset, str) or not name_ok(asset):
            raise ImportProblem(number, "asset", "the name of an asset", asset)
        states = [spec.name for spec in known.states]
        if state is not None and state not in states:
            raise ImportProblem(number, "state", f"null or one of {', '.join(states)}", state)
        unconfirmed = given.get("unconfirmed", False)
        if not isinstance(unconfirmed, bool):
            raise ImportProblem(number, "unconfirmed", "true or false", unconfirmed)
        at = self._time(number, known.name, given.get("at"))
        return PastChange(number, known.name, asset, at, state or "", unconfirmed)

    def _time(self, number: int, scenario: str, at: Any) -> int:
        """Return a line's time, if it lies in what is kept and before the product's own history."""
        if isinstance(at, bool) or not isinstance(at, int):
            raise ImportProblem(number, "at", "a time in Unix ms", at)
        edge, first = raw_edge(self.now), self._first(scenario)
        if at < edge:
            kept = f"a time since {iso_second(edge)}, as changes are kept for 90 days"
            raise ImportProblem(number, "at", kept, at)
        if first is None:
            seen = f"a scenario that the product has seen already, as {scenario} has to go on"
            raise ImportProblem(number, "scenario", seen, scenario)
        if at >= first:
            before = f"a time before {iso_second(first)}, as the product saw the rest itself"
            raise ImportProblem(number, "at", before, at)
        return at

    def _first(self, scenario: str) -> int | None:
        """Return when the product itself first saw an asset of a scenario."""
        if scenario not in self._firsts:
            imported = {"place__range": IMPORTED_PLACES}
            own = Presence.objects.filter(scenario=scenario).exclude(**imported)
            changes = Transition.objects.filter(scenario=scenario).exclude(cause_type=IMPORT)
            firsts = (
                own.order_by("begin").values_list("begin", flat=True).first(),
                changes.order_by("at").values_list("at", flat=True).first(),
            )
            self._firsts[scenario] = min((at for at in firsts if at is not None), default=None)
        return self._firsts[scenario]

    # ---- one asset ----------------------------------------------------------------------------

    def _take(self, scenario: Scenario, own: list[PastChange]) -> None:
        """Count the changes of an asset, and write them if that is requested."""
        first, asset = own[0], own[0].asset
        if len(own) > MOST_OF_ASSET:
            expected = f"at most {MOST_OF_ASSET:,} changes of one asset"
            raise ImportProblem(own[MOST_OF_ASSET].line, "asset", expected, asset)
        if not first.state:
            raise ImportProblem(first.line, "state", "a state, as nothing was before", None)
        rows = self._transitions(scenario.name, own)
        before = {"scenario": scenario.name, "asset": asset}
        stored = Transition.objects.filter(**before, place__lte=IMPORTED_PLACES[1]).order_by(
            "place"
        )
        known = list(stored.values_list("place", "kind", "state", "unconfirmed", "cause_type"))
        same = [(row.place, row.kind, row.state, row.unconfirmed, IMPORT) for row in rows]
        if known and known != same:
            expected = "the history that was imported before, or an asset without any"
            raise ImportProblem(first.line, "asset", expected, asset)
        self.tallies.setdefault(scenario.name, ImportTally()).add(own, known=bool(known))
        if self.apply and not known:
            self._write(scenario, rows)

    def _transitions(self, scenario: str, own: list[PastChange]) -> list[Transition]:
        """Return the changes as rows. What goes on ends where the product's own history begins."""
        end = self._firsts[scenario] or 0
        last = PastChange(own[-1].line, scenario, own[-1].asset, end, "", unconfirmed=False)
        shown, rows = Shown(), []
        for each in (*own, last):
            after = Shown(each.state, each.unconfirmed)
            kind = kind_of(shown, after, IMPORT)
            if kind is not None:
                cause = {"type": IMPORT, "partition": 0, "offset": 0, "time": each.at}
                place = imported_place(each.at)
                rows.append(
                    Transition(
                        scenario=scenario, asset=each.asset, kind=kind, at=each.at, place=place,
                        version=f"000000.{place}", previous=shown.state, state=each.state,
                        unconfirmed=each.unconfirmed, cause_type=IMPORT,
                        cause=msgspec.json.encode(cause).decode(),
                    )
                )  # fmt: skip
            shown = after
        return rows

    def _write(self, scenario: Scenario, rows: list[Transition]) -> None:
        """Write the changes of an asset, and the spans and incidents that they make."""
        begin = rows[0].at
        with transaction.atomic():
            Transition.objects.bulk_create(rows)
            Presence.objects.bulk_create(_spans(Presence, scenario, rows))
            ImpairedSpan.objects.bulk_create(_spans(ImpairedSpan, scenario, rows))
            Incident.objects.bulk_create(_incidents(scenario, rows))
            Progress.objects.mark({scenario.name: begin})


def _spans(model: Any, scenario: Scenario, rows: list[Transition]) -> list[Any]:
    """Return the spans of a kind that an asset's changes make."""
    kind = PRESENCE if model is Presence else IMPAIRED
    moves = [
        Move(row.place, row.at, Condition(row.state, bool(row.unconfirmed)), anew=False)
        for row in rows
    ]
    place = {"scenario": scenario.name, "asset": rows[0].asset}
    runs = follow(kind, scenario, (), moves).runs.values()
    return [
        model(
            **place, place=run.place, begin=run.begin, end=run.end, end_place=run.end_place,
            **dict(zip(kind.columns, kind.values(scenario, run, {}), strict=True)),
        )
        for run in runs
    ]  # fmt: skip


def _incidents(scenario: Scenario, rows: list[Transition]) -> list[Incident]:
    """Return the incidents that an asset's changes make; they are nobody's work any more."""
    moves = [
        StateChange(scenario.name, row.asset, row.place, row.at, row.state, row.previous)
        for row in rows
        if row.kind == CHANGE
    ]
    return [
        Incident(
            scenario=each.scenario, asset=each.asset, place=each.place, began_at=each.began_at,
            ended_at=each.ended_at, state=each.state, worst=each.worst, changes=each.changes,
        )
        for each in follow_incidents(scenario, [], moves)[0]
        if each.began_at != each.ended_at
    ]  # fmt: skip
