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
            name="LateMark",
            fields=[
                ("bucket", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("offset", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Walk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("after", models.BigIntegerField(default=0)),
                ("tally", models.TextField(default="[]")),
            ],
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("first_seen", models.BigIntegerField()),
                ("last_seen", models.BigIntegerField()),
                ("gap", models.BigIntegerField(db_default=0, default=0)),
                ("votes", models.IntegerField(db_default=0, default=0)),
                ("against", models.IntegerField(db_default=0, default=0)),
                ("silent", models.IntegerField(db_default=0, default=0)),
                ("silent_since", models.BigIntegerField(null=True)),
                ("clock", models.BigIntegerField(null=True)),
                ("counted_at", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "indexes": [models.Index(fields=["scenario", "-last_seen"], name="agents_seen")],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "agent"), name="one_row_per_agent")
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(blank=True, max_length=255)),
                ("hour", models.IntegerField()),
                ("records", models.BigIntegerField()),
                ("changes", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "hour", "agent"), name="one_row_per_agent_and_hour"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Dissent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("asset", models.CharField(max_length=255)),
                ("said", models.CharField(max_length=64)),
                ("made", models.CharField(max_length=64)),
                ("at", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["scenario", "agent", "-at"], name="dissents")],
            },
        ),
        migrations.CreateModel(
            name="LateHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(blank=True, max_length=255)),
                ("hour", models.IntegerField()),
                ("stale", models.BigIntegerField()),
                ("late", models.BigIntegerField()),
                ("silent", models.BigIntegerField()),
                ("rare", models.BigIntegerField()),
                ("age", models.BigIntegerField()),
                ("last", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "hour", "agent"), name="one_late_row_per_agent_and_hour"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="MuteRequest",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=6)),
                ("until", models.BigIntegerField(null=True)),
                ("reason", models.CharField(max_length=500)),
                ("username", models.CharField(max_length=150)),
                ("created_at", models.BigIntegerField()),
                ("places", models.TextField(default="{}")),
                ("fault", models.CharField(blank=True, max_length=300)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "agentry_muteask",
                "indexes": [
                    models.Index(fields=["scenario", "agent", "-created_at"], name="mute_asks")
                ],
            },
        ),
    ]
