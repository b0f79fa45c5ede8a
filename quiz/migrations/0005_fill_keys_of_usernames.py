from django.db import migrations

from quiz.names import key_of

BATCH = 1000


def fill_keys(apps, schema_editor):
    """Of accounts from before; whoever changes what a key is fills them anew, with a migration like this."""
    learners = apps.get_model("quiz", "Learner").objects
    last = 0
    while rows := list(learners.filter(pk__gt=last).order_by("pk").only("username")[:BATCH]):
        for row in rows:
            row.name_key = key_of(row.username)[:450]
        learners.bulk_update(rows, ["name_key"])
        last = rows[-1].pk


class Migration(migrations.Migration):
    dependencies = [
        ("quiz", "0004_keys_of_usernames"),
    ]

    operations = [
        migrations.RunPython(fill_keys, migrations.RunPython.noop),
    ]
