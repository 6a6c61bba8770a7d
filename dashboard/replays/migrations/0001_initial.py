from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("query", models.CharField(max_length=100)),
                ("scenario", models.CharField(blank=True, max_length=40)),
                ("start", models.CharField(max_length=200)),
                ("reason", models.CharField(max_length=500)),
                ("username", models.CharField(max_length=150)),
                ("asked_at", models.BigIntegerField(db_index=True)),
                ("whole", models.BooleanField()),
                ("epoch", models.IntegerField()),
                ("plan", models.TextField()),
                ("reconcile", models.CharField(blank=True, default="", max_length=10)),
                ("started_at", models.BigIntegerField(null=True)),
                ("ended_at", models.BigIntegerField(null=True)),
                ("records", models.BigIntegerField(null=True)),
                ("compared", models.BigIntegerField(null=True)),
                ("unjudged", models.BigIntegerField(null=True)),
                ("differences", models.BigIntegerField(null=True)),
                ("trouble", models.TextField(blank=True, default="")),
            ],
        ),
    ]
