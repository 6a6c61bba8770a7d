from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("summaries", "0007_incidents")]

    operations = [migrations.RemoveField(model_name="progress", name="seeded_at")]
