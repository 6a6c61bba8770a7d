"""What of a time was observed: what came after a scenario's first record, but where the database
heard nothing of the job for longer than a restart takes.

Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from django.db.models import Max, Q

from dashboard.core.times import MINUTE_MS, now_ms
from dashboard.job.models import BucketStatus
from dashboard.summaries.models import Gap, HourRow, Presence, Progress
from domain.history.periods import Hour, Span
from domain.history.runs import merged, without
from wire.job import Heartbeat

GAP_MS = 5 * MINUTE_MS
"""Heartbeats come each second. A shorter silence is a restart of the job, or of a broker."""

Gaps = Sequence[tuple[int, int]]


def take_in(beats: Iterable[Heartbeat], now: int) -> dict[str, int]:
    """Note where these heartbeats end a time without any; before they are stored themselves.

    Returns since when history is to be summed up again, by scenario.
    """
    newest: dict[str, int] = {}
    for beat in beats:
        newest[beat.scenario] = max(min(beat.at, now), newest.get(beat.scenario, 0))
    silent = {name: at for name, at in _heard(newest).items() if now - at > GAP_MS}
    if not silent:
        return {}
    Gap.objects.bulk_create(
        [
            Gap(scenario=name, begin=at, end=newest[name])
            for name, at in sorted(silent.items())
            if newest[name] - at > GAP_MS
        ],
        ignore_conflicts=True,
    )
    summed = Progress.objects.filter(scenario__in=silent).values_list("scenario", flat=True)
    return {name: silent[name] for name in summed}


def _heard(scenarios: Iterable[str]) -> dict[str, int]:
    """Return the newest heartbeat that the database has of scenarios, of those that it knows."""
    rows = BucketStatus.objects.filter(scenario__in=list(scenarios)).order_by()
    return dict(rows.values_list("scenario").annotate(Max("at")))


def gaps_between(scenario: str, begin: int, end: int) -> Gaps:
    """Return the times between two in which the database heard nothing of the job, in order; the
    one that goes on too."""
    rows = Gap.objects.filter(scenario=scenario, begin__lt=end, end__gt=begin)
    gaps = list(rows.values_list("begin", "end"))
    heard = _heard([scenario]).get(scenario)
    if heard is not None and now_ms() - heard > GAP_MS:
        gaps.append((heard, end))
    return merged([(max(low, begin), min(high, end)) for low, high in gaps if low < end])


def first_record(scenario: str) -> int | None:
    """Return when the first asset of a scenario came onto the board, as far as the database still
    knows: by its sums to the hour. None where none ever did."""
    rows = Presence.objects.filter(scenario=scenario).order_by("begin")
    came = rows.values_list("begin", flat=True).first()
    anything = Q(present__gt=0) | Q(good__gt=0) | Q(bad__gt=0) | Q(unconfirmed__gt=0)
    hours = HourRow.objects.filter(anything | Q(maintenance__gt=0), scenario=scenario)
    hour = hours.order_by("begin").first()
    if hour is None or (came is not None and came < hour.end):
        return came
    return hour.begin


def unobserved(firsts: Mapping[str, int | None], span: Span) -> Gaps:
    """Return what was not observed of a time, in order: what came before the first record of
    scenarios, and every gap of one that had begun. firsts: their first records."""
    begun = {name: at for name, at in firsts.items() if at is not None}
    first = min(begun.values(), default=span.end)
    parts = [(span.begin, min(first, span.end))]
    for name, at in begun.items():
        parts += gaps_between(name, max(at, span.begin), span.end)
    return merged([(low, high) for low, high in parts if low < high])


def ms_within(spans: Gaps, begin: int, end: int) -> int:
    """Return how much of the time between two is in these spans, ms."""
    return sum(max(0, min(high, end) - max(low, begin)) for low, high in spans)


def rest(spans: Gaps, span: Span) -> Gaps:
    """Return what of a time is not in these spans."""
    edges = [span.begin, *(at for each in spans for at in each), span.end]
    return [(low, high) for low, high in list(pairwise(edges))[::2] if low < high]


# ---- hours ------------------------------------------------------------------------------------


def pieces(hours: Iterable[Hour], gaps: Gaps) -> Iterator[tuple[Hour, bool]]:
    """Yield hours, divided where a gap begins or ends, and whether each piece was observed."""
    for hour in hours:
        kept, gone = without((hour.begin, hour.end), gaps)
        for (low, high), is_kept in sorted(
            [*((part, True) for part in kept), *((part, False) for part in gone)]
        ):
            yield hour._replace(begin=low, end=high), is_kept


def observed_runs(hours: Iterable[Hour], gaps: Gaps) -> list[list[Hour]]:
    """Return the observed pieces of hours, those together that follow each other."""
    runs: list[list[Hour]] = []
    for piece, is_kept in pieces(hours, gaps):
        if not is_kept:
            continue
        if runs and runs[-1][-1].end == piece.begin:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs
