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
            name="CarriedScenario",
            fields=[
                ("scenario", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("query", models.CharField(max_length=100)),
                ("at", models.BigIntegerField()),
                ("version", models.CharField(max_length=64)),
                ("configured", models.TextField()),
                ("rule", models.TextField()),
                ("keys", models.TextField(default="{}")),
                ("user", models.CharField(blank=True, max_length=150)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("since", models.BigIntegerField(default=0)),
                ("problem", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="RuleRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("partition", models.IntegerField()),
                ("offset", models.BigIntegerField()),
                ("at", models.BigIntegerField()),
                ("rule", models.TextField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "partition", "offset"), name="one_rule_per_offset"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RuleChange",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("username", models.CharField(max_length=150)),
                ("reason", models.CharField(max_length=500)),
                ("asked_at", models.BigIntegerField()),
                ("status", models.CharField(max_length=10)),
                ("outcome", models.CharField(blank=True, max_length=500)),
                ("answered_at", models.BigIntegerField(null=True)),
                ("before", models.TextField()),
                ("after", models.TextField()),
                ("reverted", models.BooleanField(default=False)),
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
            options={
                "indexes": [
                    models.Index(fields=["scenario", "-asked_at"], name="rule_changes_of_scenario")
                ],
            },
        ),
    ]
