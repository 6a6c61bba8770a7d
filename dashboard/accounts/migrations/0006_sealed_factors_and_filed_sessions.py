"""Secrets of second factors are sealed; sessions, which were kept under their own keys, end."""

from django.db import migrations

from dashboard.accounts.factors import resealed


def seal_factors(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":  # nothing of the old text stays in the file
        schema_editor.connection.cursor().execute("PRAGMA secure_delete = ON")
    for factor in apps.get_model("mfa", "Authenticator").objects.all():
        factor.data = resealed(factor.data)
        factor.save(update_fields=["data"])


def end_sessions(apps, schema_editor):
    apps.get_model("usersessions", "UserSession").objects.all().delete()
    apps.get_model("sessions", "Session").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_drafts"),
        ("mfa", "0003_authenticator_type_uniq"),
        ("sessions", "0001_initial"),
        ("usersessions", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(seal_factors, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(end_sessions, migrations.RunPython.noop, elidable=True),
    ]
