"""When an agent last reported on an asset, for the list of stale ones."""

from django.db import migrations, models

FILL = {
    "sqlite": """\
UPDATE board_assetstate SET reported_at = (
    SELECT MAX(json_extract(value, '$.time')) FROM json_each(record, '$.votes')
    WHERE substr(json_extract(value, '$.agent'), 1, 5) <> 'user:'
) WHERE NOT purged""",
    "postgresql": """\
UPDATE board_assetstate SET reported_at = (
    SELECT MAX((vote ->> 'time')::bigint) FROM json_array_elements(record::json -> 'votes') vote
    WHERE substr(vote ->> 'agent', 1, 5) <> 'user:'
) WHERE NOT purged""",
}


def fill(_apps, schema_editor):
    schema_editor.execute(FILL[schema_editor.connection.vendor])


class Migration(migrations.Migration):
    dependencies = [("board", "0007_override_columns")]
    # A column that may be empty is added without making the table anew, with its triggers.
    operations = [
        migrations.AddField("assetstate", "reported_at", models.BigIntegerField(null=True)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario", "reported_at"],
                condition=models.Q(purged=False, reported_at__isnull=False),
                name="last_reports",
            ),
        ),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario", "changed_at"],
                condition=models.Q(purged=False, reported_at__isnull=True),
                name="voteless",
            ),
        ),
    ]
