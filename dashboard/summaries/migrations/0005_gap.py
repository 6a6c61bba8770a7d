from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
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
    ]
