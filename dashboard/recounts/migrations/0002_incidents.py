from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Replace


def rename_in_totals(apps, _schema_editor):
    old, new = Value('"attacks"'), Value('"incidents"')
    apps.get_model("recounts", "Recount").objects.update(totals=Replace(F("totals"), old, new))


class Migration(migrations.Migration):
    dependencies = [("recounts", "0001_initial")]

    operations = [
        migrations.RenameField(model_name="countedhour", old_name="attacks", new_name="incidents"),
        migrations.RunPython(rename_in_totals, migrations.RunPython.noop),
    ]
