from importlib import import_module

from django.db import migrations

fill_keys = import_module("labs.migrations.0013_keys_of_display_names").fill_keys


class Migration(migrations.Migration):
    dependencies = [
        ("labs", "0013_keys_of_display_names"),
    ]

    operations = [
        migrations.RunPython(fill_keys, migrations.RunPython.noop),
    ]
