"""Rules that users write in Python: the modules of the package `rules`, looked up by name.

A module is imported only when a scenario names it, and only from that package. A scenario record
may be forged, and could otherwise have any code called.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import re
from collections.abc import Callable, Collection
from typing import Any

from domain.records import Vote

log = logging.getLogger("domain.python_rules")

PACKAGE = "rules"
EXPECTED = f"a module of {PACKAGE}/ with a function tally(votes, current)"
# Largest number of failures that one process logs: records may arrive a thousand times a second.
MAX_LOGGED = 100

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_logged: set[tuple[str, str]] = set()


class NoState(Exception):
    """A rule's function did not return a state; the message says what it did instead."""


def rule_function(name: object) -> Callable[..., Any] | None:
    """Return the function `tally` of `rules/<name>.py`, or None if there is none. Never raises."""
    if not isinstance(name, str) or not _NAME.match(name):
        return None
    module = f"{PACKAGE}.{name}"
    try:
        function = getattr(importlib.import_module(module), "tally", None)
    except Exception as error:  # noqa: BLE001, the module is the user's
        if not isinstance(error, ModuleNotFoundError) or error.name != module:
            _log_once(name, f"cannot be imported: {type(error).__name__}", error)
        return None
    return function if callable(function) else None


def rule_functions() -> list[str]:
    """Return the names of all Python rules, sorted."""
    package = importlib.import_module(PACKAGE)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return sorted(name for name in names if rule_function(name) is not None)


def evaluate(
    name: str, votes: Collection[Vote], current: str | None, knows: Callable[[str], bool]
) -> str | None:
    """Return the state that the rule `name` makes of `votes`, of which there must be at least one.

    Return None if the rule fails, or returns something other than a state that the scenario
    `knows`. The first failure of each kind is logged. Nothing is raised, because the fold must go
    on.
    """
    try:
        return _state(name, tuple(sorted(votes, key=lambda vote: vote.agent)), current, knows)
    except NoState as failure:
        _log_once(name, str(failure))
    except Exception as error:  # noqa: BLE001, the function is the user's
        _log_once(name, f"raised {type(error).__name__}", error)
    return None


def _state(
    name: str, votes: tuple[Vote, ...], current: str | None, knows: Callable[[str], bool]
) -> str:
    function = rule_function(name)
    if function is None:
        raise NoState(f"is not {EXPECTED}")
    answer = function(votes, current)
    if not isinstance(answer, str):
        raise NoState(f"returned {type(answer).__name__} instead of a state's name")
    # The fold keeps only plain str objects, not instances of a user's subclass.
    state = str.__str__(answer)
    # Half a surrogate pair is a valid str, but no record can contain it.
    state.encode()
    if not knows(state):
        raise NoState("returned a state that the scenario does not know")
    return state


def _log_once(name: str, what: str, error: Exception | None = None) -> None:
    if (name, what) in _logged or len(_logged) >= MAX_LOGGED:
        return
    _logged.add((name, what))
    log.warning("rule %s %s (logged once)", name, what, exc_info=error)
