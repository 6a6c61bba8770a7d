"""The examples of the OpenAPI document, each of which works: tests send them all.

Bodies of reports and alerts stand beside what reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMMAND = "6f1d7a9e-0000-4000-8000-000000000001"

PARAMETERS: dict[str, Any] = {
    "scenario": "attack",
    "asset": "shop.example",
    "agent": "waf-7",
    "id": COMMAND,
    "limit": 100,
    "q": "shop -test since:>1h",
    "after": "mail.example",
    "wait": 2,
    "reason": "the drill is over",
    "if_version": "1.42.0",
    "Idempotency-Key": "6f1d7a9e-0000-4000-8000-000000000002",
}
"""Values of parameters by name, wherever they occur."""

OF_OPERATION: dict[str, dict[str, Any]] = {
    "list_assets": {"state": ["under-attack", "suspicious"], "doubt": ["disputed"]},
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
"""Values of parameters that are one operation's own; the path's stay as they are above."""

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
            "summary": "Mute it until that is taken back",
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
"""Bodies by operation."""


def add_examples(document: dict[str, Any]) -> None:
    """Put the examples into an OpenAPI document."""
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
