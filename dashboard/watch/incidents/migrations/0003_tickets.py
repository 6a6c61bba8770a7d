from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("incidents", "0002_cases"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="case",
            index=models.Index(
                condition=models.Q(("ticket", ""), _negated=True),
                fields=["ticket"],
                name="cases_of_ticket",
            ),
        ),
    ]
