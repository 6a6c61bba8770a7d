"""What is read together is of one moment, and reading waits for nobody."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.backends.sqlite3.base import DatabaseWrapper

from dashboard.core.states.models import SinkOffset
from dashboard.core.states.queries import consistent, sink_offsets

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> Iterator[Path]:
    """A database in a file, as it runs: the tests' own in memory knows no second process."""
    before, path = connections["default"], tmp_path / "database"
    own = DatabaseWrapper({**before.settings_dict, "NAME": str(path)}, "default")
    assert own.settings_dict["OPTIONS"] == settings.DATABASES["default"]["OPTIONS"]
    connections["default"] = own
    with own.schema_editor() as editor:
        editor.create_model(SinkOffset)
    yield path
    own.close()
    connections["default"] = before


@pytest.fixture
def writer(database: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection to the same database."""
    other = sqlite3.connect(database, isolation_level=None, timeout=0.2)
    yield other
    other.close()


def set_offset(writer: sqlite3.Connection, offset: int) -> None:
    writer.execute(
        "INSERT INTO states_sinkoffset (topic, partition, next_offset) VALUES ('t', 0, ?) "
        "ON CONFLICT (topic, partition) DO UPDATE SET next_offset = excluded.next_offset",
        (offset,),
    )


def test_a_reader_sees_one_moment_while_others_write(writer):
    set_offset(writer, 1)
    with consistent():
        before = sink_offsets()
        set_offset(writer, 2)
        assert sink_offsets() == before == {("t", 0): 1}
    assert sink_offsets() == {("t", 0): 2}


def test_a_reader_does_not_wait_for_a_writer(writer):
    set_offset(writer, 1)
    writer.execute("BEGIN IMMEDIATE")
    set_offset(writer, 2)
    with consistent():
        assert sink_offsets() == {("t", 0): 1}
    writer.execute("COMMIT")
    assert sink_offsets() == {("t", 0): 2}


def test_after_a_fault_the_connection_is_as_before():
    with pytest.raises(ZeroDivisionError), consistent():
        raise ZeroDivisionError
    SinkOffset.objects.create(topic="t", partition=0, next_offset=5)
    assert sink_offsets() == {("t", 0): 5}
    assert not connection.in_atomic_block
