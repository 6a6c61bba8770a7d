"""Columns for the details of a scenario, indexed for filters."""

from django.db import migrations, models

KINDS = {
    "detail": models.CharField(max_length=200, null=True),
    "amount": models.FloatField(null=True),
}
PLACES = range(1, 5)


def index_of(column):
    """Return the index of the visible rows that have a value in a column."""
    there = models.Q(**{"purged": False, f"{column}__isnull": False})
    return models.Index(condition=there, fields=["scenario", column], name=f"{column}_rows")


class Migration(migrations.Migration):
    dependencies = [("states", "0001_initial")]

    operations = [
        *(
            migrations.AddField("assetstate", f"{kind}_{place}", field.clone())
            for place in PLACES
            for kind, field in KINDS.items()
        ),
        *(
            migrations.AddIndex("assetstate", index_of(f"{kind}_{place}"))
            for place in PLACES
            for kind in KINDS
        ),
        migrations.CreateModel(
            "DetailKeys",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("keys", models.TextField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["scenario"], name="one_list_of_details")
                ]
            },
        ),
    ]
