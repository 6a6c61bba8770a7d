from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("materialiser", "0004_bounds"),
    ]

    operations = [
        migrations.AddField(
            model_name="logbound",
            name="asides",
            field=models.TextField(db_default="[]", default="[]"),
        ),
        migrations.AddField(
            model_name="foldsnapshot",
            name="asides",
            field=models.TextField(db_default="[]", default="[]"),
        ),
    ]
