"""The tables, an index of assets by parts of their names, and free space in PostgreSQL's pages.

The index is one of trigrams, in SQLite's FTS5 or PostgreSQL's pg_trgm. A database with neither has
no such index. A later migration that rebuilds the table on SQLite drops the triggers, so it must
run `make_name_parts` again.

If an update changes no indexed column and the row's page has free space, PostgreSQL keeps the new
version of the row in that page and does not touch the indexes.
"""

import logging

from django.db import DatabaseError, migrations, models, transaction

MAKE = {
    "sqlite": (
        "CREATE VIRTUAL TABLE states_nameparts USING fts5(asset, content='states_assetstate',"
        " content_rowid='id', tokenize='trigram', detail='none', columnsize=0)",
        "CREATE TRIGGER states_nameparts_added AFTER INSERT ON states_assetstate BEGIN"
        " INSERT INTO states_nameparts(rowid, asset) VALUES (new.id, new.asset); END",
        "CREATE TRIGGER states_nameparts_gone AFTER DELETE ON states_assetstate BEGIN"
        " INSERT INTO states_nameparts(states_nameparts, rowid, asset)"
        " VALUES ('delete', old.id, old.asset); END",
        "INSERT INTO states_nameparts(states_nameparts) VALUES ('rebuild')",
    ),
    "postgresql": (
        "CREATE EXTENSION IF NOT EXISTS pg_trgm",
        "CREATE INDEX states_nameparts ON states_assetstate USING gin (UPPER(asset) gin_trgm_ops)",
    ),
}
DROP = {
    "sqlite": (
        "DROP TRIGGER IF EXISTS states_nameparts_added",
        "DROP TRIGGER IF EXISTS states_nameparts_gone",
        "DROP TABLE IF EXISTS states_nameparts",
    ),
    "postgresql": ("DROP INDEX IF EXISTS states_nameparts",),
}
ROOM = {
    "postgresql": (
        "ALTER TABLE states_assetstate SET (fillfactor = 60)",
        "ALTER TABLE states_assetstate RESET (fillfactor)",
    )
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


def leave_room(apps, schema_editor):
    set_room(schema_editor, 0)


def leave_none(apps, schema_editor):
    set_room(schema_editor, 1)


def set_room(schema_editor, way):
    if (statements := ROOM.get(schema_editor.connection.vendor)) is not None:
        schema_editor.execute(statements[way])


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="LogBound",
            fields=[
                ("bucket", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("epoch", models.IntegerField()),
                ("pairs", models.TextField()),
                ("asides", models.TextField(db_default="[]", default="[]")),
            ],
        ),
        migrations.CreateModel(
            name="NameRun",
            fields=[
                ("run", models.CharField(max_length=2, primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="Answer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("command", models.CharField(max_length=36, unique=True)),
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
                ("doubt", models.IntegerField(null=True)),
                ("version", models.CharField(max_length=40)),
                ("changed_at", models.BigIntegerField()),
                ("cause_type", models.CharField(max_length=20)),
                ("reported_at", models.BigIntegerField(null=True)),
                ("reported_in", models.IntegerField(null=True)),
                ("voteless_in", models.IntegerField(null=True)),
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
                        condition=models.Q(("purged", False), ("reported_in__isnull", False)),
                        fields=["scenario", "reported_in", "id"],
                        name="last_reports",
                    ),
                    models.Index(
                        condition=models.Q(("purged", False), ("voteless_in__isnull", False)),
                        fields=["scenario", "voteless_in", "id"],
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
                    models.Index(
                        condition=models.Q(("doubt__isnull", False), ("purged", False)),
                        fields=["scenario"],
                        name="doubt_rows",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "asset"), name="one_row_per_asset")
                ],
            },
        ),
        migrations.CreateModel(
            name="Divergence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("version", models.CharField(max_length=40)),
                ("kept", models.TextField()),
                ("other", models.TextField()),
                ("found_at", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "version"), name="one_divergence_per_version"
                    )
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
            name="EventCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("topic", models.CharField(blank=True, max_length=249)),
                ("n", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("name", "topic"), name="one_count_per_name_and_topic"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="FoldSnapshot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("partition", models.IntegerField()),
                ("next_offset", models.BigIntegerField()),
                ("clock", models.BigIntegerField()),
                ("taken_at", models.BigIntegerField()),
                ("file", models.CharField(max_length=255)),
                ("assets", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("bounds", models.TextField(db_default="[]", default="[]")),
                ("asides", models.TextField(db_default="[]", default="[]")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "partition", "next_offset"),
                        name="one_snapshot_per_offset",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SinkOffset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic", models.CharField(max_length=249)),
                ("partition", models.IntegerField()),
                ("next_offset", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic", "partition"), name="one_offset_per_partition"
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
                ("unconfirmed", models.BooleanField(null=True)),
                ("cause_type", models.CharField(max_length=20)),
                ("cause", models.TextField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["scenario", "at"], name="transitions_by_age"),
                    models.Index(fields=["at", "id"], name="transitions_newest"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_transition_per_place"
                    )
                ],
            },
        ),
        migrations.RunPython(leave_room, leave_none),
        migrations.RunPython(make_name_parts, drop_name_parts),
    ]
