"""The indexes of last reports are of quarters of an hour: a record that brings another time within one
leaves them alone, and PostgreSQL can keep the row where it is, if its page has room."""

from django.db import migrations, models
from django.db.models import F, Q

QUARTER_MS = 900_000
ROOM = {
    "postgresql": (
        "ALTER TABLE board_assetstate SET (fillfactor = 60)",
        "ALTER TABLE board_assetstate RESET (fillfactor)",
    )
}


def take_quarters(apps, schema_editor):
    rows = apps.get_model("board", "AssetState").objects.order_by()
    rows.filter(reported_at__isnull=False).update(reported_in=F("reported_at") / QUARTER_MS)
    voteless = rows.filter(reported_at=None, purged=False)
    voteless.update(voteless_in=F("changed_at") / QUARTER_MS)


def leave_room(apps, schema_editor):
    _set_room(schema_editor, 0)


def leave_none(apps, schema_editor):
    _set_room(schema_editor, 1)


def _set_room(schema_editor, way):
    if (statements := ROOM.get(schema_editor.connection.vendor)) is not None:
        schema_editor.execute(statements[way])


class Migration(migrations.Migration):
    dependencies = [
        ("board", "0004_namerun"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="assetstate", name="last_reports"),
        migrations.RemoveIndex(model_name="assetstate", name="voteless"),
        migrations.AddField(
            model_name="assetstate",
            name="reported_in",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="assetstate",
            name="voteless_in",
            field=models.IntegerField(null=True),
        ),
        migrations.RunPython(leave_room, leave_none),
        migrations.RunPython(take_quarters, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="assetstate",
            index=models.Index(
                condition=Q(("purged", False), ("reported_in__isnull", False)),
                fields=["scenario", "reported_in", "id"],
                name="last_reports",
            ),
        ),
        migrations.AddIndex(
            model_name="assetstate",
            index=models.Index(
                condition=Q(("purged", False), ("voteless_in__isnull", False)),
                fields=["scenario", "voteless_in", "id"],
                name="voteless",
            ),
        ),
    ]
