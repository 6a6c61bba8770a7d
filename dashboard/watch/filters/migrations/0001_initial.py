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
            name="SavedFilter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("title", models.CharField(max_length=60)),
                ("text", models.CharField(max_length=1000)),
                ("shared", models.BooleanField(default=False)),
                ("default", models.BooleanField(default=False)),
                ("at", models.BigIntegerField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="filters",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("shared", True)),
                        fields=["scenario", "title"],
                        name="shared_filters",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "scenario", "title"), name="one_filter_per_title"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("default", True)),
                        fields=("user", "scenario"),
                        name="one_default_filter",
                    ),
                ],
            },
        ),
    ]
