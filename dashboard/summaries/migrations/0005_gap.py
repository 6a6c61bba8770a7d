"""Times without the job; those of the last month by the samples that are kept of it."""

from itertools import groupby
from typing import Any

from django.db import migrations, models

SILENT_MS = 5 * 60_000
STEPS = ((86_400_000, 3_600_000), (3_600_000, 60_000), (0, 10_000))
"""How long a sample tells of: those that are older than this (ms) of so long (ms)."""


def fill(apps: Any, schema_editor: Any) -> None:
    """Note the gaps between samples. Older times count as observed: nothing tells of them."""
    samples = apps.get_model("job", "JobSample").objects.using(schema_editor.connection.alias)
    gaps = apps.get_model("summaries", "Gap").objects.using(schema_editor.connection.alias)
    newest = samples.aggregate(at=models.Max("slot"))["at"]
    rows = samples.order_by("scenario", "slot").values_list("scenario", "slot")
    for scenario, slots in groupby(rows.iterator(), key=lambda row: row[0]):
        heard = None
        for _, slot in slots:
            if heard is not None and slot - heard > SILENT_MS:
                gaps.create(scenario=scenario, begin=heard, end=slot)
            heard = slot + next(width for age, width in STEPS if newest - slot >= age)


class Migration(migrations.Migration):
    dependencies = [
        ("job", "0003_clocks_behind"),
        ("summaries", "0004_answered_to"),
    ]

    operations = [
        migrations.CreateModel(
            name="Gap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("begin", models.BigIntegerField()),
                ("end", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["end"], name="summary_gap_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "begin"), name="one_gap_per_begin")
                ],
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
