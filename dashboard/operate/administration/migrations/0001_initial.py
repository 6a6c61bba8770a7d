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
            name="Remainder",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("what", models.CharField(max_length=100)),
                ("rows", models.BigIntegerField(default=0)),
                ("oldest", models.BigIntegerField(null=True)),
                ("deleted", models.BigIntegerField(default=0)),
                ("at", models.BigIntegerField()),
                ("took_ms", models.IntegerField(default=0)),
                ("fault", models.CharField(blank=True, max_length=300)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("what", "scenario"), name="one_remainder_per_kind"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Period",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("username", models.CharField(max_length=150)),
                ("key", models.CharField(max_length=100)),
                ("kept_ms", models.BigIntegerField()),
                ("at", models.BigIntegerField()),
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
                "constraints": [
                    models.UniqueConstraint(fields=("key", "scenario"), name="one_period_per_kind")
                ],
            },
        ),
    ]
