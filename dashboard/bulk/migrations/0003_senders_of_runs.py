from django.db import migrations


def as_it_was(apps, _schema):
    """Runs that were started went in the name of who prepared them."""
    begun = apps.get_model("bulk", "Run").objects.exclude(status="review")
    for run in begun.iterator():
        run.sender_id = run.user_id
        run.senders = [{"name": run.username, "since": run.started_at or 0, "first": 0}]
        run.save(update_fields=["sender", "senders"])


class Migration(migrations.Migration):
    dependencies = [("bulk", "0002_senders_and_pins")]

    operations = [migrations.RunPython(as_it_was, migrations.RunPython.noop, elidable=True)]
