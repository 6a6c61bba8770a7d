"""The last report of each scenario, begun with what is known of its agents."""

from django.db import migrations, models

FROM_AGENTS = """\
INSERT INTO agentry_lastreport (scenario, at)
SELECT scenario, MAX(last_seen) FROM agentry_agent GROUP BY scenario"""


class Migration(migrations.Migration):
    dependencies = [
        ("agentry", "0002_faults"),
    ]

    operations = [
        migrations.CreateModel(
            name="LastReport",
            fields=[
                (
                    "scenario",
                    models.CharField(max_length=40, primary_key=True, serialize=False),
                ),
                ("at", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(FROM_AGENTS, migrations.RunSQL.noop),
    ]
