"""Of what a row is doubted, counts of it, and a rank: a disputed row stands above its equals.

Records that were told before this name no such thing, but that a state is unconfirmed.
"""

from django.db import migrations, models


def fill(apps, schema_editor):
    alias = schema_editor.connection.alias
    rows = apps.get_model("board", "AssetState").objects.using(alias).filter(purged=False)
    rows.update(rank=models.F("severity") * 2 + 1)
    counts = apps.get_model("board", "DoubtCount").objects.using(alias)
    unconfirmed = rows.filter(unconfirmed=True).values("scenario")
    for found in unconfirmed.annotate(n=models.Count("id")).order_by():
        counts.create(doubt="unconfirmed", **found)


class Migration(migrations.Migration):
    dependencies = [("board", "0008_reported_at")]
    # Columns that may be empty are added without making the table anew, with its triggers.
    operations = [
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
        migrations.RemoveIndex("assetstate", "board_order"),
        migrations.AddField("assetstate", "rank", models.IntegerField(null=True)),
        migrations.AddField(
            "assetstate", "unconfirmed_reason", models.CharField(max_length=200, null=True)
        ),
        migrations.AddField("assetstate", "disputed", models.CharField(max_length=64, null=True)),
        migrations.AddField("assetstate", "silent", models.IntegerField(null=True)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario", "rank", "-since", "asset", "state"],
                condition=models.Q(purged=False),
                name="board_order",
            ),
        ),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario"],
                condition=models.Q(purged=False, disputed__isnull=False),
                name="disputed_rows",
            ),
        ),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario"],
                condition=models.Q(purged=False, unconfirmed=True),
                name="unconfirmed_rows",
            ),
        ),
        migrations.AddIndex(
            "assetstate",
            models.Index(
                fields=["scenario"],
                condition=models.Q(purged=False, silent__isnull=False),
                name="silent_rows",
            ),
        ),
    ]
