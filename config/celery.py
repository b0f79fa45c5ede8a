"""The Celery app. Workers find the tasks of the installed apps by themselves."""

import os

from celery import Celery

import config.logs  # noqa: F401 - connects to Celery's signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("staffloop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
