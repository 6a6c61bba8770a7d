from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("job", "0002_bucketstatus_job")]

    operations = [migrations.RenameField("BucketStatus", "dues", "timers")]
