"""Reminders, and ends of overrides that changed nothing, are in the history too, as their kind.

Those told before this are in the log alone.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("board", "0004_name_parts")]
    operations = [
        migrations.AddField(
            "transition",
            "kind",
            models.CharField(max_length=20, default="change", db_default="change"),
        ),
    ]
