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
            name="Incident",
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
                ("began_at", models.BigIntegerField()),
                ("ended_at", models.BigIntegerField(null=True)),
                ("state", models.CharField(max_length=64)),
                ("worst", models.CharField(max_length=64)),
                ("changes", models.IntegerField(default=1)),
                ("acknowledged_at", models.BigIntegerField(null=True)),
                ("acknowledged_by", models.CharField(blank=True, max_length=150)),
                (
                    "length_class",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(
                                ended_at__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("began_at"), "+", models.Value(1843200000)
                                ),
                                then=4,
                            ),
                            models.When(
                                ended_at__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("began_at"), "+", models.Value(230400000)
                                ),
                                then=3,
                            ),
                            models.When(
                                ended_at__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("began_at"), "+", models.Value(28800000)
                                ),
                                then=2,
                            ),
                            models.When(
                                ended_at__gt=django.db.models.expressions.CombinedExpression(
                                    models.F("began_at"), "+", models.Value(3600000)
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
                    models.Index(
                        condition=models.Q(("ended_at", None)),
                        fields=["scenario", "asset"],
                        name="incidents_open",
                    ),
                    models.Index(fields=["scenario", "began_at"], name="incidents_by_begin"),
                    models.Index(fields=["began_at", "id"], name="incidents_newest"),
                    models.Index(fields=["scenario", "ended_at"], name="incidents_by_end"),
                    models.Index(
                        condition=models.Q(("length_class__isnull", False)),
                        fields=["scenario", "length_class", "began_at", "ended_at"],
                        name="incidents_by_length",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_incident_per_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Window",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("scenario", models.CharField(blank=True, max_length=40)),
                ("name", models.CharField(max_length=100)),
                ("why", models.CharField(blank=True, max_length=500)),
                ("covers", models.CharField(max_length=8)),
                ("filter", models.CharField(blank=True, max_length=1000)),
                ("begin", models.BigIntegerField()),
                ("end", models.BigIntegerField()),
                ("planned_end", models.BigIntegerField()),
                ("excluded", models.BooleanField(default=True)),
                ("held", models.BooleanField(default=True)),
                ("created_at", models.BigIntegerField()),
                ("ended_by", models.CharField(blank=True, max_length=150)),
                ("cancelled_at", models.BigIntegerField(null=True)),
                ("cancelled_by", models.CharField(blank=True, max_length=150)),
                ("begun_at", models.BigIntegerField(null=True)),
                ("looked_at", models.BigIntegerField(null=True)),
                ("closed_at", models.BigIntegerField(null=True)),
                ("revision", models.IntegerField(default=1)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WindowAsset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("begin", models.BigIntegerField(default=0)),
                ("end", models.BigIntegerField(null=True)),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="assets",
                        to="incidents.window",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="window",
            index=models.Index(fields=["end"], name="windows_by_end"),
        ),
        migrations.AddIndex(
            model_name="window",
            index=models.Index(
                condition=models.Q(("cancelled_at", None), ("closed_at", None)),
                fields=["begin"],
                name="windows_to_come",
            ),
        ),
        migrations.AddConstraint(
            model_name="window",
            constraint=models.CheckConstraint(
                condition=models.Q(("begin__lt", models.F("end"))), name="window_has_a_length"
            ),
        ),
        migrations.AddIndex(
            model_name="windowasset",
            index=models.Index(fields=["scenario", "asset"], name="windows_of_asset"),
        ),
        migrations.AddConstraint(
            model_name="windowasset",
            constraint=models.UniqueConstraint(
                fields=("window", "scenario", "asset", "begin"), name="one_row_per_covering"
            ),
        ),
    ]
