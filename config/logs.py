"""Write logs as lines of key=value to standard output, with time, level and event."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor

SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
)
# Loggers for clients' actions: their logins and refused attempts, and their requests.
SECURITY, REQUESTS = "tallyboard.security", "tallyboard.requests"
KEYS = ("time", "level", "logger", "event")
QUIET = ("py4j", "daphne", "twisted", "httpx", "httpcore", "asyncio", "celery.utils")


def configure_logs(level: str, process: str) -> None:
    """Send structlog's and the standard library's records to standard output, one line each.

    level: debug, info, warning or error; process: the name of this process, added to each line.
    Each entry point calls this once.
    """
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_formatter(process))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.getLogger("django.request").addFilter(_not_just_unready)
    logging.getLogger(REQUESTS).propagate = False  # their lines would bury all others


def _not_just_unready(record: logging.LogRecord) -> bool:
    """Return whether a request deserves a line: readiness probes come twice a second."""
    return getattr(record, "status_code", None) != 503


def _formatter(process: str) -> logging.Formatter:
    def name_process(_logger: object, _method: str, event: EventDict) -> EventDict:
        event.setdefault("process", process)  # a thread starts with empty context variables
        return event

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            name_process,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=KEYS, drop_missing=True),
        ],
    )
