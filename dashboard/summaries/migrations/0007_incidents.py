from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("summaries", "0006_newest")]

    operations = [
        migrations.RenameField(model_name="hourrow", old_name="attacks", new_name="incidents")
    ]
