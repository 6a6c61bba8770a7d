from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="LetterCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("what", models.CharField(max_length=20, unique=True)),
                ("n", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reason", models.CharField(max_length=20)),
                ("scenario", models.CharField(blank=True, max_length=40)),
                ("topic", models.CharField(max_length=249)),
                ("partition", models.IntegerField()),
                ("offset", models.BigIntegerField()),
                ("appended_at", models.BigIntegerField()),
                ("size", models.IntegerField()),
                ("whole", models.BooleanField(default=True)),
                ("asset", models.CharField(blank=True, max_length=255)),
                ("agent", models.CharField(blank=True, max_length=255)),
                ("dead_partition", models.IntegerField()),
                ("dead_offset", models.BigIntegerField()),
                ("noted_at", models.BigIntegerField()),
                ("repeats", models.IntegerField(default=0)),
                ("last_dead_offset", models.BigIntegerField()),
                ("status", models.CharField(default="open", max_length=10)),
                ("status_at", models.BigIntegerField(null=True)),
                ("status_by", models.CharField(blank=True, max_length=150)),
                ("why", models.CharField(blank=True, max_length=500)),
                ("edited", models.BooleanField(default=False)),
                ("new_topic", models.CharField(blank=True, max_length=249)),
                ("new_partition", models.IntegerField(null=True)),
                ("new_offset", models.BigIntegerField(null=True)),
                ("sent_from", models.BigIntegerField(null=True)),
                ("headers", models.TextField(default="[]")),
                ("key", models.BinaryField(null=True)),
                ("value", models.BinaryField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["status", "appended_at", "id"], name="letters_by_status"),
                    models.Index(fields=["appended_at", "id"], name="letters_by_time"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic", "partition", "offset"), name="one_letter_per_record"
                    )
                ],
            },
        ),
    ]
