"""The model has another name; its table stays."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("job", "0006_samples")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("JobAsk", "JobRequest"),
                migrations.AlterModelTable("JobRequest", "job_jobask"),
            ]
        )
    ]
