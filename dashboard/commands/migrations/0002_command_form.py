from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("commands", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="command",
            name="form",
            field=models.TextField(blank=True, default=""),
        ),
    ]
