import dashboard.notify.notifications.models
import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReportingZone",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Alarm",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("place", models.CharField(max_length=33)),
                ("begin", models.BigIntegerField()),
                ("end", models.BigIntegerField(null=True)),
                ("end_place", models.CharField(blank=True, max_length=33)),
                ("state", models.CharField(max_length=64)),
                ("came_true", models.BooleanField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["scenario", "end"], name="alarm_end"),
                    models.Index(fields=["begin", "id"], name="alarm_newest"),
                    models.Index(
                        condition=models.Q(("end", None)),
                        fields=["scenario", "asset"],
                        name="alarm_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_alarm_per_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AssetDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("day", models.IntegerField()),
                ("bad", models.BigIntegerField()),
                ("unconfirmed", models.BigIntegerField()),
                ("maintenance", models.BigIntegerField()),
                ("service_bad", models.BigIntegerField()),
                ("service_unconfirmed", models.BigIntegerField()),
                ("service_maintenance", models.BigIntegerField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["scenario", "day"], name="summary_days"),
                    models.Index(fields=["day"], name="summary_day_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "day"), name="one_row_per_asset_day"
                    )
                ],
            },
        ),
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
        migrations.CreateModel(
            name="HourRow",
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
                ("day", models.IntegerField()),
                ("slot", models.SmallIntegerField()),
                ("present", models.IntegerField()),
                ("good", models.BigIntegerField()),
                ("bad", models.BigIntegerField()),
                ("unconfirmed", models.BigIntegerField()),
                ("maintenance", models.BigIntegerField()),
                ("incidents", models.IntegerField()),
                ("false_alarms", models.IntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["end"], name="summary_hour_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "begin"), name="one_row_per_hour")
                ],
            },
        ),
        migrations.CreateModel(
            name="KeptSum",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=400, unique=True)),
                ("scenarios", models.CharField(max_length=1000)),
                ("begin", models.BigIntegerField()),
                ("end", models.BigIntegerField()),
                ("computed_at", models.BigIntegerField()),
                ("data", models.TextField()),
            ],
            options={
                "indexes": [models.Index(fields=["computed_at"], name="kept_sum_age")],
            },
        ),
        migrations.CreateModel(
            name="Presence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("place", models.CharField(max_length=33)),
                ("begin", models.BigIntegerField()),
                ("end", models.BigIntegerField(null=True)),
                ("end_place", models.CharField(blank=True, max_length=33)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["scenario", "begin"], name="presence_begin"),
                    models.Index(fields=["scenario", "end"], name="presence_end"),
                    models.Index(
                        condition=models.Q(("end", None)),
                        fields=["scenario", "asset"],
                        name="presence_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_presence_per_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Progress",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("summed_to", models.BigIntegerField(null=True)),
                ("dirty_since", models.BigIntegerField(null=True)),
                ("taken_since", models.BigIntegerField(null=True)),
                ("turn", models.BigIntegerField(default=0)),
                ("answered_to", models.BigIntegerField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("scenario",), name="one_progress_per_scenario")
                ],
            },
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("every", models.CharField(max_length=8)),
                ("weekday", models.SmallIntegerField(default=0)),
                ("hour", models.SmallIntegerField(default=7)),
                ("since", models.BigIntegerField()),
                (
                    "token",
                    models.CharField(
                        default=dashboard.notify.notifications.models.new_token, max_length=32
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="digests",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Issue",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("every", models.CharField(max_length=8)),
                ("first", models.DateField()),
                ("at", models.BigIntegerField()),
                ("late", models.BigIntegerField(default=0)),
                (
                    "subscription",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="issues",
                        to="summaries.subscription",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Target",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("percent", models.FloatField(null=True)),
                ("hours", models.JSONField(default=list)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("scenario",), name="one_target_per_scenario")
                ],
            },
        ),
        migrations.CreateModel(
            name="ImpairedSpan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("place", models.CharField(max_length=33)),
                ("begin", models.BigIntegerField()),
                ("end", models.BigIntegerField(null=True)),
                ("end_place", models.CharField(blank=True, max_length=33)),
                ("state", models.CharField(max_length=64)),
                ("unconfirmed", models.BooleanField()),
                (
                    "length_class",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(
                                end__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("begin"), "+", models.Value(1843200000)
                                ),
                                then=4,
                            ),
                            models.When(
                                end__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("begin"), "+", models.Value(230400000)
                                ),
                                then=3,
                            ),
                            models.When(
                                end__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("begin"), "+", models.Value(28800000)
                                ),
                                then=2,
                            ),
                            models.When(
                                end__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("begin"), "+", models.Value(3600000)
                                ),
                                then=1,
                            ),
                            default=None,
                        ),
                        output_field=models.SmallIntegerField(null=True),
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["scenario", "begin"], name="impaired_begin"),
                    models.Index(fields=["begin", "id"], name="impaired_newest"),
                    models.Index(
                        condition=models.Q(("length_class__isnull", False)),
                        fields=["scenario", "length_class", "begin", "end"],
                        name="impaired_length",
                    ),
                    models.Index(fields=["scenario", "end"], name="impaired_end"),
                    models.Index(
                        condition=models.Q(("end", None)),
                        fields=["scenario", "asset"],
                        name="impaired_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_impaired_per_place"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.UniqueConstraint(
                fields=("user", "scenario"), name="one_digest_per_scenario"
            ),
        ),
        migrations.AddIndex(
            model_name="issue",
            index=models.Index(fields=["at"], name="issues_by_age"),
        ),
        migrations.AddConstraint(
            model_name="issue",
            constraint=models.UniqueConstraint(
                fields=("subscription", "every", "first"), name="one_issue_per_period"
            ),
        ),
    ]
