"""Where an order is: each way is asked, and their answers stand side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from django import forms
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import role_required
from dashboard.core.common.forms import FilterForm
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenario_or_404
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.states.stores import VIAS, Via, owner_store, store
from domain.names import MAX_NAME, name_ok
from stores.base import SCENARIO, KeptAsset, Many, One, StoreProblem, Unreachable
from stores.envelopes import AssetAnswer, AssetsAnswer, answer_many, answer_one
from stores.owner_store import ServerHealth
from stores.transformation import ORDERS

# ---- orders --------------------------------------------------------------------------------------
# The form that asks where an order is.


class WhereForm(FilterForm):
    """The order that is asked for; empty for none."""

    order = forms.CharField(required=False, max_length=MAX_NAME, label="Order")

    def clean_order(self) -> str:
        """Return the name. Raises ValidationError for one that no order can have."""
        order: str = self.cleaned_data["order"]
        if order and not name_ok(order):
            raise forms.ValidationError("Expected a name without control characters.")
        return order


# ---- comparison ----------------------------------------------------------------------------------
# The ways side by side: what each answers, and what each server alone would have left out.

LOOKED_AT = 1000
"""So many of the first active orders are compared, by name."""
NAMED = 5
"""So many of those that a server alone misses are named."""

TITLES: dict[Via, str] = {
    "global": "Global copy",
    "owner": "Owner",
    "cache": "Cache",
    "database": "Database",
}
ALONE = "One server alone"

ONE = Table(
    "orders-one",
    "Way",
    "State",
    "Station",
    "Location",
    "Version",
    Column.number("Age, s", "since the cause of its record"),
    Column.number("Took, ms", "until the store had answered"),
    "Answered by",
)
ALL = Table(
    "orders-all",
    "Way",
    Column.number("Active orders"),
    Column.number("Took, ms", "until the store had answered"),
    Column("Version", "by partition, the next offset that is not in the answer"),
    "Complete",
    "Answered by",
)
SERVERS = Table(
    "orders-servers",
    "Server",
    "Partitions",
    "Keeps warm",
    Column.number("Active orders"),
    Column.number("Lag", "records that it has not read"),
    "Table",
    Column.number("Misses", f"of the first {LOOKED_AT:,} active orders, where it is asked alone"),
    Column("Such as"),
)


class WayAnswer(NamedTuple):
    """What a way answers; problem: why it answers nothing."""

    title: str
    answer: AssetAnswer | AssetsAnswer | None
    problem: str = ""


class Alone(NamedTuple):
    """A server, and what it would leave out if nobody else were asked.

    names: the first of those; problem: why it says nothing.
    """

    health: ServerHealth | None
    misses: int | None = None
    names: tuple[str, ...] = ()
    problem: str = ""


def one_by_each(order: str) -> list[WayAnswer]:
    """Return what each way answers for an order; then a single server, which may not own it."""
    ways = [_one(TITLES[via], via, partial(store(via, SCENARIO).get, order)) for via in VIAS]
    return [*ways, _one(ALONE, "owner", lambda: owner_store(SCENARIO).alone().get(order))]


def all_by_each() -> list[WayAnswer]:
    """Return what each way answers for all active orders; then a single server."""
    ways = [
        _all(TITLES[via], via, partial(store(via, SCENARIO).all, limit=LOOKED_AT)) for via in VIAS
    ]
    return [*ways, _all(ALONE, "owner", lambda: owner_store(SCENARIO).alone().all(limit=LOOKED_AT))]


def servers_alone() -> list[Alone]:
    """Return the store servers, each with what it alone would leave out; none where none runs."""
    try:
        known = owner_store(SCENARIO).servers()
        everything = _names(owner_store(SCENARIO).all(limit=LOOKED_AT).assets)
    except StoreProblem:
        return []
    return [_alone(each, everything) for each in known]


def unproved() -> tuple[str, ...]:
    """Return the members of the servers' group that prove no server, as last read."""
    try:
        return owner_store(SCENARIO).directory.unproved()
    except StoreProblem:
        return ()


def _alone(server: ServerHealth | Unreachable, everything: list[str]) -> Alone:
    if isinstance(server, Unreachable):
        return Alone(None, problem=str(server))
    try:
        orders = owner_store(SCENARIO).alone(server.address).all(limit=LOOKED_AT).assets
    except StoreProblem as problem:
        return Alone(server, problem=str(problem))
    own = set(_names(orders))
    missing = [name for name in everything if name not in own]
    return Alone(server, len(missing), tuple(missing[:NAMED]))


def _names(orders: Sequence[KeptAsset]) -> list[str]:
    return [order.name for order in orders]


def _one(title: str, via: Via, ask: Callable[[], One]) -> WayAnswer:
    try:
        return WayAnswer(title, answer_one(ORDERS, via, ask))
    except StoreProblem as problem:
        return WayAnswer(title, None, str(problem))


def _all(title: str, via: Via, ask: Callable[[], Many]) -> WayAnswer:
    try:
        return WayAnswer(title, answer_many(ORDERS, via, LOOKED_AT, ask))
    except StoreProblem as problem:
        return WayAnswer(title, None, str(problem))


# ---- orders --------------------------------------------------------------------------------------
# The page that asks each way where an order is.


@require_safe
@never_cache
@role_required("read")
def where(request: HttpRequest) -> HttpResponse:
    """Return the page. Raises Http404 where no orders are watched."""
    scenario, form = scenario_or_404(SCENARIO), WhereForm(request.GET)
    valid = form.is_valid()
    order = form.cleaned_data["order"] if valid else ""
    context = {
        "now": now_ms(),
        "scenario": scenario,
        "form": form,
        "valid": valid,
        "order": order,
        "one": one_by_each(order) if order else [],
        "all": all_by_each() if valid else [],
        "servers": servers_alone() if valid else [],
        "unproved": unproved() if valid else (),
        "one_table": ONE,
        "all_table": ALL,
        "servers_table": SERVERS,
        "looked_at": LOOKED_AT,
        "address": request.get_full_path(),
    }
    return render_page(request, "orders/where", context, status=200 if valid else 422)
