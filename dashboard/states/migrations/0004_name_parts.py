"""Assets by parts of their names: trigrams, in SQLite's FTS5 or PostgreSQL's pg_trgm.

A database that offers neither does without. SQLite's triggers are gone once a later migration makes
the table anew: that one has to run `make` again.
"""

import logging

from django.db import DatabaseError, migrations, transaction

MAKE = {
    "sqlite": (
        "CREATE VIRTUAL TABLE board_nameparts USING fts5(asset, content='board_assetstate',"
        " content_rowid='id', tokenize='trigram', detail='none', columnsize=0)",
        "CREATE TRIGGER board_nameparts_added AFTER INSERT ON board_assetstate BEGIN"
        " INSERT INTO board_nameparts(rowid, asset) VALUES (new.id, new.asset); END",
        "CREATE TRIGGER board_nameparts_gone AFTER DELETE ON board_assetstate BEGIN"
        " INSERT INTO board_nameparts(board_nameparts, rowid, asset)"
        " VALUES ('delete', old.id, old.asset); END",
        "INSERT INTO board_nameparts(board_nameparts) VALUES ('rebuild')",
    ),
    "postgresql": (
        "CREATE EXTENSION IF NOT EXISTS pg_trgm",
        "CREATE INDEX board_nameparts ON board_assetstate USING gin (UPPER(asset) gin_trgm_ops)",
    ),
}
AWAY = {
    "sqlite": (
        "DROP TRIGGER IF EXISTS board_nameparts_added",
        "DROP TRIGGER IF EXISTS board_nameparts_gone",
        "DROP TABLE IF EXISTS board_nameparts",
    ),
    "postgresql": ("DROP INDEX IF EXISTS board_nameparts",),
}


def make(apps, schema_editor):
    connection = schema_editor.connection
    try:
        with transaction.atomic(connection.alias):
            run(connection, MAKE.get(connection.vendor, ()))
    except DatabaseError as error:
        logging.getLogger(__name__).warning(
            "no index of names by their parts, text filters will walk the board: %s", error
        )


def away(apps, schema_editor):
    run(schema_editor.connection, AWAY.get(schema_editor.connection.vendor, ()))


def run(connection, statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("board", "0003_statecount")]
    operations = [migrations.RunPython(make, away)]
