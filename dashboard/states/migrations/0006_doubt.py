from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("board", "0005_quarters"),
    ]

    operations = [
        migrations.AddField(
            model_name="assetstate",
            name="doubt",
            field=models.IntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name="assetstate",
            index=models.Index(
                condition=models.Q(("doubt__isnull", False), ("purged", False)),
                fields=["scenario"],
                name="doubt_rows",
            ),
        ),
    ]
