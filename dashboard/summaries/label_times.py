"""The time of a scenario's assets by the value of a label, as they have it now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from django.db import connection

from dashboard.labels import queries as labels
from dashboard.labels.models import Label
from dashboard.summaries.figures import Times
from dashboard.summaries.kept_sums import kept
from dashboard.summaries.times import Scope, asset_columns, raw_times
from domain.history.periods import Span
from domain.history.sums import BAD, MAINTENANCE, UNCONFIRMED, Classes

# "+ 0": for each asset its own rows are looked up, not all that began before, by whatever planner.
PRESENT = """\
SELECT l.value, count(*) FROM summaries_presence p
JOIN labels_label l ON l.scenario = p.scenario AND l.asset = p.asset AND l.key = %s AND l.shown
WHERE p.scenario = %s AND p.begin + 0 < %s AND (p."end" IS NULL OR p."end" + 0 >= %s)
GROUP BY l.value"""
EDGES = """\
SELECT l.value, p.begin, p."end" FROM summaries_presence p
JOIN labels_label l ON l.scenario = p.scenario AND l.asset = p.asset AND l.key = %s AND l.shown
WHERE p.scenario = %s
AND ((p.begin >= %s AND p.begin < %s) OR (p."end" >= %s AND p."end" < %s))"""
DAYS = """\
SELECT l.value, sum({}), sum({}), sum({}) FROM summaries_assetday p
JOIN labels_label l ON l.scenario = p.scenario AND l.asset = p.asset AND l.key = %s AND l.shown
WHERE p.scenario = %s AND p.day >= %s AND p.day < %s GROUP BY l.value"""


class Sum(NamedTuple):
    """Sums up to the cut of a scope. present: time on the board by value, ms; there: assets on the
    board at its end; classes: time but good by value, ms."""

    present: dict[str, int]
    there: dict[str, int]
    classes: dict[str, list[int]]


class Labels(NamedTuple):
    """The values of a label by asset, of one scenario."""

    key: str
    values: dict[str, str]

    def value(self, asset: str) -> str:
        """Return an asset's value, "" for none."""
        return self.values.get(asset, "")


def labels_of(scenario: str, key: str) -> Labels:
    """Return the values of a label."""
    rows = Label.objects.filter(scenario=scenario, key=key, shown=True)
    return Labels(key, dict(rows.values_list("asset", "value")))


def times_by_value(scope: Scope, own: Labels, tail: dict[str, Classes]) -> dict[str, Times]:
    """Return the times of a scope by value; assets without the label are left out. tail: what was
    counted of assets in the rest."""
    sums = _closed(scope, own)
    present = Counter(sums.present)
    if scope.rest.ms:
        measure = scope.measure(scope.rest)
        present.update(_present(scope, own.key, scope.rest, measure, Counter(sums.there))[0])
    classes = {value: Classes(*row) for value, row in sums.classes.items()}
    _add(classes, own, tail)
    return {value: _times(ms, classes.get(value, Classes())) for value, ms in present.items()}


def _times(present: int, own: Classes) -> Times:
    # Assets whose time on the board is no longer known may still have sums.
    return Times(max(0, present - sum(own)), own[BAD], own[UNCONFIRMED], own[MAINTENANCE])


def _closed(scope: Scope, own: Labels) -> Sum:
    """Return the sums up to the cut."""
    span = Span(scope.span.begin, scope.cut)
    what = f"label:{own.key}:{'all' if scope.all_hours else 'service'}"
    stamp = str(labels.state(scope.scenario).n)
    data = kept(what, [scope.scenario], span, stamp, lambda: _sum(scope, own, span))
    return Sum(*data)


def _sum(scope: Scope, own: Labels, span: Span) -> list[Any]:
    there = Counter(dict(_rows(PRESENT, own.key, scope.scenario, span.begin, span.begin)))
    present, there = _present(scope, own.key, span, scope.measure(span), there)
    sql = DAYS.format(*asset_columns(scope))
    days = _rows(sql, own.key, scope.scenario, scope.first_day, scope.after_days)
    classes = {value: Classes(*(int(each) for each in values)) for value, *values in days}
    if scope.part_of_day.ms:
        _add(classes, own, raw_times(scope, scope.part_of_day))
    return [present, there, {value: list(row) for value, row in classes.items()}]


def _present(
    scope: Scope, key: str, span: Span, measure: Callable[[int, int], int], there: Counter[str]
) -> tuple[Counter[str], Counter[str]]:
    """Return the time on the board by value, and how many are there when the span ends, of so many
    that are there when it begins."""
    whole = measure(*span)
    present = Counter({value: n * whole for value, n in there.items()})
    there = Counter(there)
    for value, begin, end in _rows(EDGES, key, scope.scenario, *span, *span):
        if begin >= span.begin:
            present[value] += measure(begin, span.end)
            there[value] += 1
        if end is not None and end < span.end:
            present[value] -= measure(end, span.end)
            there[value] -= 1
    return present, there


def _add(classes: dict[str, Classes], own: Labels, by_asset: dict[str, Classes]) -> None:
    """Add the times of assets to those of their values."""
    for asset, times in by_asset.items():
        value = own.value(asset)
        if value:
            before = classes.get(value, Classes())
            classes[value] = Classes(*(a + b for a, b in zip(before, times, strict=True)))


def _rows(sql: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
