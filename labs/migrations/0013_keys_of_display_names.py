from django.db import migrations

from quiz.names import key_of


def fill_keys(apps, schema_editor):
    """Letters that are drawn alike are one now. Of two names that have become one the later keeps a key that no name
    has, until its learner chooses another.
    """
    entries = apps.get_model("labs", "LeaderboardEntry").objects
    rows = list(entries.order_by("pk").only("task", "offering", "display_name"))
    for row in rows:  # first out of each other's way: the old key of one may be the new key of another
        entries.filter(pk=row.pk).update(name_key=f"~{row.pk}")
    taken = set()
    for row in rows:
        key = (row.task_id, row.offering_id, key_of(row.display_name))
        if key not in taken:
            taken.add(key)
            entries.filter(pk=row.pk).update(name_key=key[-1])


class Migration(migrations.Migration):
    dependencies = [
        ("labs", "0012_traces_of_open_attempts"),
    ]

    operations = [
        migrations.RunPython(fill_keys, migrations.RunPython.noop),
    ]
