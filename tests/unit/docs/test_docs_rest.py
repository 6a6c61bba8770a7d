"""docs/rest.md says what the API does: operations, scopes, roles, reasons, limits, metrics."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from django.core.cache import cache
from django.core.management import get_commands
from django.test import Client
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from dashboard.board.assets import api as board_api
from dashboard.core.accounts.tokens import MAX_TOKENS, SCOPES
from dashboard.core.api import problems
from dashboard.core.api import router as api_router
from dashboard.core.common import metrics
from dashboard.core.common.access import ALLOWED, COMMANDS, REPORTS
from dashboard.core.common.scenarios import scenarios
from dashboard.serve.api.api import api
from dashboard.watch.agents import alertmanager, reporting
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.commands import api as commands
from support.web.web_fixtures import bearer, make_user, memory_bus

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
PLAIN = re.sub(r"\s+", " ", DOC)


def section(title: str) -> str:
    """What stands under a heading."""
    text = re.split(rf"^## {re.escape(title)}\n", DOC, flags=re.MULTILINE)[1]
    return re.split(r"^## ", text, flags=re.MULTILINE)[0]


def table(title: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    rows = re.findall(r"^\|(.*)\|$", section(title), re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows[2:]]


def items(title: str) -> dict[str, str]:
    """The names that a section lists, each with what stands in brackets after it."""
    entries = re.findall(r"^- `([^`]+)`(?: \(([^)]*)\))?(?::|$)", section(title), re.MULTILINE)
    return dict(entries)


def code(text: str) -> str:
    return str(re.findall(r"`([^`]*)`", text)[0])


def callbacks() -> dict[str, Any]:
    """What each operation asks of its caller."""
    return {
        re.sub(r"\{(\w+:)?", "{", f"{method} {path.lstrip('/')}"): operation.auth_callbacks[0]
        for _, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }


SAID = {
    "any": {"admin", "operator", "manager"},
    "operator": {"admin", "operator"},
    "admin": {"admin"},
}
"""The roles that may, by what the page says in brackets."""


def operations_listed() -> dict[str, tuple[str, str]]:
    """Each operation of the page with its scope and the word for its roles."""
    listed = {name: asked.split(", ") for name, asked in items("Operations").items() if asked}
    return {
        name.replace("{s}", "{scenario}"): (code(scope), role)
        for name, (scope, role) in listed.items()
    }


def test_every_operation_is_listed_with_its_scope_and_its_roles():
    document = api.get_openapi_schema(path_prefix="")
    known = {
        f"{method.upper()} {path.lstrip('/')}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    named = operations_listed()
    assert set(named) == known
    for name, (scope, role) in named.items():
        among = callbacks()[re.sub(r"\{(\w+:)?", "{", name)].among
        allowed = {role.value for role in among if scope in ALLOWED[role]}
        assert SAID[role] == allowed, name


def test_the_scope_of_each_operation_is_the_one_it_asks_for():
    asked = {
        operation.view_func.__name__: vars(operation.auth_callbacks[0])["action"]
        for _, router in api._routers
        for view in router.path_operations.values()
        for operation in view.operations
    }
    document = api.get_openapi_schema(path_prefix="")
    named = operations_listed()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path.lstrip('/')}"
            assert named[name][0] == asked[operation["operationId"]], name


def test_the_scopes_are_listed():
    assert {code(row[0]): row[1] for row in table("Tokens")} == SCOPES
    assert f"at most {MAX_TOKENS} tokens" in PLAIN


def test_the_reasons_of_problems_are_listed():
    listed = {reason: int(status) for reason, status in items("Errors").items()}
    assert set(listed) == set(problems.TITLES)
    for reason, status in listed.items():
        assert status in problems._DESCRIPTIONS or status == 405, reason


def test_the_limits_are_told():
    text = PLAIN.replace(",", "")
    for limit in (api_router.REQUESTS, COMMANDS, REPORTS, acknowledgements.LIMIT):
        assert f"{limit.count} {limit.what}" in text
        assert limit.window == 60
    assert f"{reporting.MAX_REPORTS} reports" in text
    assert f"{commands.MAX_WAIT_S} seconds" in text
    assert f"at most {board_api.MAX_PAGE}" in text
    assert f"{reporting.MAX_BODY // 2**20} MiB" in text


def test_the_metrics_are_listed_with_their_labels_and_no_others():
    counted = {
        (f"{family.name}_total" if family.type == "counter" else family.name): collector
        for collector in vars(metrics).values()
        if isinstance(collector, MetricWrapperBase)
        for family in collector.describe()
    }
    ours = [each for each in vars(metrics).values() if isinstance(each, metrics.Metric)]
    known = {name: tuple(each._labelnames) for name, each in counted.items()}
    known |= {each.name: each.labels for each in ours}
    listed = {
        name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in items("Metrics").items()
    }
    assert listed == known
    assert all(name.startswith("tallyboard_") for name in known)


def test_alarms_are_on_metrics_that_there_are():
    alarms = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\btallyboard_\w+", alarms)) - {"tallyboard_agents"}
    assert len(named) >= 8
    assert named <= set(items("Metrics"))


def test_every_metric_of_ours_is_named_in_one_module():
    known = {
        family.name
        for collector in vars(metrics).values()
        if isinstance(collector, MetricWrapperBase)
        for family in collector.describe()
    }
    names = {f.name for f in REGISTRY.collect() if f.name.startswith("tallyboard_")}
    assert names <= known


# ---- Alertmanager -------------------------------------------------------------------------------


def example(language: str, at: int = 0) -> str:
    """An example of the section on Alertmanager."""
    examples = re.findall(rf"```{language}\n(.*?)```", section("Alertmanager"), re.DOTALL)
    return str(examples[at])


def test_every_option_is_listed_with_its_default():
    fields = alertmanager.AlertOptions.model_fields
    listed = {code(row[0]): row[1] for row in table("Alertmanager")}
    assert set(listed) == set(fields)
    for name, field in fields.items():
        shown = re.findall(r"`([^`]*)`", listed[name])
        default = field.default if isinstance(field.default, list) else [field.default]
        assert shown == [value for value in default if value], name


def test_every_reason_of_an_alert_is_named():
    for reason in ("bad-alert", "unknown-label", "unknown-severity", *reporting.EXPECTED):
        assert f"`{reason}`" in DOC, reason


@pytest.mark.django_db
def test_the_example_of_a_configuration_works():
    """Its receiver sends to an address that takes what Alertmanager sends, with that token."""
    cache.clear()
    config: dict[str, Any] = yaml.safe_load(example("yaml"))
    (receiver,) = config["receivers"]
    assert config["route"]["receiver"] == receiver["name"]
    (hook,) = receiver["webhook_configs"]
    assert hook["send_resolved"] is True
    authorization = hook["http_config"]["authorization"]
    assert authorization["type"] == "Bearer"
    assert authorization["credentials_file"]
    address = urlsplit(hook["url"])
    assert dict(parse_qsl(address.query))
    with memory_bus(scenarios()):
        response = Client().post(
            f"{address.path}?{address.query}",
            alertmanager.EXAMPLE,
            content_type="application/json",
            headers=bearer(make_user("operator"), "report"),
        )
    assert response.status_code == 202, response.content
    assert response.json()["refused"] == 0


def test_the_example_of_a_scrape_is_one():
    config = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", section("Metrics"), re.DOTALL)[0])
    (job,) = config["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["credentials_file"]


def test_the_commands_of_the_examples_are_there():
    lines = [line for line in re.findall(r"manage\.py ([^)`\n]*)", DOC) if line]
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] in get_commands()
        scopes = [words[at + 1] for at, word in enumerate(words) if word == "--scope"]
        assert set(scopes) <= set(SCOPES)
