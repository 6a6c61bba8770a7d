"""Of an override: since when, until when and whose it is, for the list of them all."""

import json

from django.db import migrations, models


def fill(apps, schema_editor):
    rows = apps.get_model("board", "AssetState").objects.using(schema_editor.connection.alias)
    for row in rows.filter(overridden=True).iterator(1000):
        override = json.loads(row.record)["override"]
        row.override_since, row.override_until = override["since"], override["until"]
        row.override_user = override["user"]
        row.save(update_fields=["override_since", "override_until", "override_user"])


class Migration(migrations.Migration):
    dependencies = [("board", "0006_transition_kind")]
    # Columns that may be empty are added without making the table anew, with its triggers.
    operations = [
        migrations.AddField("assetstate", "override_since", models.BigIntegerField(null=True)),
        migrations.AddField("assetstate", "override_until", models.BigIntegerField(null=True)),
        migrations.AddField(
            "assetstate", "override_user", models.CharField(max_length=255, null=True)
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario", "override_until", "override_since"],
                condition=models.Q(overridden=True),
                name="overrides",
            ),
        ),
    ]
