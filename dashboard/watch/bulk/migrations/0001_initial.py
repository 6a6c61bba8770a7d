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
            name="Run",
            fields=[
                ("scenario", models.CharField(max_length=40)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=10)),
                ("state", models.CharField(blank=True, max_length=64)),
                ("until", models.BigIntegerField(null=True)),
                ("reason", models.CharField(max_length=500)),
                ("schedule", models.JSONField(default=dict)),
                ("unchanged", models.BooleanField(default=True)),
                ("chosen", models.CharField(max_length=400)),
                ("beyond", models.IntegerField(default=0)),
                ("repeated", models.IntegerField(default=0)),
                ("matched", models.IntegerField(default=0)),
                ("username", models.CharField(max_length=150)),
                ("senders", models.JSONField(default=list)),
                ("status", models.CharField(default="review", max_length=10)),
                ("changed_by", models.CharField(blank=True, max_length=150)),
                ("created_at", models.BigIntegerField()),
                ("started_at", models.BigIntegerField(null=True)),
                ("last_sent_at", models.BigIntegerField(null=True)),
                ("ended_at", models.BigIntegerField(null=True)),
                ("tallies", models.JSONField(default=dict)),
                ("rate", models.FloatField(default=0)),
                ("problem", models.CharField(blank=True, max_length=300)),
                ("lease", models.CharField(blank=True, max_length=36)),
                ("lease_until", models.BigIntegerField(default=0)),
                (
                    "sender",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="bulk_runs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField()),
                ("asset", models.CharField(max_length=255)),
                ("outcome", models.CharField(default="ready", max_length=10)),
                ("text", models.CharField(blank=True, max_length=200)),
                ("was", models.CharField(blank=True, max_length=64)),
                ("version", models.CharField(blank=True, max_length=40)),
                ("returns", models.SmallIntegerField(default=0)),
                ("age", models.BigIntegerField(null=True)),
                ("pinned_by", models.CharField(blank=True, default="", max_length=255)),
                ("pin", models.TextField(blank=True, default="")),
                ("command", models.CharField(max_length=36)),
                ("partition", models.IntegerField(null=True)),
                ("offset", models.BigIntegerField(null=True)),
                ("answered_version", models.CharField(blank=True, max_length=40)),
                ("answered_at", models.BigIntegerField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="bulk.run",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["-created_at"], name="bulk_newest"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("ended_at", None)), fields=["started_at"], name="bulk_open"
            ),
        ),
        migrations.AddIndex(
            model_name="item",
            index=models.Index(fields=["run", "outcome", "number"], name="bulk_outcomes"),
        ),
        migrations.AddIndex(
            model_name="item",
            index=models.Index(fields=["asset"], name="bulk_asset"),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.UniqueConstraint(
                fields=("run", "number"), name="one_bulk_item_per_number"
            ),
        ),
    ]
