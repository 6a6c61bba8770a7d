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
            name="LabelChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40, unique=True)),
                ("n", models.BigIntegerField(default=0)),
                ("chips", models.CharField(blank=True, max_length=98)),
            ],
        ),
        migrations.CreateModel(
            name="Label",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("key", models.CharField(max_length=32)),
                ("value", models.CharField(max_length=100)),
                ("source", models.CharField(max_length=10)),
                ("name", models.CharField(max_length=255)),
                ("at", models.BigIntegerField()),
                ("shown", models.BooleanField(default=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("shown", True)),
                        fields=["scenario", "key", "value", "asset"],
                        name="labels_found",
                    ),
                    models.Index(
                        condition=models.Q(("source", "agent")),
                        fields=["scenario", "asset"],
                        name="labels_of_agents",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "key", "source"), name="one_label_per_source"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LabelUpload",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("scenario", models.CharField(max_length=40)),
                ("name", models.CharField(max_length=255)),
                ("status", models.CharField(default="reading", max_length=10)),
                ("labels", models.IntegerField(default=0)),
                ("assets", models.IntegerField(default=0)),
                ("portion", models.IntegerField(default=0)),
                ("done", models.IntegerField(default=0)),
                ("actor", models.JSONField(default=dict)),
                ("sent_at", models.BigIntegerField()),
                ("started_at", models.BigIntegerField()),
                ("moved_at", models.BigIntegerField()),
                ("ended_at", models.BigIntegerField(null=True)),
                ("trouble", models.CharField(blank=True, max_length=300)),
                ("read", models.TextField(default="{}")),
                ("found", models.TextField(default="{}")),
                ("data", models.BinaryField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="label_uploads",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LabelPortion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField()),
                ("labels", models.IntegerField()),
                ("wanted", models.TextField()),
                (
                    "upload",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="portions",
                        to="labels.labelupload",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="labelupload",
            index=models.Index(
                condition=models.Q(("status__in", ("reading", "comparing", "applying"))),
                fields=["sent_at"],
                name="label_uploads_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="labelportion",
            constraint=models.UniqueConstraint(
                fields=("upload", "number"), name="one_label_portion"
            ),
        ),
    ]
