"""What a higher package offers to the ones below it, which do not import it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Provider(Generic[P, R]):
    """Calls what was registered, or `default` in a process where nobody registers."""

    def __init__(self, default: Callable[P, R]) -> None:
        self._function = default

    def register(self, function: Callable[P, R]) -> None:
        """Have `function` called from now on: once, when Django starts."""
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the registered function returns."""
        return self._function(*args, **kwargs)
