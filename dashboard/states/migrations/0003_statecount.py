"""Counts by state are kept, not taken; the board's order and the purged rows have smaller indexes."""

from django.db import migrations, models


def fill(apps, schema_editor):
    alias = schema_editor.connection.alias
    counts = apps.get_model("board", "StateCount").objects.using(alias)
    rows = apps.get_model("board", "AssetState").objects.using(alias).filter(purged=False)
    for found in rows.values("scenario", "state").annotate(n=models.Count("id")).order_by():
        counts.create(**found)


class Migration(migrations.Migration):
    dependencies = [("board", "0002_transition_place")]
    operations = [
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
        migrations.RemoveIndex("assetstate", "board_order"),
        migrations.RemoveIndex("assetstate", "purged_rows"),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario", "severity", "-since", "asset", "state"],
                condition=models.Q(purged=False),
                name="board_order",
            ),
        ),
        migrations.AddIndex(
            "assetstate",
            models.Index(fields=["purged_at"], condition=models.Q(purged=True), name="purged_rows"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
