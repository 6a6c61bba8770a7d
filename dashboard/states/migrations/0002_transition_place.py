"""A transition is known by its place in the log, whatever the epoch that told it."""

from django.db import migrations, models
from django.db.models.functions import Substr


def fill(apps, schema_editor):
    transitions = apps.get_model("board", "Transition").objects.using(
        schema_editor.connection.alias
    )
    newest = {}
    for pk, scenario, asset, version in transitions.order_by("version").values_list(
        "pk", "scenario", "asset", "version"
    ):
        before = newest.get((scenario, asset, version[7:]))
        if before is not None:
            transitions.filter(pk=before).delete()
        newest[scenario, asset, version[7:]] = pk
    transitions.update(place=Substr("version", 8))


class Migration(migrations.Migration):
    dependencies = [("board", "0001_initial")]
    operations = [
        migrations.AddField("transition", "place", models.CharField(default="", max_length=33)),
        migrations.RemoveConstraint("transition", "one_transition_per_version"),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AlterField("transition", "place", models.CharField(max_length=33)),
        migrations.AddConstraint(
            "transition",
            models.UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_transition_per_place"
            ),
        ),
    ]
