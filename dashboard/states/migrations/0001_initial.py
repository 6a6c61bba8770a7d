"""The tables, and an index of assets by parts of their names.

The index is of trigrams, in SQLite's FTS5 or PostgreSQL's pg_trgm. A database that offers neither does
without. SQLite's triggers are gone once a later migration makes the table anew: that one has to run
`make_name_parts` again.
"""

import logging

from django.db import DatabaseError, migrations, models, transaction

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
DROP = {
    "sqlite": (
        "DROP TRIGGER IF EXISTS board_nameparts_added",
        "DROP TRIGGER IF EXISTS board_nameparts_gone",
        "DROP TABLE IF EXISTS board_nameparts",
    ),
    "postgresql": ("DROP INDEX IF EXISTS board_nameparts",),
}


def make_name_parts(apps, schema_editor):
    connection = schema_editor.connection
    try:
        with transaction.atomic(connection.alias):
            execute(connection, MAKE.get(connection.vendor, ()))
    except DatabaseError as error:
        logging.getLogger(__name__).warning(
            "no index of names by their parts, text filters will walk the board: %s", error
        )


def drop_name_parts(apps, schema_editor):
    execute(schema_editor.connection, DROP.get(schema_editor.connection.vendor, ()))


def execute(connection, statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Answer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("command", models.CharField(max_length=36, unique=True)),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("outcome", models.CharField(max_length=200)),
                ("version", models.CharField(max_length=40)),
                ("at", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="answer_age")],
            },
        ),
        migrations.CreateModel(
            name="AssetState",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("partition", models.IntegerField()),
                ("state", models.CharField(max_length=64)),
                ("severity", models.IntegerField()),
                ("rank", models.IntegerField(null=True)),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("since", models.BigIntegerField()),
                ("unconfirmed", models.BooleanField(default=False)),
                ("unconfirmed_reason", models.CharField(max_length=200, null=True)),
                ("disputed", models.CharField(max_length=64, null=True)),
                ("silent", models.IntegerField(null=True)),
                ("version", models.CharField(max_length=40)),
                ("changed_at", models.BigIntegerField()),
                ("cause_type", models.CharField(max_length=20)),
                ("reported_at", models.BigIntegerField(null=True)),
                ("overridden", models.BooleanField(default=False)),
                ("override_since", models.BigIntegerField(null=True)),
                ("override_until", models.BigIntegerField(null=True)),
                ("override_user", models.CharField(max_length=255, null=True)),
                ("pending_due", models.BigIntegerField(null=True)),
                ("record", models.TextField()),
                ("purged", models.BooleanField(default=False)),
                ("purged_at", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("purged", False)),
                        fields=["scenario", "rank", "-since", "asset", "state"],
                        name="board_order",
                    ),
                    models.Index(
                        condition=models.Q(("purged", True)),
                        fields=["purged_at"],
                        name="purged_rows",
                    ),
                    models.Index(
                        condition=models.Q(("overridden", True)),
                        fields=["scenario", "override_until", "override_since"],
                        name="overrides",
                    ),
                    models.Index(
                        condition=models.Q(("purged", False), ("reported_at__isnull", False)),
                        fields=["scenario", "reported_at"],
                        name="last_reports",
                    ),
                    models.Index(
                        condition=models.Q(("purged", False), ("reported_at__isnull", True)),
                        fields=["scenario", "changed_at"],
                        name="voteless",
                    ),
                    models.Index(
                        condition=models.Q(("disputed__isnull", False), ("purged", False)),
                        fields=["scenario"],
                        name="disputed_rows",
                    ),
                    models.Index(
                        condition=models.Q(("purged", False), ("unconfirmed", True)),
                        fields=["scenario"],
                        name="unconfirmed_rows",
                    ),
                    models.Index(
                        condition=models.Q(("purged", False), ("silent__isnull", False)),
                        fields=["scenario"],
                        name="silent_rows",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "asset"), name="one_row_per_asset")
                ],
            },
        ),
        migrations.CreateModel(
            name="DoubtCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("doubt", models.CharField(max_length=20)),
                ("n", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "doubt"), name="one_count_per_doubt"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StateCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("state", models.CharField(max_length=64)),
                ("n", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "state"), name="one_count_per_state"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Transition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("kind", models.CharField(db_default="change", default="change", max_length=20)),
                ("version", models.CharField(max_length=40)),
                ("place", models.CharField(max_length=33)),
                ("at", models.BigIntegerField()),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("state", models.CharField(blank=True, max_length=64)),
                ("cause_type", models.CharField(max_length=20)),
                ("cause", models.TextField()),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="transition_age")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_transition_per_place"
                    )
                ],
            },
        ),
        migrations.RunPython(make_name_parts, drop_name_parts),
    ]
