"""What a board's filter finds, whole, as a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.exports import CONTENT_TYPES, attachment, unprocessable, written
from dashboard.core.scenarios import scenarios
from dashboard.core.times import iso, now_ms
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.filter_language.terms import Filter
from dashboard.filters.search import by_name
from dashboard.labels.queries import labels_of
from dashboard.live.typed_filter import with_states
from dashboard.states.board_rows import cause_of
from dashboard.states.doubt_words import in_doubt
from domain.scenario import Scenario
from wire.sink import StateValue, VoteValue, state_value

FIELDS = (
    "asset",
    "state",
    "label",
    "since",
    "disputed",
    "unconfirmed",
    "in_doubt",
    "votes",
    "pending",
    "pending_at",
    "pinned_by",
    "pinned_until",
    "underlying",
    "labels",
    "cause",
    "version",
)
PORTION = 500
"""Rows that are sent at a time."""

Plain = dict[str, Any]


@require_safe
@never_cache
@role_required("read")
def board_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return all that the board's filter finds, on every page, by name, as CSV or NDJSON."""
    name = request.GET.get("scenario", "")
    known = scenarios().get(name) if name else next(iter(scenarios().values()))
    if form not in CONTENT_TYPES or known is None:
        raise Http404
    text, states = request.GET.get("q", ""), request.GET.getlist("state")[:50]
    try:
        wanted = with_states(known, states, text[: MAX_TEXT + 1], now_ms())
    except FilterError as error:
        return unprocessable(f"q: {error}")
    note(Actor.of(request), "export.board", scenario=known.name, form=form, filter=str(wanted))
    return attachment(request, written(form, FIELDS, _portions(known, wanted)), known.name, form)


def _portions(scenario: Scenario, wanted: Filter) -> Iterator[list[Plain]]:
    now, after = now_ms(), ""
    while True:
        found, more = by_name(scenario, wanted, now, after=after, limit=PORTION)
        labels = labels_of(scenario.name, [asset for asset, _ in found])
        yield [_plain(scenario, state_value(text), labels.get(name, {})) for name, text in found]
        if more is None:
            return
        after = more


def _plain(scenario: Scenario, record: StateValue, labels: dict[str, str]) -> Plain:
    """Return a record as a row of the file, with times in ISO 8601, UTC."""
    pending, override = record.pending, record.override
    doubted = in_doubt(scenario, record.votes, record.doubts)
    agents = {one.agent for one in doubted}
    return {
        "asset": record.asset,
        "state": record.state,
        "label": scenario.spec(record.state).label,
        "since": iso(record.since),
        "disputed": record.disputed,
        "unconfirmed": _unconfirmed(record),
        "in_doubt": "; ".join(map(str, doubted)),
        "votes": " ".join(_vote(vote, vote.agent in agents) for vote in record.votes),
        "pending": pending and pending.state,
        "pending_at": pending and iso(pending.due),
        "pinned_by": override and override.user,
        "pinned_until": override and override.until and iso(override.until),
        "underlying": override and override.underlying,
        "labels": " ".join(f"{key}:{value}" for key, value in labels.items()),
        "cause": cause_of(scenario, record),
        "version": record.version,
    }


def _unconfirmed(record: StateValue) -> str:
    return (record.unconfirmed_reason or "yes") if record.unconfirmed else ""


def _vote(vote: VoteValue, doubted: bool) -> str:
    said = f"{vote.agent}={vote.state}"
    marks = [mark for mark in ("silent", "muted") if getattr(vote, mark) is not None]
    marks += ["in doubt"] if doubted else []
    return f"{said} ({', '.join(marks)})" if marks else said
