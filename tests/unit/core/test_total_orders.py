"""Orders of rows are total: of two rows with the same time it is known which comes first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.db.models import UniqueConstraint

from dashboard.core.common.lists import ListPage

ROOT = Path(__file__).resolve().parents[3]

Names = frozenset[str]

COMPUTED = {
    "dashboard/core/common/tables.py: of": "ListOrder.columns ends in pk",
    "dashboard/core/rules/log_replay.py: _first": "a snapshot of a partition at each offset",
    "dashboard/notify/summaries/times.py: _sorted_sums": "sums by asset, ending in the asset",
    "dashboard/core/job/status.py: stopped": "the last report of each query",
    "dashboard/operate/console/job.py: queries": "the last report of each query",
    "dashboard/operate/requests/state_store.py: rows_of": "a reading has one row of each asset",
}
"""Orders that are total for a reason which their calls do not show."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "dashboard").rglob("*.py")):
        if "migrations" not in path.parts:
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


@cache
def keys() -> frozenset[Names]:
    """The sets of fields in which no two rows of a model are equal."""
    found = {frozenset({"pk"})}
    for model in apps.get_models():
        options = model._meta
        found |= {frozenset({f.name}) for f in options.concrete_fields if f.unique}
        found |= {frozenset(each) for each in options.unique_together}
        constraints = (c for c in options.constraints if isinstance(c, UniqueConstraint))
        found |= {frozenset(each.fields) for each in constraints if each.fields}
    return frozenset(found)


def is_total(order: Names, selected: Names, filtered: Names) -> bool:
    """Whether rows that are equal in the order are the same.

    They are if nothing else is selected, or if the order completes a key whose other fields are
    filtered.
    """
    if selected and selected <= order:
        return True
    return any(key & order and key <= order | (filtered - {"pk", "id"}) for key in keys())


def named(call: ast.Call) -> Names:
    """The fields that a call's arguments name; what names none stands for itself."""
    names = set[str]()
    for argument in call.args:
        texts = [str(n.value) for n in ast.walk(argument) if isinstance(n, ast.Constant)]
        names |= {text.lstrip("-") for text in texts} or {ast.unparse(argument)}
    return frozenset(names)


def chain_of(call: ast.Call, function: ast.FunctionDef) -> ast.expr:
    """The whole chain of methods that a call is part of."""
    callers = {
        node.func.value: node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    chain = call
    while chain in callers:
        chain = callers[chain]
    return chain


def selected(rows: ast.expr, function: ast.FunctionDef) -> Names:
    """The fields to which an expression narrows its rows, through the names of its function."""
    while True:
        if isinstance(rows, ast.Call):
            method = rows.func.attr if isinstance(rows.func, ast.Attribute) else ""
            if method in ("values", "values_list"):
                return named(rows)
            rows = rows.func
        elif isinstance(rows, ast.Attribute | ast.Subscript):
            rows = rows.value
        elif isinstance(rows, ast.Name) and (given := assigned(rows.id, function)) is not None:
            rows = given
        else:
            return frozenset()


def assigned(name: str, function: ast.FunctionDef) -> ast.expr | None:
    """What a name is given by the only assignment to it."""
    values = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == [name]
    ]
    return values[0] if len(values) == 1 else None


def filtered(module: ast.Module) -> Names:
    """What calls of a module name, as filters do."""
    calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
    words = (keyword.arg for call in calls for keyword in call.keywords)
    return frozenset(word.partition("__")[0] for word in words if word)


def partial_orders(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Each function's orders that do not show that they are total."""
    known = filtered(module)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        for call in ast.walk(function):
            if not (isinstance(call, ast.Call) and call.args):
                continue
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "order_by"):
                continue
            if not is_total(named(call), selected(chain_of(call, function), function), known):
                yield function.name, ast.unparse(call)


def test_every_order_of_rows_is_total() -> None:
    found = {
        f"{path}: {function}": order
        for path, module in modules()
        for function, order in partial_orders(module)
    }
    assert {place: found[place] for place in found.keys() - COMPUTED.keys()} == {}
    assert COMPUTED.keys() - found.keys() == set()


@pytest.mark.parametrize(
    ("order", "whether"),
    [
        ("runs.order_by('-started_at')", False),
        ("runs.order_by('-started_at', '-pk')", True),
        ("notes.filter(scenario=s).order_by('-at')", False),
        ("assets.filter(scenario=s).order_by('rank', '-since', 'asset')", True),
        ("assets.order_by('rank', '-since', 'asset')", False),
        ("cases.values_list('owner').order_by('owner').distinct()", True),
        ("cases.values_list('owner', 'state').order_by('owner')", False),
        ("rows.order_by(F('ended_at').desc(nulls_first=True), '-began_at')", False),
        ("rows.order_by(F('ended_at').desc(nulls_first=True), '-pk')", True),
        ("rows.order_by(*columns)", False),
    ],
)
def test_an_order_is_told_from_a_total_one(order: str, whether: bool) -> None:
    module = ast.parse(f"def f():\n    return {order}")
    assert (list(partial_orders(module)) == []) is whether


def lists(page: type[ListPage] = ListPage) -> Iterator[type[ListPage]]:
    for each in page.__subclasses__():
        yield each
        yield from lists(each)


def test_every_list_page_has_a_total_order() -> None:
    import_module(settings.ROOT_URLCONF)
    orders = {page.__name__: page.order.columns for page in lists()}
    assert len(orders) > 5
    assert {name for name, columns in orders.items() if columns[-1] != "pk"} == set()
