"""Functions that higher packages provide to lower ones, which do not import them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Provider(Generic[P, R]):
    """Calls the registered function, or `default` in a process where none is registered."""

    def __init__(self, default: Callable[P, R]) -> None:
        self._function = default

    def register(self, function: Callable[P, R]) -> None:
        """Register the function to call. Do this once, when Django starts."""
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the registered function and return its result."""
        return self._function(*args, **kwargs)
