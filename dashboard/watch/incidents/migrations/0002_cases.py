import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


EACH = """\
INSERT INTO incidents_case (id, scenario, began_at, label, owner, ticket, acknowledged_at,
  acknowledged_by, resolved_at, resolved_by)
SELECT id, scenario, began_at, '',
  CASE WHEN ended_at IS NULL THEN acknowledged_by ELSE '' END, '', acknowledged_at,
  acknowledged_by, ended_at, ''
FROM incidents_incident"""
NEXT = """\
SELECT setval(pg_get_serial_sequence('incidents_case', 'id'), max(id)) FROM incidents_case
HAVING max(id) IS NOT NULL"""


def give_each_incident_a_case(_apps, schema_editor):
    """Give each known incident a case of its own, under its own number."""
    schema_editor.execute(EACH)
    schema_editor.execute("UPDATE incidents_incident SET case_id = id")
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(NEXT)


class Migration(migrations.Migration):
    dependencies = [
        ("incidents", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Case",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("began_at", models.BigIntegerField()),
                ("label", models.CharField(blank=True, max_length=100)),
                ("owner", models.CharField(blank=True, max_length=150)),
                ("ticket", models.CharField(blank=True, max_length=100)),
                ("acknowledged_at", models.BigIntegerField(null=True)),
                ("acknowledged_by", models.CharField(blank=True, max_length=150)),
                ("resolved_at", models.BigIntegerField(null=True)),
                ("resolved_by", models.CharField(blank=True, max_length=150)),
                (
                    "merged_into",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="merged",
                        to="incidents.case",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="incident",
            name="case",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="incidents",
                to="incidents.case",
            ),
        ),
        migrations.CreateModel(
            name="CaseEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("at", models.BigIntegerField()),
                ("kind", models.CharField(max_length=12)),
                ("text", models.CharField(blank=True, max_length=2000)),
                (
                    "case",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="incidents.case",
                    ),
                ),
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
            name="WorstMoment",
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
                ("at", models.BigIntegerField()),
                ("state", models.CharField(max_length=64)),
                ("votes", models.TextField(default="[]")),
            ],
            options={
                "indexes": [models.Index(fields=["scenario", "at"], name="worst_moments_by_age")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "place"), name="one_worst_moment_per_incident"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(fields=["began_at", "id"], name="cases_newest"),
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(fields=["scenario", "began_at"], name="cases_by_begin"),
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(fields=["scenario", "resolved_at"], name="cases_by_end"),
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(
                condition=models.Q(("resolved_at", None)), fields=["owner"], name="cases_of_owner"
            ),
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(
                condition=models.Q(("ticket", ""), _negated=True),
                fields=["ticket"],
                name="cases_of_ticket",
            ),
        ),
        migrations.AddIndex(
            model_name="caseentry",
            index=models.Index(fields=["case", "at"], name="entries_of_case"),
        ),
        migrations.RunPython(give_each_incident_a_case, migrations.RunPython.noop),
    ]
