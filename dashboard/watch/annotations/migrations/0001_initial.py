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
                ("scenario", models.CharField(max_length=40)),
                ("id", models.UUIDField(primary_key=True, serialize=False)),
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
                ("problem", models.CharField(blank=True, max_length=300)),
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
                ("edits", models.TextField()),
                (
                    "upload",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="portions",
                        to="annotations.labelupload",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Mark",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("revision", models.BigIntegerField()),
                ("changed_at", models.BigIntegerField()),
                ("ack_by", models.CharField(blank=True, max_length=150)),
                ("ack_since", models.BigIntegerField(null=True)),
                ("ack_until", models.BigIntegerField(null=True)),
                ("ack_severity", models.IntegerField(null=True)),
                ("ack_reason", models.CharField(blank=True, max_length=500)),
                ("notes", models.IntegerField(default=0)),
                ("work_name", models.CharField(blank=True, max_length=100)),
                ("work_until", models.BigIntegerField(null=True)),
                ("work_window", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["changed_at"], name="marks_by_change"),
                    models.Index(
                        condition=models.Q(("ack_until__isnull", False)),
                        fields=["scenario", "ack_until"],
                        name="marks_in_force",
                    ),
                    models.Index(
                        condition=models.Q(("work_until__isnull", False)),
                        fields=["scenario", "work_until"],
                        name="marks_of_work",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "asset"), name="one_mark_per_asset")
                ],
            },
        ),
        migrations.CreateModel(
            name="Note",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("username", models.CharField(max_length=150)),
                ("text", models.CharField(max_length=2000)),
                ("at", models.BigIntegerField()),
                ("edited_at", models.BigIntegerField(null=True)),
                ("deleted_at", models.BigIntegerField(null=True)),
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
            name="Presence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("last_at", models.BigIntegerField()),
                ("away_from", models.BigIntegerField(null=True)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Shift",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("began_at", models.BigIntegerField()),
                ("ended_at", models.BigIntegerField(null=True)),
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
            name="Acknowledgement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("username", models.CharField(max_length=150)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("at", models.BigIntegerField()),
                ("until", models.BigIntegerField()),
                ("state", models.CharField(max_length=64)),
                ("severity", models.IntegerField()),
                ("place", models.CharField(max_length=33)),
                ("ended_at", models.BigIntegerField(null=True)),
                ("ended_why", models.CharField(blank=True, max_length=12)),
                ("ended_by", models.CharField(blank=True, max_length=150)),
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
                    models.Index(
                        condition=models.Q(("ended_at", None)),
                        fields=["scenario", "asset"],
                        name="acks_not_ended",
                    ),
                    models.Index(fields=["scenario", "asset", "-at"], name="acks_of_asset"),
                    models.Index(fields=["until"], name="acks_by_end"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Handover",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("text", models.CharField(max_length=8000)),
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
                "indexes": [models.Index(fields=["-at"], name="handovers_by_age")],
            },
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
        migrations.AddIndex(
            model_name="note",
            index=models.Index(
                condition=models.Q(("deleted_at", None)),
                fields=["scenario", "asset", "-at"],
                name="notes_of_asset",
            ),
        ),
        migrations.AddIndex(
            model_name="note",
            index=models.Index(fields=["at"], name="notes_by_age"),
        ),
        migrations.AddIndex(
            model_name="shift",
            index=models.Index(fields=["user", "-began_at"], name="shifts_of_user"),
        ),
    ]
