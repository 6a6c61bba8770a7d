"""A page of the board by a filter, in bounded time, however many assets there are.

A term that only few assets can match (part of a name, a label, an override, a doubt) leads to
those, which are examined one by one. Without such a term the board is walked from its top. What the
index of the board's order contains (state, since, name) is looked up there, to its end; for
anything else rows are examined, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from dashboard.core.common.sql import chunks
from dashboard.core.states.filter_terms import VOTE_KEYS as VOTES
from dashboard.core.states.filter_terms import WORD, Filter, Flag, Term, Text, voting
from dashboard.core.states.models import AssetState
from dashboard.core.states.name_search import candidates
from dashboard.core.states.queries import (
    COUNTED,
    BoardPosition,
    BoardResult,
    Order,
    Ranking,
    Search,
    by_detail,
    listed,
    records,
)
from dashboard.watch.filters.query import acknowledged, condition, in_work, labelled, rows
from domain.scenario import Scenario

# Most rows that are examined for one page.
LOOKED = 30_000
# Once the page is full, counting goes on until this many rows have been examined.
LEAST_COUNTED = 5_000
# Rows examined per query.
PORTION = 2_000
# Keys that the index of the board's order can answer.
INDEXED = frozenset((WORD, "name", "state", "since"))


def find(
    scenario: Scenario,
    states: Collection[str],
    criteria: Filter,
    now: int,
    *,
    after: Order | None,
    limit: int,
    skip: Collection[str],
    handled: Collection[int] = (),
    ranking: Ranking | None = None,
) -> BoardResult:
    """Find the first `limit` visible assets past `after` that match the filter at `now` (Unix ms).

    skip: assets to leave out; handled: ids of the alarming rows that are handled; ranking: which of
    them are the first, unless too many match.
    """
    where = {
        term: condition(term, scenario, now) for term in criteria.terms if term.key not in VOTES
    }
    by_vote = [term for term in criteria.terms if term.key in VOTES]
    every = Search(scenario.name, states, where=tuple(where.values()), handled=handled)
    ids = few(criteria, scenario, now)
    if ids is not None:
        near = sorted(place for place in every.among(ids) if place.asset not in skip)
        voted = voting([place.pk for place in near], by_vote)
        near = [place for place in near if place.pk in voted]
        if ranking:
            return _best(near, ranking, limit)
        later = (place for place in near if after is None or place.order > after)
        return BoardResult(records(later, limit, ()), len(near), apart=True)
    cheap = tuple(where[term] for term in where if term.key in INDEXED)
    walk = Search(scenario.name, states, where=cheap, handled=handled)
    if len(cheap) == len(criteria.terms):
        if ranking and (whole := walk.whole()) is not None:
            return _best([each for each in whole if each.asset not in skip], ranking, limit)
        return _walked(walk, after, limit, skip)
    dear = Search(scenario.name, (), where=tuple(w for w in where.values() if w not in cheap))
    return _Look(walk, dear, by_vote, skip).page(after, limit, ranking)


def _best(places: Collection[BoardPosition], ranking: Ranking, limit: int) -> BoardResult:
    """Return the first of all that match, by a detail."""
    best = records(by_detail(places, ranking), limit, ())
    return BoardResult(best, len(places), apart=True, ranked=True)


def _walked(search: Search, after: Order | None, limit: int, skip: Collection[str]) -> BoardResult:
    """Find assets by the index alone, to the board's end if necessary."""
    places = (place for place in search.walk(after, limit) if place.asset not in skip)
    page = list(islice(places, limit))
    matches = records(page, limit, ())
    if after is None and len(page) < limit:
        return BoardResult(matches, len(page), apart=True)
    known = search.counted(COUNTED + 1)
    if known > COUNTED:
        return BoardResult(matches, COUNTED, least=True, apart=True)
    return BoardResult(matches, known - search.counted_of(skip), apart=True)


class _Look:
    """A walk over the index that also examines the rows, and counts the matches."""

    def __init__(
        self, walk: Search, dear: Search, by_vote: list[Term], skip: Collection[str]
    ) -> None:
        self.walk, self.dear, self.by_vote, self.skip = walk, dear, by_vote, skip
        self.matched: list[BoardPosition] = []
        self.looked = 0
        self.last: Order | None = None
        self.ended = False

    def page(self, after: Order | None, limit: int, ranking: Ranking | None) -> BoardResult:
        """Return the page past `after`, and how many rows match, as far as it has looked."""
        for portion in chunks(self.walk.walk(after, PORTION), PORTION):
            self._take(portion)
            is_full = len(self.matched) >= limit and not ranking
            if self.looked >= (LEAST_COUNTED if is_full else LOOKED):
                break
        else:
            self.ended = True
        if ranking and self.ended and len(self.matched) <= COUNTED:
            return _best(self.matched, ranking, limit)
        stopped = None if self.ended or len(self.matched) >= limit else self.last
        page = records(self.matched, limit, ())
        exact = self.ended and after is None
        return BoardResult(page, len(self.matched), not exact, stopped, apart=True)

    def _take(self, portion: list[BoardPosition]) -> None:
        ids: Collection[int] = [place.pk for place in portion]
        if self.dear.where:
            ids = self.dear.ids_among(ids)
        matching = voting(ids, self.by_vote)
        self.matched += (
            place for place in portion if place.pk in matching and place.asset not in self.skip
        )
        self.looked += len(portion)
        self.last = portion[-1].order


# ---- by name ------------------------------------------------------------------------------------


def by_name(
    scenario: Scenario, criteria: Filter, now: int, *, after: str, limit: int
) -> tuple[list[tuple[str, str]], str | None]:
    """Return the names and records of the first visible assets that the filter finds.

    They are at most `limit`, past the name `after`; they come with the name to continue after, or
    None at the end. There may be fewer than `limit` although more follow: at most LOOKED rows are
    examined.
    """
    by_vote = [term for term in criteria.terms if term.key in VOTES]
    others = Filter(tuple(term for term in criteria.terms if term.key not in VOTES))
    assets = rows(others, scenario, now).order_by("asset")
    columns = assets.values_list("asset", "record")
    ids = few(criteria, scenario, now)
    if ids is not None or all(term.key in INDEXED for term in criteria.terms):
        if ids is not None:
            columns = columns.filter(pk__in=listed(voting(ids, by_vote)))
        page = list(columns.filter(asset__gt=after)[: limit + 1])
        return page[:limit], page[limit - 1][0] if len(page) > limit else None
    walk = AssetState.objects.filter(scenario=scenario.name, purged=False).order_by("asset")
    page, looked = [], 0
    while looked < LOOKED and len(page) <= limit:
        portion = list(walk.filter(asset__gt=after).values_list("pk", "asset")[:PORTION])
        if not portion:
            break
        matching = voting([pk for pk, _ in portion], by_vote)
        page += columns.filter(pk__in=listed(matching))
        looked, after = looked + len(portion), portion[-1][1]
    else:
        return page[:limit], page[limit - 1][0] if len(page) > limit else after
    return page[:limit], page[limit - 1][0] if len(page) > limit else None


# ---- those that a term can be --------------------------------------------------------------------


def few(criteria: Filter, scenario: Scenario, now: int) -> list[int] | None:
    """Return the row ids of all that the filter can find, if some term limits them to a few.

    Otherwise returns None.
    """
    for term in criteria.terms:
        look = _NARROW.get(term.key) or (_by_detail if term.detail else None)
        look = look or (None if term.own else _by_label)
        if look is None or term.negated:
            continue
        ids = look(term, scenario, now)
        if ids is not None and len(ids) <= COUNTED:
            return ids
    return None


def _by_word(term: Term, _scenario: Scenario, _now: int) -> list[int] | None:
    return _union(candidates(value.text, COUNTED + 1) for value in _texts(term))


def _by_name(term: Term, scenario: Scenario, _now: int) -> list[int] | None:
    exact = [value.text for value in _texts(term) if not value.prefix]
    named = AssetState.objects.filter(scenario=scenario.name, asset__in=exact)
    begun = (candidates(v.text, COUNTED + 1) for v in _texts(term) if v.prefix)
    return _union([list(named.values_list("pk", flat=True)), *begun])


def _by_label(term: Term, scenario: Scenario, _now: int) -> list[int] | None:
    label_sets = (labelled(term.key, value, scenario) for value in _texts(term))
    return _union(_rows(scenario, each.values_list("asset", flat=True)) for each in label_sets)


def _by_ack(term: Term, scenario: Scenario, now: int) -> list[int] | None:
    if Flag(on=False) in term.values:
        return None
    mark_sets = (acknowledged(value, scenario, now) for value in term.values)  # type: ignore[arg-type]
    return _union(_rows(scenario, each.values_list("asset", flat=True)) for each in mark_sets)


def _by_work(_term: Term, scenario: Scenario, now: int) -> list[int] | None:
    return _rows(scenario, in_work(scenario, now).values_list("asset", flat=True))


def _by_override(term: Term, scenario: Scenario, now: int) -> list[int] | None:
    if Flag(on=False) in term.values:
        return None
    rows = AssetState.objects.filter(overridden=True, scenario=scenario.name)
    ids = rows.filter(condition(term, scenario, now)).order_by().values_list("pk", flat=True)
    return list(ids[: COUNTED + 1])


def _by_doubt(term: Term, scenario: Scenario, now: int) -> list[int] | None:
    if Flag(on=False) in term.values:
        return None
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
    each = (condition(Term(term.key, (value,)), scenario, now) for value in term.values)
    return _union(
        list(rows.filter(so).order_by().values_list("pk", flat=True)[: COUNTED + 1]) for so in each
    )


def _by_detail(term: Term, scenario: Scenario, now: int) -> list[int] | None:
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
    ids = rows.filter(condition(term, scenario, now)).order_by().values_list("pk", flat=True)
    return list(ids[: COUNTED + 1])


_NARROW: dict[str, Callable[[Term, Scenario, int], list[int] | None]] = {
    WORD: _by_word,
    "name": _by_name,
    "ack": _by_ack,
    "in": _by_work,
    "override": _by_override,
    "until": _by_override,
    "is": _by_doubt,
    "has": _by_doubt,
    "unconfirmed": _by_doubt,
}


def _texts(term: Term) -> list[Text]:
    return [value for value in term.values if isinstance(value, Text)]


def _rows(scenario: Scenario, assets: QuerySet[Any, str]) -> list[int] | None:
    """Return the row ids of these assets, or None if there are too many."""
    names = list(assets[: COUNTED + 1])
    if len(names) > COUNTED:
        return None
    rows = AssetState.objects.filter(scenario=scenario.name, asset__in=listed(names))
    return list(rows.values_list("pk", flat=True))


def _union(parts: Iterable[list[int] | None]) -> list[int] | None:
    """Return all of the row ids, or None if a part is unknown or too large."""
    ids: set[int] = set()
    for part in parts:
        if part is None or len(part) > COUNTED:
            return None
        ids.update(part)
    return sorted(ids)
