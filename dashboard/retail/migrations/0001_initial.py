from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="PointsHour",
            fields=[
                ("begin", models.BigIntegerField(primary_key=True, serialize=False)),
                ("points", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="CountedRecord",
            fields=[
                ("key", models.CharField(max_length=72, primary_key=True, serialize=False)),
                ("at", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="counted_records_by_age")],
            },
        ),
        migrations.CreateModel(
            name="ProductDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("begin", models.BigIntegerField()),
                ("product", models.CharField(blank=True, max_length=60)),
                ("title", models.CharField(blank=True, max_length=200)),
                ("pieces", models.BigIntegerField()),
                ("revenue", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("begin", "product"), name="one_day_per_product")
                ],
            },
        ),
        migrations.CreateModel(
            name="StoreHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("begin", models.BigIntegerField()),
                ("store", models.CharField(max_length=60)),
                ("invoices", models.IntegerField()),
                ("lines", models.IntegerField()),
                ("revenue", models.BigIntegerField()),
                ("prime", models.IntegerField()),
                ("delivered", models.IntegerField()),
                ("returns", models.IntegerField(default=0)),
                ("returned", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("begin", "store"), name="one_hour_per_store")
                ],
            },
        ),
    ]
