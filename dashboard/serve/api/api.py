"""The assembled API, with the examples of its OpenAPI document. Every example works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from dashboard.core.api import problems
from dashboard.core.api.router import MAY_BE_BLANK
from dashboard.core.api.schemas import JsonParser

ROUTERS = (
    "dashboard.board.assets.api.router",
    "dashboard.watch.agents.reporting.router",
    "dashboard.watch.agents.alertmanager.router",
    "dashboard.operate.console.api.router",
    "dashboard.watch.commands.api.router",
    "dashboard.watch.agents.api.router",
    "dashboard.watch.annotations.api.router",
    "dashboard.watch.incidents.api.router",
    "dashboard.notify.summaries.api.router",
    "dashboard.notify.notifications.api.router",
    "dashboard.operate.console.api.views",
    "dashboard.retail.api.router",
)
"""The routers of the packages, in the order of the OpenAPI document."""


class Api(NinjaAPI):
    """NinjaAPI with each operation named after its function, and an example of each."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """Return the OpenAPI document."""
        document = super().get_openapi_schema(**options)
        add_examples(document)
        refuse_blanks(document)
        return document


api = Api(
    title="Tallyboard",
    version="1",
    description="Send reports, read states, give commands. Commands answer 202; follow them.",
    urls_namespace="api-v1",
    docs_url=None,
    parser=JsonParser(),
)
for _router in ROUTERS:
    api.add_router("", _router)
problems.install(api)


# ---- examples ------------------------------------------------------------------------------------
# The examples of the OpenAPI document. Every one works: tests send them all.
#
# The bodies of reports and alerts are next to the code that reads them.

COMMAND = "6f1d7a9e-0000-4000-8000-000000000001"

# Parameter values by name, wherever the parameter occurs.
PARAMETERS: dict[str, Any] = {
    "scenario": "attack",
    "asset": "shop.example",
    "agent": "waf-7",
    "order": "order-10007",
    "slug": "acme",
    "id": COMMAND,
    "number": 4711,
    "limit": 100,
    "q": "shop -test since:>1h",
    "after": "mail.example",
    "wait": 2,
    "reason": "the drill is over",
    "if_version": "1.42.0",
    "view": "orders",
    "key": "order-1",
    "key_form": "text",
    "matches": "order-(1|2)[0-9]*",
    "not_empty": True,
    "Idempotency-Key": "6f1d7a9e-0000-4000-8000-000000000002",
}

# Parameter values for single operations; path parameters keep the values above.
OF_OPERATION: dict[str, dict[str, Any]] = {
    "list_orders": {"via": "database", "after": "order-10000", "local": "false"},
    "get_order": {"via": "database", "local": "false", "redirect": "false"},
    "list_assets": {
        "state": ["under-attack", "suspicious"],
        "doubt": ["disputed"],
        "via": "database",
    },
    "get_asset": {"via": "database"},
    "cancel_maintenance": {"following": "false"},
    "list_incidents": {
        "status": "unresolved",
        "owner": "-",
        "q": "shop",
        "before": 4711,
        "filter": "began:<1d",
    },
    "list_incidents_by_asset": {
        "status": "open",
        "worst": "under-attack",
        "filter": "began:<1d",
        "q": "shop",
        "start": 1_790_000_000_000,
        "end": 4_102_444_800_000,
        "before": 4711,
    },
    "list_schedules": {
        "status": "waiting",
        "do": "notify",
        "owner": "olga",
        "filter": "next:<1d",
        "q": "shop",
        "before": 4711,
    },
    "get_summary": {
        "period": "week",
        "date": "2026-11-16",
        "first": "2026-11-01",
        "last": "2026-11-22",
        "scenario": ["attack"],
        "label": "customer",
        "hours": "service",
    },
    "list_history": {
        "kind": "bad",
        "scenario": ["attack"],
        "label": "customer:Acme",
        "hours": "service",
        "start": 1_790_000_000_000,
        "end": 4_102_444_800_000,
        "before": 4711,
    },
    "list_messages": {
        "status": "sent",
        "kind": "opened",
        "rule": 4711,
        "filter": "to:soc*",
        "q": "soc@",
        "start": 1_790_000_000_000,
        "end": 4_102_444_800_000,
        "before": "1790000000000.6f1d7a9e-0000-4000-8000-000000000001",
    },
    "list_own_messages": {"before": "1790000000000.6f1d7a9e-0000-4000-8000-000000000001"},
    "get_view": {"key": "order-1*", "after": "b3JkZXItMA=="},
    "list_maintenance": {"status": "running", "filter": "by:olga", "q": "racks", "before": 4711},
    "post_alerts": {
        "asset": ["site", "instance"],
        "severity": "severity",
        "map": ["page:under-attack", "info:suspicious"],
        "resolved": "clear",
        "agent": "prometheus",
        "agent_label": "alertname",
        "time": "received",
    },
}

# Request bodies by operation.
BODIES: dict[str, dict[str, Any]] = {
    "put_asset": {
        "set": {
            "summary": "Pin a state until a time",
            "value": {
                "state": "under-attack",
                "mode": "set",
                "reason": "the provider confirms it",
                "until": 4_102_444_800_000,
            },
        },
        "vote": {
            "summary": "Vote as one more agent",
            "value": {"state": "clear", "mode": "vote"},
        },
        "only-if": {
            "summary": "Pin it only if nothing has changed since this version",
            "value": {"state": "clear", "reason": "a false alarm", "if_version": "1.42.0"},
        },
    },
    "mute_agent": {
        "while": {
            "summary": "Mute an agent until a time",
            "value": {"reason": "its clock stands", "until": 4_102_444_800_000},
        },
        "until-taken-back": {
            "summary": "Mute it until somebody unmutes it",
            "value": {"reason": "its clock stands"},
        },
    },
    "unmute_agent": {
        "again": {
            "summary": "Let its votes count again",
            "value": {"reason": "its clock is set"},
        },
    },
    "acknowledge_asset": {
        "hour": {
            "summary": "For an hour",
            "value": {"reason": "the provider has been called"},
        },
    },
    "note_closed_ticket": {
        "closed": {
            "summary": "A ticket was closed elsewhere",
            "value": {"ticket": "SOC-7", "text": "closed by Ada: the provider filters it"},
        },
    },
    "acknowledge_incident": {
        "hour": {"summary": "All its assets, for an hour", "value": {"reason": "on it"}},
    },
    "hand_incident_over": {
        "colleague": {
            "summary": "To a colleague",
            "value": {"owner": "operator", "text": "the provider calls back at six"},
        },
    },
    "write_incident_note": {
        "note": {"summary": "A note", "value": {"text": "the provider has been called"}},
    },
    "set_incident_ticket": {
        "ticket": {"summary": "Its ticket elsewhere", "value": {"ticket": "SOC-7"}},
    },
    "resolve_incident": {
        "over": {"summary": "The work is done", "value": {"text": "the provider filters it"}},
    },
    "reopen_incident": {
        "again": {"summary": "It is not over", "value": {"text": "it came back"}},
    },
    "merge_incident": {
        "into": {"summary": "Into INC-4710", "value": {"into": 4710}},
    },
    "split_incident": {
        "one": {"summary": "One asset for itself", "value": {"assets": ["shop"]}},
    },
    "schedule_task": {
        "once": {
            "summary": "In five minutes, if it still is under attack, notify",
            "value": {"do": "notify", "if": "under-attack", "after": 300_000, "reason": "a drill"},
        },
        "again": {
            "summary": "Every hour until a time",
            "value": {
                "do": "emit",
                "every": 3_600_000,
                "until": 4_102_444_800_000,
                "reason": "for the report",
            },
        },
    },
    "cancel_task": {
        "one": {
            "summary": "Cancel a task by its id",
            "value": {"task": "6f1d7a9e-0000-4000-8000-000000000003"},
        },
    },
    "mark_own_messages": {
        "all": {"summary": "All of them", "value": {"all": True}},
    },
    "create_notification_rule": {
        "by-night": {
            "summary": "Tell the night shift of attacks on gold customers, then everybody",
            "value": {
                "name": "Attacks by night",
                "definition": {
                    "scenarios": ["attack"],
                    "labels": ["tier=gold"],
                    "at_least": "under-attack",
                    "hours": {"zone": "Europe/Berlin", "begin": "18:00", "end": "06:00"},
                    "stages": [{"rotas": [4711]}, {"after_ms": 600_000, "channels": [4711]}],
                },
            },
        },
    },
    "put_notification_rule": {
        "all": {
            "summary": "Tell of whatever lasts two minutes",
            "value": {
                "name": "Attacks",
                "revision": 1,
                "definition": {"after_ms": 120_000, "stages": [{"channels": [4711]}]},
            },
        },
    },
    "plan_maintenance": {
        "now": {
            "summary": "Half an hour from now on, of what a filter finds",
            "value": {
                "name": "new racks",
                "scenario": "attack",
                "filter": "site:berlin",
                "duration_ms": 1_800_000,
                "why": "the racks of row 4 are replaced",
            },
        },
    },
    "publish_board": {
        "team": {
            "summary": "What a team looks after",
            "value": {"scenario": "attack", "title": "EU", "filter": "team:EU"},
        },
    },
    "put_first_board": {
        "board": {"summary": "A whole board", "value": {"scenario": "attack"}},
        "none": {"summary": "None", "value": {}},
    },
    "put_status_page": {
        "customer": {
            "summary": "Sites of a customer, with a word of its own for an attack",
            "value": {
                "title": "Acme",
                "scenarios": ["attack"],
                "labels": ["customer=Acme"],
                "words": {"attack": {"under-attack": "Slow"}},
                "published": True,
            },
        },
    },
    "put_labels": {
        "both": {
            "summary": "These labels, and none besides",
            "value": {"labels": {"tier": "gold", "customer": "Acme GmbH"}},
        },
    },
    "patch_labels": {
        "some": {
            "summary": "Change one, take one away",
            "value": {"labels": {"tier": "silver", "owner": None}},
        },
    },
    "put_many_labels": {
        "two": {
            "summary": "Two assets",
            "value": {
                "items": [
                    {"asset": "shop.example", "labels": {"tier": "gold"}},
                    {"asset": "mail.example", "labels": {}},
                ]
            },
        },
    },
}


def add_examples(document: dict[str, Any]) -> None:
    """Add the examples to an OpenAPI document."""
    for methods in document["paths"].values():
        for operation in methods.values():
            _add(operation, OF_OPERATION.get(operation["operationId"], {}))
            bodies = BODIES.get(operation["operationId"])
            if bodies:
                operation["requestBody"]["content"]["application/json"]["examples"] = bodies


def _add(operation: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    for parameter in operation["parameters"]:
        name = parameter["name"]
        if parameter["in"] == "query" and name in own:
            parameter["example"] = own[name]
        elif name in PARAMETERS:
            parameter["example"] = PARAMETERS[name]


def refuse_blanks(document: dict[str, Any]) -> None:
    """Say of each query parameter that it is not blank: the operations' router refuses that."""
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                schema = parameter["schema"]
                text = parameter["in"] == "query" and schema.get("type") == "string"
                if not text or parameter["name"] in MAY_BE_BLANK:
                    continue
                if schema.get("default") == "":
                    del schema["default"]
                if "enum" in schema:
                    schema["enum"] = [value for value in schema["enum"] if value]
                else:
                    schema["minLength"] = 1
