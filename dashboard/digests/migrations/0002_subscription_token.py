from django.db import migrations, models

import dashboard.notifications.models


def give_tokens(apps, schema_editor):
    """Give each subscription a token of its own: a default is computed once for all rows."""
    subscriptions = apps.get_model("digests", "Subscription").objects
    for number in subscriptions.values_list("pk", flat=True):
        subscriptions.filter(pk=number).update(token=dashboard.notifications.models.new_token())


class Migration(migrations.Migration):
    dependencies = [
        ("digests", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="subscription",
            name="token",
            field=models.CharField(default="", max_length=32),
        ),
        migrations.RunPython(give_tokens, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="subscription",
            name="token",
            field=models.CharField(default=dashboard.notifications.models.new_token, max_length=32),
        ),
    ]
