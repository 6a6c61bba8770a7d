"""What is in no name is known without looking for it, for texts too short for the other index."""

from django.db import migrations, models

from dashboard.states.name_runs import runs_of


def take_names(apps, schema_editor):
    rows = apps.get_model("board", "AssetState").objects.order_by()
    runs = runs_of(rows.values_list("asset", flat=True).iterator(10_000))
    model = apps.get_model("board", "NameRun")
    model.objects.bulk_create(model(run=run) for run in sorted(runs))


class Migration(migrations.Migration):
    dependencies = [
        ("board", "0003_age_by_scenario"),
    ]

    operations = [
        migrations.CreateModel(
            name="NameRun",
            fields=[
                ("run", models.CharField(max_length=2, primary_key=True, serialize=False)),
            ],
        ),
        migrations.RunPython(take_names, migrations.RunPython.noop),
    ]
