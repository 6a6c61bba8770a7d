"""Views as `views.toml` declares them, checked as it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from dashboard.topic_views.expressions import BadExpression, expression
from domain.config_values import PlainError, Table, read_toml

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
class View:
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
def declared_views() -> dict[str, View]:
    """Return this copy's views by name, in the file's order; none where no file is named and there
    is none of the usual name. Raises ViewError."""
    tallyboard = settings.TALLYBOARD
    path = tallyboard.views or DEFAULT.absolute()
    if tallyboard.views is None and not path.exists():
        return {}
    return load_views(path, tallyboard.topic_prefix)


def load_views(path: Path, prefix: str = "") -> dict[str, View]:
    """Return the views that a file declares, by name. prefix: of the topics' names.

    Raises ViewError, which names the file, the key and what was expected.
    """
    data = read_toml(path, ViewError)
    if len(data) > MOST_VIEWS:
        raise ViewError(f"{path}: expected at most {MOST_VIEWS} views, got {len(data)}")
    try:
        return {name: _view(name, Table(content, name), prefix) for name, content in data.items()}
    except PlainError as error:
        raise ViewError(f"{path}: {error}") from None


def _view(name: str, table: Table, prefix: str) -> View:
    if not _NAME.match(name):
        raise PlainError(name, "a name of a-z, 0-9 and -, at most 40, a letter first", name)
    topic = table.text("topic")
    if not _TOPIC.match(topic):
        raise PlainError(f"{name}.topic", "a topic's name: letters, digits, '.', '_', '-'", topic)
    view = View(
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


def _expression(table: Table) -> str:
    if table.get("matches") is None:
        return ""
    text = table.text("matches")
    try:
        expression(text)
    except BadExpression as error:
        raise PlainError(f"{table.path}.matches", str(error), text) from None
    return text
