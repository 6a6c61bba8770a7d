"""The API keeps to its own OpenAPI document, whatever it is asked."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.specs.openapi.checks import positive_data_acceptance
from selection import examples
from web_fixtures import bearer, make_user, memory_bus, show

from dashboard.agents import mutes
from dashboard.api import auth
from dashboard.commands import submission
from dashboard.commands.models import Command as Row
from dashboard.core import rate_limits, times
from dashboard.core.scenarios import scenarios
from dashboard.job.models import BucketStatus, JobProgress

pytestmark = pytest.mark.django_db

EXAMPLES = examples(30)
COMMAND = uuid.UUID("6f1d7a9e-0000-4000-8000-000000000001")


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """An operator's token, with limits out of the way and something on the board."""
    cache.clear()
    monkeypatch.setattr(submission, "COMMANDS", rate_limits.Limit("commands", 1_000_000))
    monkeypatch.setattr(mutes, "COMMANDS", rate_limits.Limit("commands", 1_000_000))
    monkeypatch.setattr(auth, "REQUESTS", rate_limits.Limit("requests", 1_000_000))
    show("attack", "shop", "suspicious")
    Row.objects.create(
        id=COMMAND, scenario="attack", asset="shop", kind="set", state="clear", username="x",
        source="form", created_at=times.now_ms(), status="sent",
    )  # fmt: skip
    with memory_bus(scenarios()):
        told()
        yield bearer(make_user("operator"))


def told() -> None:
    """A heartbeat and a word of the job, so that its operations have something to tell."""
    at = times.now_ms()
    BucketStatus.objects.create(
        bucket="attack/0", scenario="attack", partition=0, epoch=1, executor="1", host="h",
        log_time=at, offset=1, assets=0, dues=0, records=0, dead_letters=0, stale=0,
        engine="kernel", at=at, received_at=at,
    )  # fmt: skip
    JobProgress.objects.create(query="kernel", at=at, status="running", epoch=1, batch="{}")


@pytest.fixture
def document(db: None) -> Any:
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())


OPERATIONS = (
    "GET /api/v1/scenarios",
    "GET /api/v1/scenarios/{scenario}/assets",
    "GET /api/v1/scenarios/{scenario}/assets/{asset}",
    "PUT /api/v1/scenarios/{scenario}/assets/{asset}",
    "DELETE /api/v1/scenarios/{scenario}/assets/{asset}",
    "POST /api/v1/scenarios/{scenario}/release/{asset}",
    "POST /api/v1/scenarios/{scenario}/reports",
    "POST /api/v1/scenarios/{scenario}/alertmanager",
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
    "GET /api/v1/commands/{id}",
    "GET /api/v1/partitions",
    "GET /api/v1/job",
)
WITHOUT_INPUT = (OPERATIONS[0], *OPERATIONS[-2:])
"""Operations that have but one answer for who may ask."""


def operations(document: Any) -> dict[str, Any]:
    return {found.ok().label: found.ok() for found in document.get_all_operations()}


def test_every_operation_is_tried(document: Any):
    assert set(operations(document)) == set(OPERATIONS)


@pytest.mark.parametrize("label", OPERATIONS)
def test_the_api_keeps_to_its_document(document: Any, headers: dict[str, str], label: str):
    seen: set[int] = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operations(document)[label].as_strategy(), known=st.booleans())
    def keeps(case: Case, known: bool) -> None:
        if known and "scenario" in case.path_parameters:
            case.path_parameters["scenario"] = "attack"
        if known and "asset" in case.path_parameters:
            case.path_parameters["asset"] = "shop"
        if known and "agent" in case.path_parameters:
            case.path_parameters["agent"] = "waf-1"
        if known and "id" in case.path_parameters:
            case.path_parameters["id"] = str(COMMAND)
        case.query.pop("wait", None)
        response = case.call_and_validate(
            headers=headers,
            # A state must be the scenario's and a time to come: no schema can say that.
            excluded_checks=[positive_data_acceptance],
        )
        seen.add(response.status_code)

    keeps()
    assert len(seen) > 1 or label in WITHOUT_INPUT, f"only {seen} ever"
