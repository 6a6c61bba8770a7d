import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BucketStatus",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("bucket", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("partition", models.IntegerField()),
                ("epoch", models.IntegerField()),
                ("executor", models.CharField(max_length=200)),
                ("host", models.CharField(max_length=255)),
                ("log_time", models.BigIntegerField()),
                ("offset", models.BigIntegerField()),
                ("assets", models.BigIntegerField()),
                ("dues", models.BigIntegerField()),
                ("records", models.BigIntegerField()),
                ("dead_letters", models.BigIntegerField()),
                ("stale", models.BigIntegerField()),
                ("engine", models.CharField(max_length=20)),
                ("at", models.BigIntegerField()),
                ("received_at", models.BigIntegerField()),
                ("mutes", models.TextField(blank=True, db_default="", default="")),
                ("late", models.BigIntegerField(db_default=0, default=0)),
                ("silent", models.BigIntegerField(db_default=0, default=0)),
                ("ahead_since", models.BigIntegerField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="PipelineStatus",
            fields=[
                ("name", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("at", models.BigIntegerField()),
                ("status", models.CharField(max_length=20)),
                ("record", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="JobProgress",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("query", models.CharField(max_length=100)),
                ("at", models.BigIntegerField()),
                ("status", models.CharField(max_length=20)),
                ("epoch", models.IntegerField()),
                ("message", models.TextField(blank=True)),
                ("restarts", models.IntegerField(default=0)),
                ("batch", models.TextField(blank=True)),
                ("since", models.BigIntegerField(default=0)),
                ("trigger", models.CharField(blank=True, max_length=20)),
                ("error", models.TextField(blank=True)),
                ("checkpoint_batch", models.BigIntegerField(null=True)),
                ("checkpoint_at", models.BigIntegerField(null=True)),
                ("checkpoint_size", models.BigIntegerField(null=True)),
                ("stopped_by", models.CharField(blank=True, max_length=150)),
                ("stopped_reason", models.CharField(blank=True, max_length=500)),
                ("standby", models.BigIntegerField(db_default=0, default=0)),
                ("clocks_behind", models.TextField(blank=True, db_default="", default="")),
            ],
            options={
                "indexes": [models.Index(fields=["query", "-at"], name="progress_of_query")],
            },
        ),
        migrations.CreateModel(
            name="JobRequest",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("username", models.CharField(max_length=150)),
                ("reason", models.CharField(max_length=500)),
                ("status", models.CharField(max_length=10)),
                ("outcome", models.CharField(blank=True, max_length=500)),
                ("answered_at", models.BigIntegerField(null=True)),
                ("query", models.CharField(max_length=100)),
                ("action", models.CharField(max_length=20)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("parameters", models.TextField(blank=True, default="")),
                ("step_done", models.BigIntegerField(null=True)),
                ("step_of", models.BigIntegerField(null=True)),
                ("step_what", models.CharField(blank=True, default="", max_length=500)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("slot", models.BigIntegerField()),
                ("updates", models.BigIntegerField(default=0)),
                ("waited", models.BigIntegerField(default=0)),
                ("longest", models.BigIntegerField(default=0)),
                ("behind", models.BigIntegerField(default=0)),
                ("letters", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("slot", "scenario"), name="one_sample_per_slot")
                ],
            },
        ),
    ]
