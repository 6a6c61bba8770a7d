import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Reading",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("scenario", models.CharField(max_length=40)),
                ("query", models.CharField(max_length=100)),
                ("partition", models.IntegerField(null=True)),
                ("asset", models.CharField(blank=True, max_length=255)),
                ("after", models.CharField(blank=True, max_length=255)),
                ("username", models.CharField(max_length=150)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("complete", models.BooleanField(default=False)),
                ("received_at", models.BigIntegerField(null=True)),
                ("engine", models.CharField(blank=True, max_length=20)),
                ("epoch", models.IntegerField(default=0)),
                ("batch", models.BigIntegerField(default=0)),
                ("committed_at", models.BigIntegerField(default=0)),
                ("cut", models.BooleanField(default=False)),
                ("buckets", models.TextField(default="[]")),
            ],
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
                        to="statestore.reading",
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
    ]
