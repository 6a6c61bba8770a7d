"""One task deletes what is past its time: the schedule of the tasks before it goes."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

NAMES = (
    "thin-labels",
    "thin-readings",
    "thin-replays",
    "thin-trials",
    "thin-bulk",
    "forget-agents",
    "forget-purged",
    "thin-progress",
    "prune-history",
    "forget-sessions",
    "prune-audit",
    "thin-annotations",
    "thin-dead-letters",
)


def delete_entries(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Delete the entries that the scheduler keeps in the database of tasks that are gone."""
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name__in=NAMES).delete()


class Migration(migrations.Migration):
    """No table changes."""

    dependencies = (
        ("materialiser", "0005_asides"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    )
    operations = (migrations.RunPython(delete_entries, migrations.RunPython.noop),)
