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
            name="Command",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
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
