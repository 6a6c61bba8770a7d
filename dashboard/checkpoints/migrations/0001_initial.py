from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="LogBound",
            fields=[
                ("bucket", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("epoch", models.IntegerField()),
                ("pairs", models.TextField()),
                ("asides", models.TextField(db_default="[]", default="[]")),
            ],
        ),
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
        migrations.CreateModel(
            name="Divergence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("asset", models.CharField(max_length=255)),
                ("version", models.CharField(max_length=40)),
                ("kept", models.TextField()),
                ("other", models.TextField()),
                ("found_at", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "asset", "version"), name="one_divergence_per_version"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="FoldSnapshot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scenario", models.CharField(max_length=40)),
                ("partition", models.IntegerField()),
                ("next_offset", models.BigIntegerField()),
                ("clock", models.BigIntegerField()),
                ("taken_at", models.BigIntegerField()),
                ("file", models.CharField(max_length=255)),
                ("assets", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("bounds", models.TextField(db_default="[]", default="[]")),
                ("asides", models.TextField(db_default="[]", default="[]")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scenario", "partition", "next_offset"),
                        name="one_snapshot_per_offset",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SinkOffset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic", models.CharField(max_length=249)),
                ("partition", models.IntegerField()),
                ("next_offset", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic", "partition"), name="one_offset_per_partition"
                    )
                ],
            },
        ),
    ]
