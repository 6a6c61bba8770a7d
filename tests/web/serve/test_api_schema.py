"""The API keeps to its own OpenAPI document, whatever it is asked."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import positive_data_acceptance

from dashboard.core.api import router
from dashboard.core.common import access, times
from dashboard.core.common.scenarios import scenarios
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.notify.summaries.models import StatusPage
from dashboard.watch.agents import models as agents_models
from dashboard.watch.commands import submission
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.filters.models import SavedFilter
from support.run.selection import examples, is_whole
from support.web.web_fixtures import (
    INCIDENT,
    bearer,
    copied,
    known_incident,
    known_notifications,
    known_view,
    known_window,
    make_user,
    memory_bus,
    show,
)

pytestmark = pytest.mark.django_db

EXAMPLES = examples(50) if is_whole() else 5
COMMAND = uuid.UUID("6f1d7a9e-0000-4000-8000-000000000001")


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, str]]]:
    """Tokens of an operator and an admin, with limits out of the way and things on the board."""
    cache.clear()
    monkeypatch.setattr(submission, "COMMANDS", access.Limit("commands", 1_000_000))
    monkeypatch.setattr(agents_models, "COMMANDS", access.Limit("commands", 1_000_000))
    monkeypatch.setattr(router, "REQUESTS", access.Limit("requests", 1_000_000))
    show("attack", "shop", "suspicious")
    Row.objects.create(
        id=COMMAND, scenario="attack", asset="shop", kind="set", state="clear", username="x",
        source="form", created_at=times.now_ms(), status="sent",
    )  # fmt: skip
    known_incident()
    known_window()
    known_notifications()
    SavedFilter.objects.create(
        pk=INCIDENT, user=make_user("manager"), scenario="attack", title="EU", text="tier:gold",
        shared=True, tab=True, at=1,
    )  # fmt: skip
    StatusPage.objects.create(
        slug="customers",
        title="Status",
        scenarios=["attack"],
        labels=[["tier", "gold"]],
        changed_at=1,
    )
    known_view((b"order-1", b"{}"), (b"order-2", b"\xff"))
    with memory_bus(scenarios()), copied("orders", "attack"):
        known_job()
        yield {
            "operator": bearer(make_user("operator")),
            "admin": bearer(make_user("admin")),
        }


def known_job() -> None:
    """A heartbeat and a word of the job, so that its operations have something to tell."""
    at = times.now_ms()
    BucketStatus.objects.create(
        bucket="attack/0", scenario="attack", partition=0, epoch=1, executor="1", host="h",
        log_time=at, offset=1, assets=0, timers=0, records=0, dead_letters=0, stale=0,
        engine="kernel", at=at, received_at=at,
    )  # fmt: skip
    JobProgress.objects.create(query="kernel", at=at, status="running", epoch=1, batch="{}")


@pytest.fixture
def operations(db: None) -> dict[str, Any]:
    """The document's operations by their labels."""
    return read_operations()


@lru_cache
def read_operations() -> dict[str, Any]:
    """Read the document, which takes longer than any operation of it."""
    document: Any = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
    return {operation.ok().label: operation.ok() for operation in document.get_all_operations()}


OPERATIONS = (
    "GET /api/v1/scenarios",
    "GET /api/v1/scenarios/{scenario}/assets",
    "GET /api/v1/scenarios/{scenario}/assets/{asset}",
    "PUT /api/v1/scenarios/{scenario}/assets/{asset}",
    "DELETE /api/v1/scenarios/{scenario}/assets/{asset}",
    "POST /api/v1/scenarios/{scenario}/release/{asset}",
    "POST /api/v1/scenarios/{scenario}/reports",
    "POST /api/v1/scenarios/{scenario}/alertmanager",
    "GET /api/v1/boards",
    "POST /api/v1/boards",
    "DELETE /api/v1/boards/{number}",
    "GET /api/v1/first-board",
    "PUT /api/v1/first-board",
    "GET /api/v1/scenarios/{scenario}/agents",
    "GET /api/v1/scenarios/{scenario}/mutes",
    "POST /api/v1/scenarios/{scenario}/mute/{agent}",
    "POST /api/v1/scenarios/{scenario}/unmute/{agent}",
    "GET /api/v1/scenarios/{scenario}/labels",
    "PUT /api/v1/scenarios/{scenario}/labels",
    "GET /api/v1/scenarios/{scenario}/labels/{asset}",
    "PUT /api/v1/scenarios/{scenario}/labels/{asset}",
    "PATCH /api/v1/scenarios/{scenario}/labels/{asset}",
    "DELETE /api/v1/scenarios/{scenario}/labels/{asset}",
    "GET /api/v1/scenarios/{scenario}/acknowledgements/{asset}",
    "POST /api/v1/scenarios/{scenario}/acknowledgements/{asset}",
    "DELETE /api/v1/scenarios/{scenario}/acknowledgements/{asset}",
    "GET /api/v1/incidents",
    "GET /api/v1/incidents/assets",
    "POST /api/v1/incidents/ticket-closed",
    "GET /api/v1/incidents/{number}",
    "POST /api/v1/incidents/{number}/acknowledge",
    "PUT /api/v1/incidents/{number}/owner",
    "POST /api/v1/incidents/{number}/notes",
    "PUT /api/v1/incidents/{number}/ticket",
    "POST /api/v1/incidents/{number}/resolve",
    "POST /api/v1/incidents/{number}/reopen",
    "POST /api/v1/incidents/{number}/merge",
    "POST /api/v1/incidents/{number}/split",
    "GET /api/v1/schedules",
    "GET /api/v1/orders",
    "GET /api/v1/orders/{order}",
    "GET /api/v1/stores",
    "GET /api/v1/invoices/today",
    "POST /api/v1/scenarios/{scenario}/schedule/{asset}",
    "POST /api/v1/scenarios/{scenario}/cancel/{asset}",
    "GET /api/v1/summary",
    "GET /api/v1/summary/history",
    "GET /api/v1/notifications/rules",
    "POST /api/v1/notifications/rules",
    "GET /api/v1/notifications/rules/{number}",
    "PUT /api/v1/notifications/rules/{number}",
    "DELETE /api/v1/notifications/rules/{number}",
    "GET /api/v1/notifications/rotas",
    "GET /api/v1/notifications/rotas/{number}",
    "GET /api/v1/notifications/messages",
    "GET /api/v1/notifications/messages/{id}",
    "GET /api/v1/notifications/inbox",
    "POST /api/v1/notifications/inbox/read",
    "GET /api/v1/status-pages",
    "PUT /api/v1/status-pages/{slug}",
    "DELETE /api/v1/status-pages/{slug}",
    "GET /api/v1/maintenance",
    "GET /api/v1/maintenance/{number}",
    "POST /api/v1/maintenance",
    "POST /api/v1/maintenance/{number}/end",
    "DELETE /api/v1/maintenance/{number}",
    "GET /api/v1/commands/{id}",
    "GET /api/v1/views/{view}",
    "GET /api/v1/views/{view}/{key}",
    "GET /api/v1/views",
    "GET /api/v1/partitions",
    "GET /api/v1/job",
)
OF_ADMINS = ("/status-pages", "/status-pages/{slug}", "/boards", "/boards/{number}")
"""The ends of addresses that admins alone change."""
WITHOUT_INPUT = (
    OPERATIONS[0],
    "GET /api/v1/invoices/today",
    "GET /api/v1/notifications/rules",
    "GET /api/v1/notifications/rotas",
    "POST /api/v1/incidents/ticket-closed",  # any text may be a ticket
    "GET /api/v1/status-pages",
    "GET /api/v1/boards",
    "GET /api/v1/first-board",
    "POST /api/v1/notifications/inbox/read",  # of one's own, whatever it names
    *OPERATIONS[-3:],
)
"""Operations that have but one answer for who may ask."""


def test_every_operation_is_tried(operations: dict[str, Any]):
    assert set(operations) == set(OPERATIONS)


KNOWN = {
    "scenario": "attack",
    "asset": "shop",
    "agent": "waf-1",
    "id": str(COMMAND),
    "view": "orders",
    "key": "order-1",
    "number": INCIDENT,
    "slug": "customers",
}
"""Parameters of paths with values that exist."""
FORMS_OF_NAMES = {"view": "after", "key": "key_form"}
"""Options that would read the value of such a parameter in another way."""


def name_known_things(case: Case) -> None:
    """Have a case ask for what exists."""
    for parameter in case.path_parameters.keys() & KNOWN.keys():
        case.path_parameters[parameter] = KNOWN[parameter]
        case.query.pop(FORMS_OF_NAMES.get(parameter, ""), None)
    if isinstance(case.body, dict) and "definition" in case.body:
        case.body["definition"] = {"stages": [{"channels": [INCIDENT]}]}
    if isinstance(case.body, dict) and "scenarios" in case.body:
        case.body |= {"scenarios": ["attack"], "labels": ["tier=gold"], "words": {}}
    if isinstance(case.body, dict) and "do" in case.body:
        case.body = {"do": "emit", "after": 60_000}
    if isinstance(case.body, dict) and "into" in case.body:
        case.body["into"] = INCIDENT


@pytest.mark.parametrize("label", OPERATIONS)
def test_the_api_keeps_to_its_document(
    operations: dict[str, Any], headers: dict[str, dict[str, str]], label: str
):
    seen: set[int] = set()
    turns = cycle((True, False))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operations[label].as_strategy())
    def keeps(case: Case) -> None:
        known = next(turns)
        if known:
            name_known_things(case)
        if not known and label.startswith("GET /api/v1/orders"):
            case.query["via"] = "cache"  # which does not run here
        case.query.pop("wait", None)
        response = case.call_and_validate(
            headers=headers["admin" if label.endswith(OF_ADMINS) else "operator"],
            # A state must be the scenario's and a time to come: no schema can say that.
            excluded_checks=[positive_data_acceptance],
        )
        seen.add(response.status_code)

    keeps()
    assert len(seen) > 1 or label in WITHOUT_INPUT, f"only {seen} ever"
