"""What the operations share: how each is declared, and the scenario and the asset that it names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ninja import Router

from dashboard.api.auth import allow
from dashboard.api.problems import Problem, documented, invalid
from dashboard.core.access import EVERY_ROLE
from dashboard.core.roles import Action, Role
from dashboard.core.scenarios import scenarios
from domain.names import name_ok
from domain.scenario import Scenario

READ = (404, 422)
WRITE = (400, 404, 413, 415, 422)
SEND = (400, 404, 409, 413, 415, 422, 503)
"""Statuses of the problems of what reads, of what writes to the database, and what to Kafka."""


class OperationRouter(Router):
    """A router that declares an operation in a line."""

    def operation(
        self,
        route: str,
        response: Any,
        action: Action,
        *statuses: int,
        body: Mapping[str, Any] | None = None,
        among: Collection[Role] = EVERY_ROLE,
    ) -> Any:
        """Return the decorator of an operation that needs `action`, and a role `among` these.

        route: method and path; statuses: of its problems, beyond those that each may answer with;
        body: in OpenAPI's terms, where the operation reads it itself.
        """
        method, path = route.split()
        extra = documented(*statuses) | ({"requestBody": body} if body else {})
        return self.api_operation(
            [method],
            path,
            response=response,
            auth=allow(action, among),
            openapi_extra=extra,
            by_alias=True,
        )


def known_scenario(name: str) -> Scenario:
    """Return a scenario. Raises Problem 404."""
    known = scenarios().get(name)
    if known is None:
        raise Problem(404, "unknown-scenario", f"{name!r} is none of: {', '.join(scenarios())}.")
    return known


def check_asset(name: str, field: str = "asset") -> None:
    """Raise Problem 422 unless an asset may have this name."""
    if not name_ok(name):
        raise invalid(field, "1 to 255 characters, none of them a control character")
