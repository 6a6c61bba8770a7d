import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Trial",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("scenario", models.CharField(max_length=40)),
                ("query", models.CharField(max_length=100)),
                ("since", models.BigIntegerField()),
                ("keys", models.TextField()),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("username", models.CharField(max_length=150)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("complete", models.BooleanField(default=False)),
                ("totals", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="Fared",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("place", models.IntegerField()),
                ("asset", models.CharField(max_length=255)),
                ("gained", models.IntegerField()),
                ("lost", models.IntegerField()),
                ("earlier", models.IntegerField()),
                ("later", models.IntegerField()),
                ("shift", models.BigIntegerField()),
                ("record", models.TextField()),
                (
                    "trial",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="fared",
                        to="whatif.trial",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["trial", "place"], name="fared_in_order")],
                "constraints": [
                    models.UniqueConstraint(fields=("trial", "asset"), name="one_row_per_trial")
                ],
            },
        ),
    ]
