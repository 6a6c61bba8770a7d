"""Topics as tables: how they are declared, their keys and values."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import re2
from django.conf import settings

from dashboard.operate.dead_letters.diagnosis import runs
from domain.config_values import ConfigTable, PlainError, read_toml

# ---- expressions ---------------------------------------------------------------------------------
# Regular expressions of keys, which people type: none takes longer than in proportion to the key.
#
# RE2 goes through a key once, whatever the expression. Python's `re` goes back and tries again, so
# that one such as `(a+)+b` could hold up a web process for hours; so do Java's, which Spark has,
# and SQLite has none of its own.

MAX_EXPRESSION = 255
"""Longest expression, characters."""
MAX_PROGRAM = 2_000
"""Most steps of one as RE2 compiles it: of short texts, repetitions make it long."""
MAX_MEMORY = 1 << 20
"""What RE2 may take for one, bytes."""


class BadExpression(ValueError):
    """A text that is no expression that is taken; the message says why."""


def expression(text: str) -> Callable[[bytes], bool]:
    """Return a function that says whether a whole key matches a regular expression.

    Raises BadExpression.
    """
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = MAX_MEMORY, True, False
    if len(text) > MAX_EXPRESSION:
        raise BadExpression(f"at most {MAX_EXPRESSION} characters")
    try:
        compiled = re2.compile(text.encode(), options=options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "it cannot be read"
        raise BadExpression(f"a regular expression as RE2 has them: {why}") from None
    except UnicodeEncodeError:
        raise BadExpression("a text in UTF-8") from None
    if compiled.programsize > MAX_PROGRAM:
        raise BadExpression(
            f"an expression of at most {MAX_PROGRAM:,} steps, it has {compiled.programsize:,}: use "
            "fewer repetitions"
        )
    fullmatch = compiled.fullmatch
    return lambda key: fullmatch(key) is not None


# ---- values --------------------------------------------------------------------------------------
# Keys and values as programs and people get them, whatever bytes they are.

Form = Literal["json", "text", "base64"]

_EMPTY = {b"", b"null", b'""', b"{}", b"[]"}
_LONGEST_EMPTY = 64


class ShownValue(NamedTuple):
    """A value for a program. form: JSON as it is, text, or bytes in Base64."""

    form: Form
    value: Any


def shown(data: bytes) -> ShownValue:
    """Return bytes as JSON where they are some that every reader takes, else as text, else in
    Base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ShownValue("base64", b64encode(data).decode())
    try:
        return ShownValue("json", json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except (ValueError, RecursionError):
        return ShownValue("text", text)


def printed(data: bytes) -> str:
    """Return bytes on one line: what is no text or not seen comes with its number."""
    return "".join(run.text for run in runs(data)).replace("\n", "\\n").replace("\t", "\\t")


def is_empty(data: bytes) -> bool:
    """Return whether a value says nothing: no bytes, or JSON's null, "", {} or []."""
    return len(data) <= _LONGEST_EMPTY and b"".join(data.split()) in _EMPTY


def matcher(pattern: str) -> Callable[[bytes], bool]:
    """Return a function that says whether a whole key matches a pattern, as file names have them:
    `*`, `?`, `[ab]`."""
    match = re.compile(translate(pattern)).match
    return lambda key: bool(match(key.decode(errors="surrogateescape")))


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number that no reader takes")
    return number


# ---- declaration ---------------------------------------------------------------------------------
# Views as `views.toml` declares them, checked as it is read.

DEFAULT = Path("views.toml")
MOST_VIEWS = 20
"""More views than this are refused: each web process keeps a copy of each."""
MAX_RECORDS = 200_000
MAX_BYTES = 128 << 20
ANY = "*"
"""The pattern of every key."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


class ViewError(ValueError):
    """A file of views that declares none, in words: file, key and what was expected."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """A named table of a topic. max_records, max_bytes: what a copy of it may hold, no more; keys:
    a pattern that keys have to match; matches: a regular expression that they have to match, empty
    for none; drops_empty: whether a record with an empty value deletes the row of its key, as one
    without a value does."""

    name: str
    topic: str
    title: str
    max_records: int = MAX_RECORDS
    max_bytes: int = MAX_BYTES
    keys: str = ANY
    matches: str = ""
    drops_empty: bool = False


@lru_cache(maxsize=1)
def declared_views() -> dict[str, TopicView]:
    """Return this copy's views by name, in the file's order; none where no file is named and there
    is none of the usual name. Raises ViewError."""
    tallyboard = settings.TALLYBOARD
    path = tallyboard.views or DEFAULT.absolute()
    if tallyboard.views is None and not path.exists():
        return {}
    return load_views(path, tallyboard.topic_prefix)


def load_views(path: Path, prefix: str = "") -> dict[str, TopicView]:
    """Return the views that a file declares, by name. prefix: of the topics' names.

    Raises ViewError, which names the file, the key and what was expected.
    """
    data = read_toml(path, ViewError)
    if len(data) > MOST_VIEWS:
        raise ViewError(f"{path}: expected at most {MOST_VIEWS} views, got {len(data)}")
    try:
        return {
            name: _view(name, ConfigTable(content, name), prefix) for name, content in data.items()
        }
    except PlainError as error:
        raise ViewError(f"{path}: {error}") from None


def _view(name: str, table: ConfigTable, prefix: str) -> TopicView:
    if not _NAME.match(name):
        raise PlainError(name, "a name of a-z, 0-9 and -, at most 40, a letter first", name)
    topic = table.text("topic")
    if not _TOPIC.match(topic):
        raise PlainError(f"{name}.topic", "a topic's name: letters, digits, '.', '_', '-'", topic)
    view = TopicView(
        name=name,
        topic=prefix + topic,
        title=table.text("title", name),
        max_records=table.integer("max_records", MAX_RECORDS, 1, 10_000_000),
        max_bytes=table.integer("max_bytes", MAX_BYTES, 1 << 10, 16 << 30),
        keys=table.text("keys", ANY),
        matches=_expression(table),
        drops_empty=table.choice("empty", ("keep", "drop"), "keep") == "drop",
    )
    table.no_more()
    return view


def _expression(table: ConfigTable) -> str:
    if table.get("matches") is None:
        return ""
    text = table.text("matches")
    try:
        expression(text)
    except BadExpression as error:
        raise PlainError(f"{table.path}.matches", str(error), text) from None
    return text
