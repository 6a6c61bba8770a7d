from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("invoices", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="storehour",
            name="returns",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="storehour",
            name="returned",
            field=models.BigIntegerField(default=0),
        ),
    ]
