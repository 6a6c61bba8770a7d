"""A record of the standard `logging` as JSON, as stored in a topic of logs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# Largest value, bytes; anything longer is cut.
MOST_BYTES = 64 << 10
# Length to which each text of an oversized record is cut, characters.
SHORT = 4_000
# The attributes that every record has; `extra` adds others.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
CORE = ("time", "level", "logger", "message", "exception", "stack", "truncated")
# Keys of structlog's event dict that repeat attributes of the record.
_STRUCTLOG = frozenset(("event", "exc_info", "stack_info", *CORE))
_FORMATTER = logging.Formatter()


class Encoded(NamedTuple):
    """A record's value. cut: whether something had to be left out."""

    value: bytes
    cut: bool


def encode(record: logging.LogRecord, fields: Mapping[str, Any]) -> Encoded:
    """Return a record as JSON of at most MOST_BYTES.

    It has time (Unix ms), level, logger and message, then `fields`, then the record's `extra`, and
    exception and stack if present. Values that JSON cannot represent are replaced by their `repr`.
    An `extra` with the name of another field is called `extra_NAME`.
    """
    extra = dict(_extra(record))
    core = {
        "time": int(record.created * 1000),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _message(record),
        **fields,
        **_traces(record),
    }
    plain = core | {f"extra_{name}" if name in core else name: extra[name] for name in extra}
    value = _json(plain)
    if len(value) <= MOST_BYTES:
        return Encoded(value, cut=False)
    return Encoded(_shortened(plain, core), cut=True)


def check_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of every record as a dict. Raises ValueError for invalid ones."""
    taken = sorted(set(fields) & set(CORE))
    if taken:
        raise ValueError(f"fields: expected other names than {', '.join(taken)}")
    try:
        size = len(json.dumps(dict(fields), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"fields: expected what JSON can say: {error}") from None
    if size > SHORT:
        raise ValueError(f"fields: expected {SHORT} characters or fewer, got {size}")
    return dict(fields)


def _message(record: logging.LogRecord) -> str:
    if isinstance(record.msg, Mapping) and "event" in record.msg:  # structlog's
        return str(record.msg["event"])
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit their format, or cannot be shown
        text = record.msg if isinstance(record.msg, str) else _described(record.msg)
        return f"{text} {_described(record.args)}"


def _extra(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name, value in vars(record).items():
        if name not in _STANDARD and not name.startswith("_"):
            yield name, value
    if isinstance(record.msg, Mapping) and "event" in record.msg:
        for name, value in record.msg.items():
            if name not in _STRUCTLOG:
                yield str(name), value


def _traces(record: logging.LogRecord) -> dict[str, str]:
    traces = {}
    if text := record.exc_text or _exception(record):
        traces["exception"] = text
    if record.stack_info:
        traces["stack"] = record.stack_info
    return traces


def _exception(record: logging.LogRecord) -> str | None:
    """Return the traceback; structlog passes the exception within the message."""
    info: Any = record.exc_info
    if not info and isinstance(record.msg, Mapping):
        info = record.msg.get("exc_info")
    if isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    elif info and not isinstance(info, tuple):
        info = sys.exc_info()
    return _FORMATTER.formatException(info) if info and info[0] else None


def _json(plain: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        each = {name: _sayable(value) for name, value in plain.items()}
        text = json.dumps(each, ensure_ascii=False)
    return text.encode("utf-8", "replace")  # half of a surrogate pair cannot be encoded


def _sayable(value: Any) -> Any:
    """Return the value, or its description if JSON cannot represent it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _described(value)
    return value


def _described(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a program's own __repr__ may raise anything
        return f"<{type(value).__name__}>"


def _shortened(plain: Mapping[str, Any], core: Mapping[str, Any]) -> bytes:
    """Return the record with its texts cut, and without its extra if that is not enough."""
    for kept in (plain, core):
        short = {name: _cut(value) for name, value in kept.items()} | {"truncated": True}
        if len(value := _json(short)) <= MOST_BYTES:
            return value
    raise AssertionError("a core of short texts is small")


def _cut(value: Any) -> Any:
    if isinstance(value, int | float | None):
        return value
    text = value if isinstance(value, str) else _json({"": value}).decode()[5:-1]
    return value if len(text) <= SHORT else f"{text[:SHORT]}… ({len(text)} characters)"
