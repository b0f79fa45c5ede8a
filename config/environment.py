"""Reading the environment strictly: what is set wrongly stops the process with one clear line."""

import contextlib
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from environ import Env

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}

env = Env()


def strict_bool(name: str, default: bool) -> bool:
    """A boolean that refuses to guess: `maybe` is an error, not False."""
    raw = env.str(name, default="").strip().lower()
    if raw == "":
        return default
    if raw in TRUE:
        return True
    if raw in FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {raw!r}")


def positive_int(name: str, default: int, *, least: int = 1) -> int:
    """A whole number of at least `least`."""
    raw = env.str(name, default=str(default))
    if not raw.strip().isdigit() or int(raw) < least:
        raise ImproperlyConfigured(f"{name} must be a whole number of at least {least}, not {raw!r}")
    return int(raw)


UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


def rate(name: str, default: str) -> tuple[int, int]:
    """How often something may happen, as (times, seconds): `60/hour`."""
    raw = env.str(name, default=default)
    times, _, unit = raw.strip().partition("/")
    if not times.isdigit() or int(times) < 1 or unit not in UNITS_S:
        raise ImproperlyConfigured(f"{name} must look like 60/{'|'.join(UNITS_S)}, not {raw!r}")
    return int(times), UNITS_S[unit]


def cache_settings(name: str) -> dict[str, Any]:
    """A Redis that all processes share, or the memory of this one."""
    url = env.str(name, default="")
    if not url:
        return {
            "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
            "OPTIONS": {"MAX_ENTRIES": 20_000},
        }
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ImproperlyConfigured(f"{name} must name a Redis (redis://…), not {url!r}")
    return {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": url,
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1},
    }


def storage_settings(name: str, folder: Path) -> dict[str, Any]:
    """A folder, or the Django storage class named in `name`, with the JSON object in `name`_OPTIONS."""
    backend: str = env.str(name, default="")
    raw: str = env.str(f"{name}_OPTIONS", default="")
    if not backend:
        if raw:
            raise ImproperlyConfigured(f"{name}_OPTIONS says how, and {name} not which storage")
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(folder), "file_permissions_mode": 0o600},
        }
    if not all(part.isidentifier() for part in backend.split(".")) or "." not in backend:
        raise ImproperlyConfigured(
            f"{name} must be a dotted path such as package.module.Class, not {backend!r}"
        )
    try:
        options = json.loads(raw or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ImproperlyConfigured(f"{name}_OPTIONS must be a JSON object")
    return {"BACKEND": backend, "OPTIONS": options}


def one_of(name: str, choices: tuple[str, ...], default: str) -> str:
    """One of a few words, in whichever case."""
    raw: str = env.str(name, default=default)
    known = {choice.lower(): choice for choice in choices}
    if raw.strip().lower() not in known:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {raw!r}")
    return known[raw.strip().lower()]


def name_list(name: str, default: list[str]) -> list[str]:
    """Comma-separated names without blanks."""
    return [item.strip() for item in env.list(name, default=default) if item.strip()]


def optional_token(name: str) -> str:
    """A secret that opens something, or "" for none. A short one would be guessed."""
    token: str = env.str(name, default="")
    if token and (len(token) < 16 or not token.isascii() or any(mark.isspace() for mark in token)):
        raise ImproperlyConfigured(f"{name} must have at least 16 characters, ASCII without blanks")
    return token


def secret_key(*, embedded: bool, var_dir: Path) -> str:
    """`SECRET_KEY`, required beside a database server; the embedded default makes one and keeps it in var/."""
    key: str = env.str("SECRET_KEY", default="")
    if key:
        if len(key) < 32:
            raise ImproperlyConfigured("SECRET_KEY must have at least 32 characters")
        return key
    if not embedded:
        raise ImproperlyConfigured("SECRET_KEY must be set when DATABASE_URL is set")
    path = var_dir / "secret_key"
    if not path.exists():
        # A link to a file that is whole: of two processes that start together one wins, and neither reads half a key.
        with tempfile.NamedTemporaryFile("w", dir=var_dir) as draft:  # mode 0600
            draft.write(secrets.token_urlsafe(48))
            draft.flush()
            with contextlib.suppress(FileExistsError):
                os.link(draft.name, path)
    return path.read_text()
