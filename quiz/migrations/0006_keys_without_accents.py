from importlib import import_module

from django.db import migrations

fill_keys = import_module("quiz.migrations.0005_fill_keys_of_usernames").fill_keys


class Migration(migrations.Migration):
    dependencies = [
        ("quiz", "0005_fill_keys_of_usernames"),
    ]

    operations = [
        migrations.RunPython(fill_keys, migrations.RunPython.noop),
    ]
