"""One group per role."""

from typing import Any

from django.db import migrations

ROLES = ("admin", "operator", "manager")


def make(apps: Any, schema_editor: Any) -> None:
    """Create the groups that are missing."""
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    """Groups are never taken away: users may be in them."""

    dependencies = [
        ("accounts", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]
    operations = [migrations.RunPython(make, migrations.RunPython.noop)]
