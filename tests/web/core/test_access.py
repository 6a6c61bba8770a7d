"""Who may do what: every role against every address, every operation and every socket message.

The tables are the specification. An address of the resolver, an operation of the OpenAPI document
or a message of the socket that is in none of them fails the last tests of this file.
"""

from __future__ import annotations

import html
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.urls import URLResolver, get_resolver

from dashboard.asgi import application
from dashboard.board.live import consumer, threads
from dashboard.board.live.consumer import websocket_urlpatterns
from dashboard.core.accounts import tokens
from dashboard.core.accounts.models import DRAFTS_KEPT, Draft
from dashboard.core.common.access import ALLOWED
from dashboard.core.common.kafka import Gateway
from dashboard.core.common.times import now_ms
from dashboard.core.job.ingestion import ingest_pipeline_progress
from dashboard.core.job.models import JobProgress
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.serve.api.api import api
from dashboard.watch.bulk.models import Run
from dashboard.watch.commands.models import Command as Row
from support.run.selection import sampled
from support.web.web_fixtures import (
    INCIDENT,
    MESSAGE,
    ROLES,
    bearer,
    commands_sent,
    known_incident,
    known_notifications,
    known_view,
    known_window,
    make_user,
    sent,
    show,
)
from wire.pipeline import PipelineProgress

pytestmark = pytest.mark.django_db

COMMAND = uuid.UUID("6f1d7a9e-0000-4000-8000-000000000001")
FORM = {"id": str(COMMAND), "state": "clear", "reason": "a drill", "confirm": "yes"}
ASK = {"id": str(COMMAND), "action": "stop", "reason": "a drill", "confirm": "on"}
KEEP = {"scenario": "attack", "q": "shop", "title": "Shops"}
ACK = {"asset": "shop", "end": "1h"}
RULE = {"name": "Attacks", "definition": {"stages": [{"channels": [INCIDENT]}]}}
WORK = {"name": "racks", "duration_ms": 60_000}
TOKEN = {"label": "cron", "scopes": ["read"], "days": "30"}
MUTE = {"id": str(COMMAND), "reason": "a drill", "end": "15m"}
SCHEDULE = {"do": "emit", "after": "5m"}
CANCEL = {"id": str(uuid.UUID(int=5)), "task": str(COMMAND)}
LOGIN = 302
"""Of the anonymous: to the login page, and back afterwards."""

# Statuses stand for ROLES: anonymous, none, manager, operator, admin.
READ = (LOGIN, 403, 200, 200, 200)
"""Of those who run the board: a manager reads only what it shows."""
SEND = (LOGIN, 403, 403, 302, 302)
OWN = (LOGIN, 200, 200, 200, 200)
STEP = (LOGIN, 302, 302, 302, 302)
"""One's own login: to the password first, where what is asked for needs it once more."""
ALL = (200, 200, 200, 200, 200)
NOBODY = (LOGIN, 404, 404, 404, 404)
NOT_YET = (LOGIN, 404, 404, 404, 404)
"""Where no second factor is set up."""
ADMIN = (LOGIN, 403, 403, 403, 200)
OPERATORS = (LOGIN, 403, 403, 200, 200)
ABSENT = (LOGIN, 403, 403, 403, 404)
"""An admin's, of something that is not there."""
NO_RUN = (LOGIN, 403, 404, 404, 404)
NO_WORK = (LOGIN, 403, 403, 404, 404)
"""An operator's, of something that is not there."""
CONFIRMED = (LOGIN, 403, 403, 403, 302)
"""An admin's, once the password has been given again."""
UNCLEAR = (LOGIN, 403, 403, 403, 422)
TO_LOGIN = (
    READ,
    OPERATORS,
    NO_WORK,
    SEND,
    OWN,
    STEP,
    NOBODY,
    NOT_YET,
    ADMIN,
    ABSENT,
    CONFIRMED,
    UNCLEAR,
)
TAKES = (LOGIN, 403, 302, 302, 302)
WRONG_LINK = (404, 404, 404, 404, 404)
LEADS = (302, 302, 302, 302, 302)
"""To the page that has the form."""

PAGES: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("get", "/", None, READ),
    ("get", "/s/attack/", None, READ),
    ("get", "/s/attack/a/shop/", None, READ),
    ("get", "/s/attack/record/0/0/", None, (LOGIN, 403, 404, 404, 404)),
    ("get", f"/commands/{COMMAND}/", None, OPERATORS),
    ("post", "/s/attack/command/set/shop/", FORM, SEND),
    ("post", "/s/attack/command/vote/shop/", FORM, SEND),
    ("post", "/s/attack/command/release/shop/", FORM, SEND),
    ("post", "/s/attack/command/purge/shop/", FORM, SEND),
    ("post", "/s/attack/command/schedule/shop/", FORM | SCHEDULE, SEND),
    ("post", "/s/attack/schedules/cancel/shop/", CANCEL, SEND),
    ("get", "/console/", None, TAKES),
    ("get", "/notifications/", None, TAKES),
    ("get", "/mail/", None, TAKES),
    ("get", "/retention/", None, TAKES),
    ("get", "/schedules/", None, READ),
    ("get", "/orders/where/", None, READ),
    ("get", "/invoices/", None, READ),
    ("get", "/invoices/hourly/", None, READ),
    ("get", "/s/attack/command/set/shop/", None, LEADS),
    ("get", "/events/", None, READ),
    ("get", "/events/events.csv", None, READ),
    ("get", "/summary/", None, READ),
    ("get", "/summary/figures.csv", None, READ),
    ("get", "/summary/history/", None, READ),
    ("get", "/summary/history/history.csv", None, READ),
    ("get", "/summary/alarms/", None, READ),
    ("get", "/summary/alarms/alarms.csv", None, READ),
    ("get", "/summary/settings/", None, ADMIN),
    ("post", "/summary/settings/", {}, UNCLEAR),
    ("get", "/status/nobody-made-it/", None, WRONG_LINK),
    ("get", "/status-pages/", None, ADMIN),
    ("get", "/status-pages/new/", None, ADMIN),
    ("post", "/status-pages/new/", {}, UNCLEAR),
    ("get", f"/status-pages/{INCIDENT}/", None, ABSENT),
    ("post", f"/status-pages/{INCIDENT}/", {}, ABSENT),
    ("get", "/incidents/", None, READ),
    ("get", "/incidents/incidents.csv", None, READ),
    ("get", "/incidents/groups/", None, READ),
    ("get", "/incidents/groups/groups.csv", None, READ),
    ("get", f"/incidents/{INCIDENT}/by/customer/", None, READ),
    ("get", f"/incidents/{INCIDENT}/by/customer/report.md", None, READ),
    ("get", "/incidents/by-asset/", None, READ),
    ("get", "/incidents/by-asset/by-asset.csv", None, READ),
    ("get", f"/incidents/INC-{INCIDENT}/", None, READ),
    ("get", f"/incidents/INC-{INCIDENT}/report.md", None, READ),
    ("post", f"/incidents/INC-{INCIDENT}/acknowledge/", {"end": "1h"}, SEND),
    ("post", f"/incidents/INC-{INCIDENT}/owner/", {"owner": ""}, SEND),
    ("post", f"/incidents/INC-{INCIDENT}/note/", {"text": "a drill"}, SEND),
    ("post", f"/incidents/INC-{INCIDENT}/ticket/", {"ticket": "SOC-7"}, SEND),
    ("post", f"/incidents/INC-{INCIDENT}/resolve/", {}, SEND),
    ("post", f"/incidents/INC-{INCIDENT}/merge/", {"into": "INC-1"}, (LOGIN, 403, 403, 422, 422)),
    ("post", f"/incidents/INC-{INCIDENT}/split/", {}, (LOGIN, 403, 403, 422, 422)),
    ("post", f"/incidents/INC-{INCIDENT}/reopen/", {}, SEND),
    ("get", "/s/attack/incident/shop/", None, TAKES),
    ("get", "/maintenance/", None, READ),
    ("get", "/maintenance/new/", None, OPERATORS),
    ("post", "/maintenance/new/", {}, (LOGIN, 403, 403, 422, 422)),
    ("get", f"/maintenance/{INCIDENT}/", None, READ),
    ("get", f"/maintenance/{INCIDENT}/edit/", None, SEND),
    ("post", f"/maintenance/{INCIDENT}/edit/", {}, SEND),
    ("post", f"/maintenance/{INCIDENT}/end/", {}, SEND),
    ("post", f"/maintenance/{INCIDENT}/cancel/", {}, SEND),
    ("get", "/account/digests/", None, READ),
    ("post", "/account/digests/attack/", {"every": "never", "weekday": "0", "hour": "7"}, TAKES),
    ("get", "/digests/unsubscribe/1:guessed/", None, WRONG_LINK),
    ("post", "/digests/unsubscribe/1:guessed/", {}, WRONG_LINK),
    ("get", "/console/retention/", None, ADMIN),
    ("post", "/console/retention/set/", {}, UNCLEAR),
    ("get", "/notifications/rules/", None, OPERATORS),
    ("get", "/notifications/rules/new/", None, OPERATORS),
    ("post", "/notifications/rules/new/", {}, (LOGIN, 403, 403, 422, 422)),
    ("get", f"/notifications/rules/{INCIDENT}/", None, OPERATORS),
    ("get", f"/notifications/rules/{INCIDENT}/edit/", None, OPERATORS),
    ("post", f"/notifications/rules/{INCIDENT}/edit/", {}, (LOGIN, 403, 403, 422, 422)),
    ("post", f"/notifications/rules/{INCIDENT}/act/", {"do": "disable"}, SEND),
    ("get", "/notifications/channels/", None, ADMIN),
    ("get", "/notifications/channels/new/mail/", None, ADMIN),
    ("post", "/notifications/channels/new/mail/", {}, UNCLEAR),
    ("get", f"/notifications/channels/{INCIDENT}/", None, ADMIN),
    ("post", f"/notifications/channels/{INCIDENT}/", {}, UNCLEAR),
    ("post", f"/notifications/channels/{INCIDENT}/act/", {}, CONFIRMED),
    ("get", "/notifications/rotas/", None, OPERATORS),
    ("post", "/notifications/rotas/", {}, (LOGIN, 403, 403, 422, 422)),
    ("get", f"/notifications/rotas/{INCIDENT}/", None, OPERATORS),
    ("post", f"/notifications/rotas/{INCIDENT}/change/", {"do": "retire"}, SEND),
    ("post", f"/notifications/rotas/{INCIDENT}/add/", {}, (LOGIN, 403, 403, 422, 422)),
    ("post", f"/notifications/rotas/{INCIDENT}/remove/", {}, SEND),
    ("get", "/notifications/messages/", None, OPERATORS),
    ("get", "/notifications/messages/messages.csv", None, OPERATORS),
    ("get", f"/notifications/messages/{MESSAGE}/", None, OPERATORS),
    ("get", "/notifications/reply/guessed/", None, WRONG_LINK),
    ("post", "/notifications/reply/guessed/", {}, WRONG_LINK),
    ("get", "/account/messages/", None, READ),
    ("post", "/account/messages/read/", {}, TAKES),
    ("get", "/notifications/ack/nothing/", None, NO_WORK),
    ("post", "/notifications/ack/nothing/", {}, NO_WORK),
    ("get", "/console/mail/", None, OPERATORS),
    ("get", "/console/mail/1/", None, NO_WORK),
    ("get", "/console/mail/1/html/", None, NO_WORK),
    ("get", "/board.csv", None, READ),
    ("get", "/as-of/", None, READ),
    ("get", "/wall/", None, READ),
    ("get", "/as-of/as-of.csv", None, READ),
    ("get", "/palette/", None, READ),
    ("get", "/tabs/", None, READ),
    ("get", "/glossary/", None, READ),
    ("get", "/overrides/", None, READ),
    ("get", "/agents/", None, OPERATORS),
    ("get", "/agents/attack/waf-1/", None, NO_WORK),
    ("post", "/mute/attack/waf-1/", MUTE, (LOGIN, 403, 403, 404, 404)),
    ("post", "/unmute/attack/waf-1/", MUTE, (LOGIN, 403, 403, 404, 404)),
    ("post", "/mute-again/attack/waf-1/", {}, (LOGIN, 403, 403, 404, 404)),
    ("post", "/s/attack/acknowledge/", ACK, SEND),
    ("post", "/s/attack/take-back/", ACK, SEND),
    ("post", "/s/attack/note/shop/", {"text": "a drill"}, SEND),
    ("post", "/mute/attack/", {}, (LOGIN, 403, 403, 422, 422)),
    ("post", "/s/attack/notes/", {"text": "a drill", "asset": "shop"}, SEND),
    ("get", "/notes/1/edit/", None, NO_WORK),
    ("post", "/notes/1/edit/", {"text": "a drill"}, NO_WORK),
    ("post", "/notes/1/delete/", {}, NO_WORK),
    ("get", "/handover/", None, OPERATORS),
    ("get", "/handover/text/", None, OPERATORS),
    ("post", "/handover/shift/begin/", {}, SEND),
    ("get", "/stale/", None, OPERATORS),
    ("get", "/bulk/", None, READ),
    ("post", "/bulk/review/", {"scenario": "attack", "kind": "purge"}, (LOGIN, 403, 403, 422, 422)),
    ("get", "/bulk/names/", None, (LOGIN, 403, 403, 200, 200)),
    ("get", f"/bulk/{COMMAND}/", None, NO_RUN),
    ("get", f"/bulk/{COMMAND}/outcomes.csv", None, NO_RUN),
    ("post", f"/bulk/{COMMAND}/start/", {}, (LOGIN, 403, 403, 404, 404)),
    ("post", f"/bulk/{COMMAND}/ask/", {"do": "pause"}, (LOGIN, 403, 403, 404, 404)),
    ("post", f"/bulk/{COMMAND}/again/", {}, (LOGIN, 403, 403, 404, 404)),
    ("get", "/labels/", None, READ),
    ("get", "/labels/labels.csv", None, READ),
    ("post", "/labels/chips/", {"scenario": "attack"}, SEND),
    ("post", "/labels/upload/", {"scenario": "attack"}, (LOGIN, 403, 403, 422, 422)),
    ("get", f"/labels/upload/{COMMAND}/", None, (LOGIN, 403, 403, 404, 404)),
    ("post", f"/labels/upload/{COMMAND}/apply/", {}, (LOGIN, 403, 403, 404, 404)),
    ("post", f"/labels/upload/{COMMAND}/stop/", {}, (LOGIN, 403, 403, 404, 404)),
    ("post", "/s/attack/labels/shop/", {"key": "tier", "value": "gold"}, SEND),
    ("get", "/filters/", None, READ),
    ("get", "/filters/complete/", None, READ),
    ("post", "/filters/save/", KEEP, (LOGIN, 403, 302, 302, 302)),
    ("get", "/filters/1/", None, NO_RUN),
    ("post", "/filters/1/change/", {"do": "share"}, NO_RUN),
    ("post", "/filters/1/tab/", {"do": "publish"}, ABSENT),
    ("post", "/filters/first/", {"board": ""}, (LOGIN, 403, 302, 302, 302)),
    ("get", "/job/", None, OPERATORS),
    ("get", "/views/", None, OPERATORS),
    ("get", "/views/orders/", None, OPERATORS),
    ("post", "/job/kernel/ask/", ASK, (LOGIN, 403, 403, 403, 302)),
    ("post", "/job/pipelines/report-rates/ask/", ASK, (LOGIN, 403, 403, 403, 302)),
    ("get", "/job/kernel/figures.json", None, OPERATORS),
    ("get", "/job/kernel/samples.json", None, OPERATORS),
    ("get", "/partitions/", None, OPERATORS),
    ("get", "/state-store/", None, ADMIN),
    ("post", "/state-store/", {"scenario": "none"}, UNCLEAR),
    ("get", f"/state-store/{COMMAND}/", None, ABSENT),
    ("get", f"/state-store/{COMMAND}/rows.ndjson", None, ABSENT),
    ("get", "/what-if/", None, OPERATORS),
    ("post", "/what-if/run/", {"scenario": "none"}, ABSENT),
    ("get", f"/what-if/{COMMAND}/", None, NO_WORK),
    ("post", f"/batch-queries/{COMMAND}/cancel/", {}, ABSENT),
    ("get", "/replay/", None, ADMIN),
    ("post", "/replay/start/", {}, UNCLEAR),
    ("get", "/scenarios/", None, OPERATORS),
    ("get", "/scenarios/attack/", None, OPERATORS),
    ("get", "/scenarios/attack/change/", None, ADMIN),
    ("post", "/scenarios/attack/review/", {}, ABSENT),
    ("post", "/scenarios/attack/confirm/", {}, ABSENT),
    ("get", "/dead-letters/", None, ADMIN),
    ("get", "/dead-letters/export/csv/", None, ADMIN),
    ("post", "/dead-letters/many/", {}, UNCLEAR),
    ("post", "/dead-letters/many/redrive/", {}, UNCLEAR),
    ("post", "/dead-letters/many/discard/", {}, UNCLEAR),
    ("get", "/dead-letters/many/outcomes/", None, CONFIRMED),
    ("get", "/dead-letters/1/", None, ABSENT),
    ("post", "/dead-letters/1/redrive/", {}, ABSENT),
    ("post", "/dead-letters/1/discard/", {}, ABSENT),
    ("post", "/dead-letters/1/find-out/", {}, ABSENT),
    ("get", "/users/", None, ADMIN),
    ("get", "/users/new/", None, ADMIN),
    ("post", "/users/new/", {"name": "eve", "role": "admin"}, CONFIRMED),
    ("get", "/users/roles/", None, ADMIN),
    ("get", "/users/tokens/", None, ADMIN),
    ("get", "/users/999999/", None, ABSENT),
    ("post", "/users/999999/role/", {"role": "admin"}, CONFIRMED),
    ("post", "/users/999999/deactivate/", {}, CONFIRMED),
    ("post", "/users/999999/reactivate/", {}, CONFIRMED),
    ("post", "/users/999999/password/", {}, CONFIRMED),
    ("post", "/users/999999/factor/", {}, CONFIRMED),
    ("post", "/users/999999/sessions/", {}, ABSENT),
    ("post", "/users/999999/tokens/", {}, ABSENT),
    ("get", "/account/sessions/", None, READ),
    ("post", "/account/sessions/", {}, (LOGIN, 403, 302, 302, 302)),
    ("get", "/push.js", None, ALL),
    ("get", "/account/notifications/", None, READ),
    ("post", "/account/notifications/", {}, (LOGIN, 403, 422, 422, 422)),
    ("post", "/account/notifications/mail/", {"email": ""}, (LOGIN, 403, 302, 302, 302)),
    ("post", "/account/notifications/remove/", {}, (LOGIN, 403, 302, 302, 302)),
    ("post", "/account/notifications/test/", {}, (LOGIN, 403, 302, 302, 302)),
    ("get", "/audit/", None, ADMIN),
    ("get", "/audit/audit.csv", None, ADMIN),
    ("get", "/account/tokens/", None, READ),
    ("post", "/account/tokens/", TOKEN, (LOGIN, 403, 302, 302, 302)),
    ("get", "/healthz", None, ALL),
    ("get", "/readyz", None, (503, 503, 503, 503, 503)),
    ("get", "/metrics", None, (401, 403, 200, 200, 200)),
    ("get", "/api/v1/openapi.json", None, ALL),
    ("get", "/api/v1/", None, (404, 404, 404, 404, 404)),
    # the login library's
    ("get", "/account/login/", None, (200, 302, 302, 302, 302)),
    ("post", "/account/login/", {}, (200, 302, 302, 302, 302)),
    ("get", "/account/login/code/confirm/", None, STEP),
    ("get", "/account/logout/", None, (302, 200, 200, 200, 200)),
    ("post", "/account/logout/", {}, (302, 302, 302, 302, 302)),
    ("get", "/account/inactive/", None, ALL),
    ("get", "/account/signup/", None, (200, 302, 302, 302, 302)),
    ("post", "/account/signup/", {"username": "eve"}, (200, 302, 302, 302, 302)),
    ("get", "/account/reauthenticate/", None, OWN),
    ("get", "/account/password/change/", None, OWN),
    ("post", "/account/password/change/", {}, OWN),
    ("get", "/account/2fa/", None, OWN),
    ("get", "/account/2fa/authenticate/", None, STEP),
    ("get", "/account/2fa/reauthenticate/", None, STEP),
    ("get", "/account/2fa/totp/activate/", None, STEP),
    ("post", "/account/2fa/totp/activate/", {}, STEP),
    ("get", "/account/2fa/totp/deactivate/", None, NOT_YET),
    ("get", "/account/2fa/recovery-codes/", None, NOT_YET),
    ("get", "/account/2fa/recovery-codes/generate/", None, STEP),
    ("get", "/account/2fa/recovery-codes/download/", None, NOT_YET),
    # not offered: they would need mail
    ("get", "/account/password/reset/", None, NOBODY),
    ("get", "/account/password/reset/done/", None, NOBODY),
    ("get", "/account/password/set/", None, NOBODY),
    ("get", "/account/email/", None, NOBODY),
    ("get", "/account/confirm-email/", None, NOBODY),
    ("get", "/account/confirm-email/abc/", None, NOBODY),
]

SHADOWED = {
    "account/password/reset/key/done/",
    "account/password/reset/done/",
    "account/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
    "account/^confirm-email/(?P<key>[-:\\w]+)/$",
}
"""Addresses of the login library that one of ours, not offered, stands before."""

REPORT = {"asset": "shop", "agent": "waf-1", "state": "clear"}
ALERTS = {
    "version": "4",
    "alerts": [
        {
            "status": "firing",
            "labels": {"instance": "shop", "severity": "critical"},
            "startsAt": "2025-10-09T08:53:20Z",
        }
    ],
}
PUT = {"state": "clear", "reason": "a drill"}
SEES, ACTS = (401, 403, 200, 200, 200), (401, 403, 403, 202, 202)
DOES = (401, 403, 403, 200, 200)
NOT_NOW = (401, 403, 403, 409, 409)
ADMINS = (401, 403, 403, 403, 200)
NO_PAGE = (401, 403, 403, 403, 404)
BOARD = {"scenario": "attack", "title": "EU", "filter": "team:EU"}
STATUS_PAGE = {"title": "Acme", "scenarios": ["attack"], "labels": ["customer=Acme"]}
TASK = {"do": "emit", "after": 5000, "reason": "a drill"}
LABELS = {"labels": {"tier": "gold"}}
SHOP = "scenarios/attack/assets/shop"

# method, path, JSON, the scope that a token needs, and the statuses for ROLES
API: list[tuple[str, str, Any, str, tuple[int, ...]]] = [
    ("get", "scenarios", None, "read", SEES),
    ("get", "scenarios/attack/assets", None, "read", SEES),
    ("get", SHOP, None, "read", SEES),
    ("put", SHOP, PUT, "command", ACTS),
    ("put", SHOP, PUT | {"mode": "vote"}, "command", ACTS),
    ("delete", SHOP, None, "command", ACTS),
    ("post", "scenarios/attack/release/shop", None, "command", ACTS),
    ("post", "scenarios/attack/reports", REPORT, "report", ACTS),
    ("post", "scenarios/attack/alertmanager", ALERTS, "report", ACTS),
    ("get", "schedules", None, "read", SEES),
    ("get", "orders", None, "read", SEES),
    ("get", "orders/shop", None, "read", SEES),
    ("get", "stores", None, "read", DOES),
    ("get", "invoices/today", None, "read", SEES),
    ("post", "scenarios/attack/schedule/shop", TASK, "command", ACTS),
    ("post", "scenarios/attack/cancel/shop", {"task": str(COMMAND)}, "command", ACTS),
    ("get", "scenarios/attack/labels", None, "read", SEES),
    ("put", "scenarios/attack/labels", {"items": []}, "command", DOES),
    ("get", "scenarios/attack/labels/shop", None, "read", SEES),
    ("put", "scenarios/attack/labels/shop", LABELS, "command", DOES),
    ("patch", "scenarios/attack/labels/shop", LABELS, "command", DOES),
    ("delete", "scenarios/attack/labels/shop", None, "command", DOES),
    ("get", "scenarios/attack/agents", None, "read", DOES),
    ("get", "scenarios/attack/mutes", None, "read", DOES),
    ("post", "scenarios/attack/mute/waf-1", {"reason": "a drill"}, "command", ACTS),
    ("post", "scenarios/attack/unmute/waf-1", {"reason": "a drill"}, "command", ACTS),
    ("get", "scenarios/attack/acknowledgements/shop", None, "read", SEES),
    ("post", "scenarios/attack/acknowledgements/shop", {"reason": "on it"}, "command", DOES),
    ("delete", "scenarios/attack/acknowledgements/shop", None, "command", DOES),
    ("get", "summary", None, "read", SEES),
    ("get", "summary/history", None, "read", SEES),
    ("get", "boards", None, "read", SEES),
    ("post", "boards", BOARD, "command", ADMINS),
    ("delete", f"boards/{INCIDENT}", None, "command", NO_PAGE),
    ("get", "first-board", None, "read", SEES),
    ("put", "first-board", {}, "read", SEES),
    ("get", "status-pages", None, "read", ADMINS),
    ("put", "status-pages/acme", STATUS_PAGE, "command", ADMINS),
    ("delete", "status-pages/acme", None, "command", NO_PAGE),
    ("get", "incidents", None, "read", SEES),
    ("get", "incidents/assets", None, "read", SEES),
    ("get", f"incidents/{INCIDENT}", None, "read", SEES),
    ("post", "incidents/ticket-closed", {"ticket": "SOC-7"}, "command", DOES),
    ("post", f"incidents/{INCIDENT}/acknowledge", {}, "command", DOES),
    ("put", f"incidents/{INCIDENT}/owner", {"owner": ""}, "command", DOES),
    ("post", f"incidents/{INCIDENT}/notes", {"text": "a drill"}, "command", DOES),
    ("put", f"incidents/{INCIDENT}/ticket", {"ticket": "SOC-7"}, "command", DOES),
    ("post", f"incidents/{INCIDENT}/resolve", {}, "command", DOES),
    (
        "post",
        f"incidents/{INCIDENT}/merge",
        {"into": INCIDENT},
        "command",
        (401, 403, 403, 409, 409),
    ),
    (
        "post",
        f"incidents/{INCIDENT}/split",
        {"assets": ["x"]},
        "command",
        (401, 403, 403, 409, 409),
    ),
    ("post", f"incidents/{INCIDENT}/reopen", {}, "command", DOES),
    ("get", "notifications/rules", None, "read", DOES),
    ("post", "notifications/rules", RULE | {"name": "Night"}, "command", DOES),
    ("get", f"notifications/rules/{INCIDENT}", None, "read", DOES),
    ("put", f"notifications/rules/{INCIDENT}", RULE, "command", DOES),
    ("delete", f"notifications/rules/{INCIDENT}", None, "command", DOES),
    ("get", "notifications/rotas", None, "read", DOES),
    ("get", f"notifications/rotas/{INCIDENT}", None, "read", DOES),
    ("get", "notifications/messages", None, "read", DOES),
    ("get", f"notifications/messages/{MESSAGE}", None, "read", DOES),
    ("get", "notifications/inbox", None, "read", SEES),
    ("post", "notifications/inbox/read", {"all": True}, "read", SEES),
    ("get", "maintenance", None, "read", SEES),
    ("get", f"maintenance/{INCIDENT}", None, "read", SEES),
    ("post", "maintenance", WORK, "command", DOES),
    ("post", f"maintenance/{INCIDENT}/end", None, "command", DOES),
    ("delete", f"maintenance/{INCIDENT}", None, "command", DOES),
    ("get", f"commands/{COMMAND}", None, "read", DOES),
    ("get", "partitions", None, "read", DOES),
    ("get", "job", None, "read", DOES),
    ("get", "views", None, "read", DOES),
    ("get", "views/orders", None, "read", DOES),
    ("get", "views/orders/order-1", None, "read", DOES),
]

STAY, ENDED, NO_ROLE = None, consumer.LOGIN_NEEDED, consumer.NO_ROLE
SOCKET = "/ws/board/attack/"

# path, message, and with which code the socket closes for ROLES, if it does
SOCKETS: list[tuple[str, dict[str, Any], tuple[int | None, ...]]] = [
    (SOCKET, {"type": "filter"}, (ENDED, NO_ROLE, STAY, STAY, STAY)),
    (SOCKET, {"type": "ack", "seq": 0}, (ENDED, NO_ROLE, STAY, STAY, STAY)),
    (SOCKET, {"type": "alarm", "states": ["clear"]}, (ENDED, NO_ROLE, STAY, STAY, STAY)),
    (SOCKET, {"type": "resync"}, (ENDED, NO_ROLE, STAY, STAY, STAY)),
    (SOCKET, {"type": "set", "state": "clear"}, (ENDED, NO_ROLE, 4400, 4400, 4400)),
]


@pytest.fixture
def bus(bus: Gateway, shop: None) -> Gateway:
    """Something of everything is on the pages."""
    show("orders", "shop", "picking")
    JobProgress.objects.create(query="kernel", at=now_ms(), status="running", epoch=1)
    ingest_pipeline_progress([PipelineProgress("report-rates", now_ms(), "running")])
    return bus


def known_command() -> None:
    Row.objects.create(
        id=COMMAND, scenario="attack", asset="shop", kind="set", state="clear", username="x",
        source="form", created_at=now_ms(), status="sent",
    )  # fmt: skip


# ---- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path", "form", "statuses"), PAGES)
@pytest.mark.spread(90)
def test_pages(bus, role: str, method: str, path: str, form: Any, statuses: tuple[int, ...]):
    client = Client()
    if role != "anonymous":
        client.force_login(make_user(role))
    if path.startswith("/commands/"):
        known_command()
    if "/incident" in path:
        known_incident()
    if path.startswith("/maintenance/"):
        known_window()
    if path.startswith("/notifications/"):
        known_notifications()
    people = User.objects.count()
    expected = statuses[ROLES.index(role)]
    response = getattr(client, method)(path, form)
    assert response.status_code == expected, response.content[:500]
    sends = "/command/" in path or "/schedules/cancel/" in path
    written = sends and method == "post" and role in ("operator", "admin")
    assert bool(sent(bus, "attack")) == written
    assert User.objects.count() == people
    if role == "anonymous" and any(statuses is one for one in TO_LOGIN):
        assert response["Location"].startswith("/account/login/")


def test_a_page_without_role_says_whom_to_ask(bus):
    make_user("admin")
    client = Client()
    client.force_login(make_user("none"))
    page = client.get("/account/tokens/").content.decode()
    assert "nobody has given you a role" in page
    assert "<strong><bdi>admin</bdi></strong>" in page


def test_a_manager_is_told_which_role_it_takes(bus):
    client = Client()
    client.force_login(make_user("manager"))
    page = client.post("/s/attack/command/set/shop/", FORM).content.decode()
    assert "Your role is <strong>manager</strong>" in page
    assert "<strong>operator</strong>" in page
    assert commands_sent(bus, "attack") == []


def test_no_page_of_a_manager_has_a_link_that_is_refused(bus):
    known_command()
    known_incident()
    client = Client()
    client.force_login(make_user("manager"))
    manager = ROLES.index("manager")
    open_to = [path for method, path, _, is_ in PAGES if method == "get" and is_[manager] == 200]
    links: dict[str, tuple[str, str]] = {}
    for path in open_to:
        page = b"".join(client.get(path)).decode()
        for link in map(html.unescape, re.findall(r'href="(/(?!static/)[^"#]*)', page)):
            links.setdefault(get_resolver().resolve(link.partition("?")[0]).route, (link, path))
    refused = {link: path for link, path in links.values() if client.get(link).status_code == 403}
    assert refused == {}


def test_a_fragment_moves_the_whole_page_to_the_login(bus):
    response = Client().post("/s/attack/command/set/shop/", FORM, headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert response["HX-Redirect"] == "/account/login/"
    there = {"HX-Request": "true", "HX-Current-URL": "https://board.example/?asset=a%26b"}
    response = Client().post("/s/attack/command/set/shop/", FORM, headers=there)
    assert response["HX-Redirect"] == "/account/login/?next=/%3Fasset%3Da%2526b"  # and back here


def test_an_address_that_does_not_take_a_method_says_so():
    client = Client()
    client.force_login(make_user("operator"))
    response = client.put("/bulk/review/")
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, POST")
    assert "does not accept this method" in response.content.decode()


BY_LINK = "/digests/unsubscribe/"
"""What a mail program posts to has no form: the address alone says what it may do."""
FORMS = [
    (path, form)
    for method, path, form, _ in PAGES
    if method == "post" and not path.startswith(BY_LINK)
]


@pytest.mark.parametrize(("path", "form"), FORMS)
def test_no_form_is_taken_without_its_csrf_token(bus, path: str, form: Any):
    client = Client(enforce_csrf_checks=True)
    if path not in ("/account/login/", "/account/signup/"):
        client.force_login(make_user("admin"))
    assert client.post(path, form).status_code == 403
    assert sent(bus, "attack") == []


# ---- the API ------------------------------------------------------------------------------------


def call(method: str, path: str, body: Any, headers: dict[str, str], client: Client) -> Any:
    if "commands" in path:
        known_command()
    if "incidents" in path:
        known_incident()
    if "maintenance" in path:
        known_window()
    if "notifications" in path:
        known_notifications()
    if "views" in path:
        known_view((b"order-1", b"{}"))
    if "acknowledgements" in path:
        show("attack", "shop", "suspicious", offset=2)
    return client.generic(
        method.upper(),
        f"/api/v1/{path}",
        json.dumps(body) if body is not None else "",
        content_type="application/json",
        headers=headers,
    )


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path", "body", "scope", "statuses"), API)
@pytest.mark.parametrize("by", ["token", "session"])
@pytest.mark.spread(30)
def test_api(
    bus,
    role: str,
    method: str,
    path: str,
    body: Any,
    scope: str,
    statuses: tuple[int, ...],
    by: str,
):
    client, headers = Client(), {}
    if role != "anonymous":
        user = make_user(role)
        if by == "session":
            client.force_login(user)
        else:
            headers = bearer(user)
    response = call(method, path, body, headers, client)
    assert response.status_code == statuses[ROLES.index(role)], response.content
    stores = (
        "boards",
        "first-board",
        "status-pages",
        "/labels",
        "/acknowledgements",
        "incidents/",
        "maintenance",
        "notifications",
    )  # in the database alone
    kept = any(part in path for part in stores)
    sends = method != "get" and not kept
    assert bool(sent(bus, "attack")) == (sends and role in ("operator", "admin"))
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("given", tokens.SCOPES)
@pytest.mark.parametrize(("method", "path", "body", "scope", "statuses"), API)
@pytest.mark.spread(17)
def test_a_token_does_what_it_was_made_for_and_nothing_else(
    bus, given: Any, method: str, path: str, body: Any, scope: str, statuses: Any
):
    headers = bearer(make_user("admin"), given)
    response = call(method, path, body, headers, Client())
    if given == scope:
        assert response.status_code == statuses[ROLES.index("admin")], response.content
    else:
        assert (response.status_code, response.json()["reason"]) == (403, "scope-required")
        assert f'scope="{scope}"' in response["WWW-Authenticate"]
        assert sent(bus, "attack") == []


@pytest.mark.parametrize("given", tokens.SCOPES)
def test_metrics_need_their_scope(bus, given: Any):
    response = Client().get("/metrics", headers=bearer(make_user("manager"), given))
    assert response.status_code == (200 if given == "metrics" else 403)


def test_every_action_of_a_role_is_a_scope():
    assert {action for actions in ALLOWED.values() for action in actions} == set(tokens.SCOPES)


def test_a_session_needs_its_csrf_token_to_command(bus):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    path = "/api/v1/scenarios/attack/assets/shop"
    response = client.put(path, PUT, content_type="application/json")
    assert (response.status_code, response.json()["reason"]) == (403, "csrf-failed")
    assert client.get(path).status_code == 200
    token = "a" * 32
    client.cookies[settings.CSRF_COOKIE_NAME] = token
    response = client.put(
        path, PUT, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert response.status_code == 202


def test_a_token_needs_no_csrf_token(bus):
    client = Client(enforce_csrf_checks=True)
    headers = bearer(make_user("operator"))
    path = "/api/v1/scenarios/attack/assets/shop"
    response = client.put(path, PUT, content_type="application/json", headers=headers)
    assert response.status_code == 202


def test_a_wrong_token_is_not_saved_by_a_session(bus):
    client = Client()
    client.force_login(make_user("operator"))
    for path in ("/api/v1/scenarios", "/metrics"):
        response = client.get(path, headers={"Authorization": "Bearer tb_00_00"})
        assert response.status_code == 401


def test_only_the_tokens_owner_revokes_it(bus):
    owner, other = make_user("operator"), make_user("manager")
    headers = bearer(owner)
    prefix = headers["Authorization"].split("_")[1]
    client = Client()
    for user, status in ((other, 200), (owner, 401)):
        client.force_login(user)
        client.post("/account/tokens/", {"revoke": prefix})
        assert Client().get("/api/v1/scenarios", headers=headers).status_code == status


# ---- sockets ------------------------------------------------------------------------------------


@asynccontextmanager
async def socket_of(role: str, path: str) -> Any:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    if role != "anonymous":
        session = await sync_to_async(session_of)(role)
        headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
    socket = WebsocketCommunicator(application, path, headers=headers)
    assert (await socket.connect(timeout=5))[0]
    try:
        yield socket
    finally:
        await socket.disconnect()
        await sync_to_async(threads.close)()  # nothing is read while the database is emptied


def session_of(role: str) -> str:
    browser = Client()
    browser.force_login(make_user(role))
    return browser.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def hurried() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer, "FLUSH_S", 0.01)
        patch.setattr(consumer, "BEAT_S", 0.1)
        yield


async def status(socket: WebsocketCommunicator) -> tuple[int | None, str]:
    """The code and the reason with which the socket closes; no code once it has beaten instead."""
    reason = ""
    while True:
        event = await socket.receive_output(timeout=5)
        if event["type"] == "websocket.close":
            return event["code"], reason
        message = json.loads(event["text"])
        reason = message.get("reason", reason)
        if "seq" in message:
            await socket.send_to(text_data=json.dumps({"type": "ack", "seq": message["seq"]}))
        if message["type"] == "beat":
            return None, reason


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("path", "message", "codes"), SOCKETS)
async def test_sockets(hurried, role: str, path: str, message: dict[str, Any], codes: Any):
    async with socket_of(role, path) as socket:
        await socket.send_to(text_data=json.dumps(message))
        code, reason = await status(socket)
        while code is None and codes[ROLES.index(role)] is not None:
            code, reason = await status(socket)
    assert code == codes[ROLES.index(role)], reason


# ---- nothing is left out ---------------------------------------------------------------------


def routes(patterns: list[Any], prefix: str = "") -> set[str]:
    """Every route of a resolver."""
    all_routes: set[str] = set()
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            all_routes |= routes(pattern.url_patterns, route)
        else:
            all_routes.add(route)
    return all_routes


def test_the_tables_leave_no_address_out():
    listed = [path for _, path, _, _ in PAGES] + [f"/api/v1/{path}" for _, path, *_ in API]
    resolver = get_resolver()
    tested = {resolver.resolve(path).route for path in listed}
    known = routes(resolver.url_patterns)
    assert known - tested - SHADOWED == set()
    assert known >= SHADOWED


def test_what_is_shadowed_is_not_offered():
    for path in ("password/reset/key/done/", "password/reset/key/a-b/", "confirm-email/x/"):
        assert get_resolver().resolve(f"/account/{path}").func.__name__ == "not_offered"


def test_the_tables_leave_no_operation_out():
    document = api.get_openapi_schema(path_prefix="")
    known = {
        (method, re.sub(r"\{(\w+)\}", "*", path).lstrip("/"))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert {(method, general(path)) for method, path, *_ in API} == known


def general(path: str) -> str:
    """A path of the table as the document has it."""
    path = path.replace("scenarios/attack", "scenarios/*").replace(str(COMMAND), "*")
    path = path.replace("views/orders", "views/*")
    path = path.replace(f"/{INCIDENT}/", "/*/")
    return re.sub(f"/(shop|waf-1|order-1|acme|{INCIDENT})$", "/*", path)


def test_the_tables_leave_no_socket_out():
    listed = {path.lstrip("/") for path, *_ in SOCKETS}
    assert {str(p.pattern).replace("<str:scenario>", "attack") for p in websocket_urlpatterns} == (
        listed
    )


@pytest.mark.django_db(transaction=True)
async def test_the_tables_leave_no_message_out(hurried):
    """The socket itself says which types it takes."""
    async with socket_of("manager", SOCKET) as socket:
        await socket.send_to(text_data=json.dumps({"type": "nothing"}))
        code, reason = await status(socket)
        while code is None:
            code, reason = await status(socket)
    taken = set(re.findall(r"[a-z-]+", reason.partition("expected ")[2])) - {"or"}
    assert taken == {
        message["type"] for _, message, codes in SOCKETS if codes[ROLES.index("manager")] is STAY
    }


OURS = ("dashboard.", "ninja")
METHODS = ("get", "post", "put", "patch", "delete")


@pytest.mark.parametrize("method", METHODS)
def test_no_address_of_ours_takes_a_method_that_no_table_names(bus, method: str):
    """A plain run tries one method at each address."""
    client = Client()
    client.force_login(make_user("admin"))
    listed = [(m, path) for m, path, *_ in PAGES] + [(m, f"/api/v1/{p}") for m, p, *_ in API]
    paths = sorted({path for _, path in listed})
    for path in sampled(paths, len(METHODS), METHODS.index(method)):
        if (method, path) in listed or path in NO_METHODS or path in CONFIRMED_FIRST:
            continue
        if get_resolver().resolve(path).func.__module__.startswith(OURS):
            response = getattr(client, method)(path)
            if method == "get" and ("post", path) in listed and "/api/" not in path:
                assert response.status_code == 302, path  # to the page that has the form
                continue
            assert response.status_code == 405, f"{method} {path}"
            assert response["Allow"]


CONFIRMED_FIRST = {"/account/2fa/totp/activate/"}
"""Where the login library asks for the password again before it looks at the method."""
NO_METHODS = {path for _, path, _, statuses in PAGES if statuses is NOBODY} | {
    "/api/v1/",
    "/api/v1/openapi.json",
}
"""Where nothing is, and what django-ninja answers whatever the method is."""


# ---- loading anew what a form led to -------------------------------------------------------------

POSTED = [(path, form) for method, path, form, _ in PAGES if method == "post"]
OTHERS: list[tuple[str, Any]] = [
    ("/bulk/review/", {"scenario": "attack", "asset": "shop"}),
    ("/bulk/review/", {"scenario": "attack", "begin": "1", "kind": "purge", "asset": "shop"}),
    (f"/bulk/{COMMAND}/start/", {"confirm": "3"}),
    (f"/bulk/{COMMAND}/ask/", {"do": "nothing"}),
    ("/handover/shift/text/", {"text": "x" * 100_000}),
    ("/job/kernel/ask/", {"action": "stop"}),
    ("/dead-letters/many/", {"do": "redrive", "id": "1"}),
    ("/dead-letters/many/", {"do": "discard-all", "filter": ""}),
    ("/dead-letters/many/redrive/", {"ids": "1"}),
    ("/dead-letters/many/discard/", {"ids": "1"}),
    ("/dead-letters/many/discard/", {"ids": "1", "why": "a drill"}),
    ("/dead-letters/1/discard/", {}),
    ("/dead-letters/1/redrive/", {}),
    ("/users/new/", {}),
    ("/account/password/change/", {"oldpassword": "x"}),
    ("/s/attack/note/shop/", {}),
    ("/s/attack/command/set/shop/", {}),
    ("/s/attack/command/purge/shop/", {"reason": "a drill"}),
    ("/filters/save/", {"scenario": "attack", "title": "", "q": "state:none"}),
]


@pytest.fixture
def admin(bus) -> Client:
    """An admin, with a review and a dead letter to go on with."""
    user, now = make_user("admin"), now_ms()
    client = Client()
    client.force_login(user)
    Run.objects.create(
        id=COMMAND, scenario="attack", kind="purge", reason="a drill", chosen="all", user=user,
        username="admin", created_at=now, status="review", matched=0, beyond=0, repeated=0,
    )  # fmt: skip
    DeadLetter.objects.create(
        pk=1, topic="attack.reports", partition=0, offset=1, reason="not-json", appended_at=now,
        size=1, dead_partition=0, dead_offset=1, last_dead_offset=1, noted_at=now, key=b"shop",
        value=b"{", asset="shop",
    )  # fmt: skip
    return client


def test_what_a_form_was_answered_with_can_be_loaded_anew(admin):
    """Its own address, and each that a part of it renews itself from."""
    user = User.objects.get(username="admin")
    for path, form in [*sampled(POSTED, 3), *OTHERS]:
        admin.force_login(user)
        cache.clear()  # no limit is reached
        answered = admin.post(path, form)
        addresses = {path}
        if answered.status_code == 302:
            addresses.add(answered["Location"])
        elif answered.status_code != 404 and answered.content.startswith(b"<!DOCTYPE"):
            page = answered.content.decode()
            attributes = re.findall(r'data-(reload|refresh)="([^"]*)"', page)
            assert "reload" in dict(attributes), path
            addresses |= {html.unescape(address) for _, address in attributes}
        for address in addresses:
            status = admin.get(address, follow=True).status_code
            assert status == 200 or (status == 404 and answered.status_code in (302, 404)), address


@pytest.mark.parametrize(
    ("path", "form", "says"),
    [
        (*OTHERS[0], '<textarea name="names"'),
        (*OTHERS[6], "Redrive 0 of 1?"),
        (*OTHERS[7], "Discard 1"),
        (*OTHERS[10], "1 discarded"),
    ],
)
def test_a_page_between_two_forms_is_the_same_when_it_is_loaded_anew(
    admin, path: str, form: Any, says: str
):
    first = admin.post(path, form, follow=True)
    (at, status) = first.redirect_chain[-1]
    assert status == 302
    pages = [without_secrets(admin.get(at).content.decode()) for _ in range(2)]
    assert pages[0] == pages[1] == without_secrets(first.content.decode())
    assert says in pages[0]


def without_secrets(page: str) -> str:
    page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", page)
    return re.sub(r'(data-now|name="id" value|datetime|title|name="seen" value)="[^"]*"', "", page)


def test_the_names_that_a_board_chose_are_in_the_form(admin):
    show("attack", "other", "clear")
    form = {"scenario": "attack", "asset": ["shop", "other"], "begin": "1", "kind": "set"}
    page = admin.post("/bulk/review/", form, follow=True).content.decode()
    assert re.search(r"<textarea[^>]*>\s*shop\nother</textarea>", page)


def test_a_draft_is_seen_by_its_own_user_alone_and_the_newest_are_kept(admin):
    form = {"scenario": "attack", "asset": "secret-shop"}
    at = admin.post("/bulk/review/", form)["Location"]
    assert "secret-shop" in admin.get(at).content.decode()
    other = Client()
    other.force_login(make_user("operator"))
    assert "secret-shop" not in other.get(at).content.decode()
    for _ in range(DRAFTS_KEPT + 2):
        admin.post("/bulk/review/", form)
    assert Draft.objects.count() == DRAFTS_KEPT
    assert "secret-shop" not in admin.get(at).content.decode()
    assert admin.get("/bulk/?draft=nonsense").status_code == 200
