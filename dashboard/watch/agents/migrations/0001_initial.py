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
            name="LastReport",
            fields=[
                ("scenario", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("at", models.BigIntegerField()),
            ],
        ),
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
                ("left_at", models.BigIntegerField(db_default=0, default=0)),
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
            name="AgentFinding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=20)),
                ("words", models.CharField(max_length=500)),
                ("since", models.BigIntegerField()),
                ("found_at", models.BigIntegerField()),
                ("ended_at", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["ended_at"], name="findings_by_end")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("scenario", "agent", "kind"),
                        name="one_open_finding_per_agent",
                    )
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
                ("stale", models.BigIntegerField()),
                ("late", models.BigIntegerField()),
                ("silent", models.BigIntegerField()),
                ("rare", models.BigIntegerField()),
                ("refused", models.BigIntegerField(db_default=0, default=0)),
                ("doubtful", models.BigIntegerField(db_default=0, default=0)),
                ("detail", models.BigIntegerField(db_default=0, default=0)),
                ("age", models.BigIntegerField()),
                ("oldest", models.BigIntegerField(db_default=0, default=0)),
                ("ahead", models.BigIntegerField(db_default=0, default=0)),
                ("last", models.BigIntegerField()),
                ("hour", models.IntegerField()),
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
            name="LateMinute",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(blank=True, max_length=255)),
                ("stale", models.BigIntegerField()),
                ("late", models.BigIntegerField()),
                ("silent", models.BigIntegerField()),
                ("rare", models.BigIntegerField()),
                ("refused", models.BigIntegerField(db_default=0, default=0)),
                ("doubtful", models.BigIntegerField(db_default=0, default=0)),
                ("detail", models.BigIntegerField(db_default=0, default=0)),
                ("age", models.BigIntegerField()),
                ("oldest", models.BigIntegerField(db_default=0, default=0)),
                ("ahead", models.BigIntegerField(db_default=0, default=0)),
                ("last", models.BigIntegerField()),
                ("minute", models.IntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "minute", "agent"),
                        name="one_late_row_per_agent_and_minute",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="VoteFault",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=20)),
                ("assets", models.IntegerField()),
                ("since", models.BigIntegerField()),
                ("last", models.BigIntegerField()),
                ("said", models.CharField(blank=True, max_length=64)),
                ("ms", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "agent", "kind"), name="one_fault_per_agent"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="MuteRequest",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("username", models.CharField(max_length=150)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=6)),
                ("until", models.BigIntegerField(null=True)),
                ("reason", models.CharField(max_length=500)),
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
                "indexes": [
                    models.Index(fields=["scenario", "agent", "-created_at"], name="mute_asks")
                ],
            },
        ),
    ]
