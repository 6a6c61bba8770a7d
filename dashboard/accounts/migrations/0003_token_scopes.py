"""Tokens have scopes and may end; those made before keep what they could do."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_roles")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="scopes",
            field=models.CharField(default="read command report", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="apitoken",
            name="expires_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
