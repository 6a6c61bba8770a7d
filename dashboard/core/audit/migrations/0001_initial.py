"""The table, which the database itself protects against changes."""

from dashboard.core.audit.hash_chain import install, remove

from django.db import migrations, models


def install_triggers(apps, schema_editor):
    install(schema_editor.connection)


def remove_triggers(apps, schema_editor):
    remove(schema_editor.connection)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.BigIntegerField(db_index=True)),
                ("user_id", models.BigIntegerField(null=True)),
                ("name", models.CharField(max_length=150)),
                ("role", models.CharField(blank=True, max_length=20)),
                ("source", models.CharField(max_length=20)),
                ("token", models.CharField(blank=True, max_length=8)),
                ("address", models.CharField(blank=True, max_length=45)),
                ("action", models.CharField(max_length=40)),
                ("scenario", models.CharField(blank=True, max_length=40)),
                ("target", models.CharField(blank=True, max_length=255)),
                ("outcome", models.CharField(max_length=100)),
                ("facts", models.TextField(default="{}")),
                ("previous", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["name", "number"], name="audit_by_name"),
                    models.Index(fields=["action", "number"], name="audit_by_action"),
                    models.Index(fields=["target", "number"], name="audit_by_target"),
                ],
            },
        ),
        migrations.RunPython(install_triggers, remove_triggers),
    ]
