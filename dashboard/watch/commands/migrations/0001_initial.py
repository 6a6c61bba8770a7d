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
            name="ScheduledTask",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("task", models.UUIDField()),
                ("do", models.CharField(max_length=10)),
                ("state", models.CharField(blank=True, max_length=64)),
                ("condition", models.CharField(blank=True, max_length=64)),
                ("next_at", models.BigIntegerField(null=True)),
                ("every", models.BigIntegerField(null=True)),
                ("until", models.BigIntegerField(null=True)),
                ("times", models.BigIntegerField(null=True)),
                ("owner", models.CharField(max_length=255)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("outcome", models.CharField(blank=True, max_length=40)),
                ("ran_at", models.BigIntegerField(null=True)),
                ("aside", models.CharField(blank=True, max_length=200)),
                ("ended_at", models.BigIntegerField(null=True)),
                ("ending", models.CharField(blank=True, max_length=10)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at", None)),
                        fields=["scenario", "asset"],
                        name="schedules_open",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None)),
                        fields=["next_at"],
                        name="schedules_by_next",
                    ),
                    models.Index(fields=["ended_at"], name="schedules_by_end"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "task"), name="one_row_per_task"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Command",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=10)),
                ("state", models.CharField(blank=True, max_length=64)),
                ("until", models.BigIntegerField(blank=True, null=True)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("if_version", models.CharField(blank=True, max_length=64)),
                ("username", models.CharField(max_length=150)),
                ("source", models.CharField(max_length=10)),
                ("created_at", models.BigIntegerField()),
                ("status", models.CharField(default="sending", max_length=10)),
                ("partition", models.IntegerField(blank=True, null=True)),
                ("offset", models.BigIntegerField(blank=True, null=True)),
                ("outcome", models.CharField(blank=True, max_length=300)),
                ("version", models.CharField(blank=True, max_length=40)),
                ("answered_at", models.BigIntegerField(blank=True, null=True)),
                ("form", models.TextField(blank=True, default="")),
                ("details", models.TextField(blank=True, default="")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="commands",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["scenario", "asset", "-created_at"], name="commands_of_asset"
                    )
                ],
            },
        ),
    ]
