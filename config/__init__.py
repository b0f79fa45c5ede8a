"""The wiring: settings, URLs, the Celery app. Nothing imports from here but the process entry points."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
