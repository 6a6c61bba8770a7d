import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Reading",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("query", models.CharField(max_length=100)),
                ("username", models.CharField(max_length=150)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("partition", models.IntegerField(null=True)),
                ("asset", models.CharField(blank=True, max_length=255)),
                ("after", models.CharField(blank=True, max_length=255)),
                ("complete", models.BooleanField(default=False)),
                ("received_at", models.BigIntegerField(null=True)),
                ("engine", models.CharField(blank=True, max_length=20)),
                ("epoch", models.IntegerField(default=0)),
                ("batch", models.BigIntegerField(default=0)),
                ("committed_at", models.BigIntegerField(default=0)),
                ("cut", models.BooleanField(default=False)),
                ("buckets", models.TextField(default="[]")),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("query", models.CharField(max_length=100)),
                ("username", models.CharField(max_length=150)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("scenario", models.CharField(blank=True, max_length=40)),
                ("start", models.CharField(max_length=200)),
                ("reason", models.CharField(max_length=500)),
                ("whole", models.BooleanField()),
                ("epoch", models.IntegerField()),
                ("plan", models.TextField()),
                ("reconcile", models.CharField(blank=True, default="", max_length=10)),
                ("started_at", models.BigIntegerField(null=True)),
                ("ended_at", models.BigIntegerField(null=True)),
                ("records", models.BigIntegerField(null=True)),
                ("compared", models.BigIntegerField(null=True)),
                ("unjudged", models.BigIntegerField(null=True)),
                ("differences", models.BigIntegerField(null=True)),
                ("problem", models.TextField(blank=True, default="")),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Trial",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("query", models.CharField(max_length=100)),
                ("username", models.CharField(max_length=150)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("since", models.BigIntegerField()),
                ("keys", models.TextField()),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("complete", models.BooleanField(default=False)),
                ("totals", models.TextField(blank=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StoredRow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("asset", models.CharField(max_length=255)),
                ("partition", models.IntegerField()),
                ("state", models.CharField(blank=True, max_length=64)),
                ("verdict", models.CharField(max_length=20)),
                ("fields", models.CharField(blank=True, max_length=200)),
                ("version", models.CharField(blank=True, max_length=60)),
                ("since", models.BigIntegerField(null=True)),
                ("votes", models.IntegerField(default=0)),
                ("due", models.BigIntegerField(null=True)),
                ("board_state", models.CharField(blank=True, max_length=64)),
                ("board_version", models.CharField(blank=True, max_length=60)),
                ("record", models.TextField(blank=True)),
                ("board", models.TextField(blank=True)),
                (
                    "reading",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rows",
                        to="requests.reading",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["reading", "verdict", "asset"], name="rows_by_verdict")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("reading", "asset"), name="one_row_per_reading")
                ],
            },
        ),
        migrations.CreateModel(
            name="TrialResult",
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
                        related_name="results",
                        to="requests.trial",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["trial", "place"], name="trial_results_in_order")],
                "constraints": [
                    models.UniqueConstraint(fields=("trial", "asset"), name="one_row_per_trial")
                ],
            },
        ),
    ]
