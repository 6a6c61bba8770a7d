from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("job", "0001_initial")]

    operations = [
        migrations.AddField(
            "BucketStatus",
            "job",
            models.CharField(blank=True, db_default="", default="", max_length=30),
        ),
    ]
