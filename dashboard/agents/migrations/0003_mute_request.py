"""The model has another name; its table stays."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agentry", "0002_lateness")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("MuteAsk", "MuteRequest"),
                migrations.AlterModelTable("MuteRequest", "agentry_muteask"),
            ]
        )
    ]
