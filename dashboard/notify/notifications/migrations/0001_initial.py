import dashboard.notify.notifications.models
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Group",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=400)),
                (
                    "token",
                    models.CharField(
                        default=dashboard.notify.notifications.models.new_token,
                        max_length=32,
                        unique=True,
                    ),
                ),
                ("opened_at", models.BigIntegerField()),
                ("announced_at", models.BigIntegerField(null=True)),
                ("acknowledged_at", models.BigIntegerField(null=True)),
                ("closed_at", models.BigIntegerField(null=True)),
                ("next_at", models.BigIntegerField(null=True)),
                ("stage", models.IntegerField(default=0)),
                ("incidents", models.IntegerField(default=0)),
                ("worst", models.CharField(blank=True, max_length=64)),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("state", models.TextField(default="{}")),
            ],
        ),
        migrations.CreateModel(
            name="AgentEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("agent", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=16)),
                ("finding", models.CharField(max_length=20)),
                ("place", models.CharField(max_length=33)),
                ("words", models.CharField(max_length=500)),
                ("at", models.BigIntegerField()),
                ("recorded_at", models.BigIntegerField()),
                ("handled_at", models.BigIntegerField(null=True)),
                ("outcome", models.CharField(blank=True, max_length=200)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("handled_at", None)),
                        fields=["id"],
                        name="agents_to_handle",
                    ),
                    models.Index(fields=["recorded_at"], name="agent_events_by_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("place", "kind"), name="one_event_of_agent_per_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("name", models.CharField(max_length=100)),
                ("kind", models.CharField(max_length=20)),
                ("address", models.CharField(blank=True, max_length=2000)),
                ("secret", models.TextField(blank=True)),
                ("most", models.IntegerField(default=60)),
                ("window_ms", models.BigIntegerField(default=3600000)),
                ("enabled", models.BooleanField(default=True)),
                ("changed_at", models.BigIntegerField()),
                ("retired_at", models.BigIntegerField(null=True)),
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
            name="GroupIncident",
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
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="notifications.group",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="IncidentEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=16)),
                ("place", models.CharField(max_length=33)),
                ("incident", models.CharField(max_length=33)),
                ("at", models.BigIntegerField()),
                ("began_at", models.BigIntegerField()),
                ("state", models.CharField(blank=True, max_length=64)),
                ("worst", models.CharField(blank=True, max_length=64)),
                ("recorded_at", models.BigIntegerField()),
                ("due_at", models.BigIntegerField(default=0)),
                ("handled_at", models.BigIntegerField(null=True)),
                ("outcome", models.CharField(blank=True, max_length=200)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("handled_at", None)),
                        fields=["due_at", "id"],
                        name="events_to_handle",
                    ),
                    models.Index(fields=["recorded_at"], name="events_by_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place", "kind"), name="one_event_per_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("scenario", models.CharField(blank=True, max_length=40)),
                ("kind", models.CharField(max_length=16)),
                ("status", models.CharField(default="queued", max_length=10)),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("why", models.CharField(blank=True, max_length=200)),
                ("stage", models.IntegerField(null=True)),
                ("means", models.CharField(blank=True, max_length=20)),
                ("recipient", models.CharField(blank=True, max_length=320)),
                ("subject", models.CharField(max_length=200)),
                ("text", models.TextField(blank=True)),
                ("html", models.TextField(blank=True)),
                ("headers", models.JSONField(default=dict)),
                ("payload", models.JSONField(default=dict)),
                ("thread", models.CharField(blank=True, max_length=36)),
                ("dedupe", models.CharField(max_length=200, null=True, unique=True)),
                ("created_at", models.BigIntegerField()),
                ("next_at", models.BigIntegerField(default=0)),
                ("tries", models.IntegerField(default=0)),
                ("lease", models.CharField(blank=True, max_length=36)),
                ("lease_until", models.BigIntegerField(default=0)),
                ("ended_at", models.BigIntegerField(null=True)),
                (
                    "channel",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="messages",
                        to="notifications.channel",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="messages",
                        to="notifications.group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="notifications",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField()),
                ("at", models.BigIntegerField()),
                ("ms", models.IntegerField(null=True)),
                ("succeeded", models.BooleanField(default=False)),
                ("answer", models.CharField(blank=True, max_length=500)),
                (
                    "message",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="notifications.message",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PushSubscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("endpoint", models.CharField(max_length=1000, unique=True)),
                ("p256dh", models.CharField(max_length=100)),
                ("auth", models.CharField(max_length=40)),
                ("agent", models.CharField(blank=True, max_length=200)),
                ("failures", models.IntegerField(default=0)),
                ("created_at", models.BigIntegerField()),
                ("reached_at", models.BigIntegerField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="push_subscriptions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Rota",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("name", models.CharField(max_length=100)),
                ("kinds", models.JSONField(default=list)),
                ("changed_at", models.BigIntegerField()),
                ("retired_at", models.BigIntegerField(null=True)),
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
        migrations.AddField(
            model_name="message",
            name="rota",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="messages",
                to="notifications.rota",
            ),
        ),
        migrations.CreateModel(
            name="RotaShift",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("begins_at", models.BigIntegerField()),
                ("ends_at", models.BigIntegerField()),
                ("override", models.BooleanField(default=False)),
                ("written_by", models.CharField(max_length=150)),
                ("written_at", models.BigIntegerField()),
                (
                    "rota",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shifts",
                        to="notifications.rota",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="on_call",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Rule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("name", models.CharField(max_length=100)),
                ("enabled", models.BooleanField(default=True)),
                ("definition", models.JSONField(default=dict)),
                ("revision", models.IntegerField(default=1)),
                ("recent", models.JSONField(default=list)),
                ("changed_at", models.BigIntegerField()),
                ("retired_at", models.BigIntegerField(null=True)),
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
        migrations.AddField(
            model_name="message",
            name="rule",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="messages",
                to="notifications.rule",
            ),
        ),
        migrations.AddField(
            model_name="group",
            name="rule",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="groups",
                to="notifications.rule",
            ),
        ),
        migrations.CreateModel(
            name="TaskNotice",
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
                ("task", models.UUIDField()),
                ("owner", models.CharField(max_length=255)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("state", models.CharField(blank=True, max_length=64)),
                ("condition", models.CharField(blank=True, max_length=64)),
                ("at", models.BigIntegerField()),
                ("recorded_at", models.BigIntegerField()),
                ("due_at", models.BigIntegerField(null=True)),
                ("held", models.JSONField(default=dict)),
                ("outcome", models.CharField(blank=True, max_length=200)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["due_at", "id"], name="notices_to_tell"),
                    models.Index(fields=["recorded_at"], name="notices_by_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_notice_per_place"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.UniqueConstraint(
                condition=models.Q(("retired_at", None)),
                fields=("name",),
                name="one_channel_per_name",
            ),
        ),
        migrations.AddIndex(
            model_name="groupincident",
            index=models.Index(fields=["scenario", "asset", "place"], name="groups_of_incident"),
        ),
        migrations.AddConstraint(
            model_name="groupincident",
            constraint=models.UniqueConstraint(
                fields=("group", "scenario", "asset", "place"), name="one_incident_per_group"
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(fields=["at"], name="attempts_by_age"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                fields=("message", "number"), name="one_attempt_per_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="rota",
            constraint=models.UniqueConstraint(
                condition=models.Q(("retired_at", None)), fields=("name",), name="one_rota_per_name"
            ),
        ),
        migrations.AddIndex(
            model_name="rotashift",
            index=models.Index(fields=["rota", "ends_at"], name="rota_shifts_by_end"),
        ),
        migrations.AddConstraint(
            model_name="rule",
            constraint=models.UniqueConstraint(
                condition=models.Q(("retired_at", None)),
                fields=("name",),
                name="one_notification_rule_per_name",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["-created_at"], name="messages_newest"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("status__in", ("queued", "sending", "held", "failed"))),
                fields=["next_at"],
                name="messages_to_send",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["channel", "ended_at"], name="messages_of_channel"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["scenario", "ended_at"], name="messages_by_age"),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(
                condition=models.Q(("closed_at", None)), fields=["next_at"], name="groups_due"
            ),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["closed_at"], name="groups_by_end"),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at", None)),
                fields=("rule", "key"),
                name="one_open_group_per_key",
            ),
        ),
    ]
