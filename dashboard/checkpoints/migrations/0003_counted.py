"""What the materialiser counts is kept in the database."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("materialiser", "0002_one_divergence")]
    operations = [
        migrations.CreateModel(
            name="Counted",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("topic", models.CharField(blank=True, max_length=249)),
                ("n", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("name", "topic"), name="one_count_per_name_and_topic"
                    )
                ],
            },
        ),
    ]
