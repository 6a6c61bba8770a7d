"""The web process's log of what clients do, sent to the topic `app-logs`."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from agents.log_handler import KafkaHandler
from config.logs import REQUESTS, SECURITY
from dashboard.core.scenarios import topics


def start() -> None:
    """Send the records of clients to Kafka from here on, if the settings want that."""
    if not settings.TALLYBOARD.app_logs:
        return
    kafka: dict[str, Any] = settings.TALLYBOARD.kafka_options()
    handler = KafkaHandler(
        topics().app_logs,
        fields={"app_name": "tallyboard", "app_version": _version()},
        key="client",
        **kafka,
    )
    for name in (REQUESTS, SECURITY):
        logging.getLogger(name).addHandler(handler)


def stop() -> None:
    """Send what is left, and no more."""
    if handler := _handler():
        for name in (REQUESTS, SECURITY):
            logging.getLogger(name).removeHandler(handler)
        handler.close()


def outcomes() -> Iterable[tuple[tuple[str], int]]:
    """Return how many records became what: delivered, unconfirmed, or dropped for a reason."""
    if handler := _handler():
        known = {"delivered": handler.delivered, "unconfirmed": handler.unconfirmed}
        for outcome, n in {**known, **handler.dropped}.items():
            yield (outcome,), n


def _handler() -> KafkaHandler | None:
    handlers = logging.getLogger(SECURITY).handlers
    return next((each for each in handlers if isinstance(each, KafkaHandler)), None)


def _version() -> str:
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
    return str(project["version"])
