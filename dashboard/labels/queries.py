"""Labels as pages and sockets read them. Of a name's labels those that are shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from dashboard.labels.models import Label, LabelChange
from dashboard.states.queries import listed

# Most keys of one scenario that are known.
MOST_KEYS = 200
# Most keys whose labels a row of the board shows.
MOST_CHIPS = 3


class State(NamedTuple):
    """The number of changes of a scenario's labels, and the keys that its board shows."""

    n: int = 0
    chips: tuple[str, ...] = ()


def states() -> dict[str, State]:
    """Return the state of each scenario that has had labels."""
    return {
        row.scenario: State(row.n, tuple(filter(None, row.chips.split(","))))
        for row in LabelChange.objects.all()
    }


def state(scenario: str) -> State:
    """Return the state of one scenario."""
    return states().get(scenario, State())


def labels_of(scenario: str, assets: Collection[str]) -> dict[str, dict[str, str]]:
    """Return key and value of the labels of those of `assets` that have any."""
    labels: dict[str, dict[str, str]] = {}
    if assets:
        rows = Label.objects.filter(scenario=scenario, asset__in=listed(assets), shown=True)
        for asset, key, value in rows.values_list("asset", "key", "value"):
            labels.setdefault(asset, {})[key] = value
    return labels


def chips_of(labels: Mapping[str, str], keys: Collection[str]) -> list[list[str]]:
    """Return key and value of what a row shows, in the order of the keys."""
    return [[key, labels[key]] for key in keys if key in labels]


def keys(scenario: str) -> tuple[str, ...]:
    """Return the keys that the scenario's labels have, sorted."""
    return tuple(islice(_steps(scenario), MOST_KEYS))


def _steps(scenario: str) -> Iterator[str]:
    """Yield key after key: each is a look at an index, where all labels would be a walk."""
    rows = Label.objects.filter(scenario=scenario, shown=True).order_by("key")
    key: str | None = ""
    while key := rows.filter(key__gt=key).values_list("key", flat=True).first():
        yield key


def values(scenario: str, key: str, begins: str, most: int) -> list[str]:
    """Return the first values of a key that begin so, sorted as the database does."""
    rows = Label.objects.filter(scenario=scenario, key=key, shown=True).order_by("value")
    first_values: list[str] = []
    next_one = rows.filter(value__gte=begins).values_list("value", flat=True).first()
    while next_one is not None and len(first_values) < most and next_one.startswith(begins):
        first_values.append(next_one)
        next_one = rows.filter(value__gt=next_one).values_list("value", flat=True).first()
    return first_values
