from django.db import migrations


def note_traces(apps, schema_editor):
    """Of attempts that are open: the files that their instances name by hash, as a parameter's value."""
    file = apps.get_model("labs", "TraceFile")
    known = dict(file.objects.values_list("digest", "pk"))
    if not known:
        return
    attempts = apps.get_model("labs", "TaskAttempt").objects.filter(state="open", instance__isnull=False)
    for attempt in attempts.only("instance").iterator():
        values = attempt.instance.get("params", {}).values()
        attempt.traces.set([known[value] for value in values if isinstance(value, str) and value in known])


class Migration(migrations.Migration):
    dependencies = [
        ("labs", "0011_attempts_keep_their_traces"),
    ]

    operations = [
        migrations.RunPython(note_traces, migrations.RunPython.noop),
    ]
