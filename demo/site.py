"""Staffloop on this machine for as long as the demo takes, whatever site its shell is set up for."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simworkers.forked_child import die_with_parent

ROOT = Path(__file__).resolve().parents[1]
# What settings read besides STAFFLOOP_…; a test compares.
OF_A_SITE = {
    "ALLOWED_HOSTS",
    "BEHIND_TLS_PROXY",
    "BROKER_URL",
    "CACHE_URL",
    "CSRF_TRUSTED_ORIGINS",
    "DATABASE_URL",
    "DEBUG",
    "DJANGO_SETTINGS_MODULE",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "SECRET_KEY",
    "SECURE_COOKIES",
    "SECURE_SSL_REDIRECT",
}


def own_environment() -> dict[str, str]:
    """This process's, without what is meant for another site; the defaults are the demo's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in OF_A_SITE and not name.startswith("STAFFLOOP_")
    }
    return kept | {
        "STAFFLOOP_VAR": str(ROOT / "var" / "demo"),
        "STAFFLOOP_RUN_TIME_LIMIT_S": "600",  # a slow machine shows the demo, too
        "LOG_LEVEL": "WARNING",
    }


@contextmanager
def running_site() -> Iterator[str]:
    """`manage.py serve` on a free port with a database of its own; yields its URL and ends it afterwards."""
    environment = own_environment()
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "bootstrap"], env=environment, check=True, stdout=subprocess.DEVNULL)
    parent = os.getpid()
    server = subprocess.Popen(
        [*manage, "serve", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: die_with_parent(parent),
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://\S+", line):
                yield found.group().rstrip("/")
                break
        else:
            sys.exit("the site did not start; its messages stand above")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=180)
