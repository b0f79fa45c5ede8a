"""ASGI entry point: `uvicorn config.asgi:application`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

from config.body_limit import BodyLimit

application = BodyLimit(get_asgi_application())
