"""How often somebody may ask. Counted in the cache, so that processes that share one count together.

A window begins with somebody's first request and is counted by atomic additions: a site with many web processes
names a Redis in `CACHE_URL`; without it each process counts for itself. Requests are DRF's or Django's own: the
pages' doors use the same classes, so that both draw on one budget.
"""

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from quiz.models import Learner

if TYPE_CHECKING:
    # rest_framework.views reads this module, named in the settings, while it is itself being loaded.
    from rest_framework.views import APIView

log = logging.getLogger(__name__)


class Quota(NamedTuple):
    """What is left of a limit after this request; config/middleware.py writes it into the headers."""

    name: str
    limit: int
    window_s: int
    remaining: int
    reset_s: int


class WindowThrottle(BaseThrottle):
    """At most `limit` requests in `window_s` seconds, by `settings.THROTTLE_RATES[scope]`."""

    scope = ""
    reset_s: int | None = None

    def identity(self, request: Any, view: "APIView | None") -> str | None:
        """Whose requests are counted together; None: this one is not counted."""
        raise NotImplementedError

    def allow_request(self, request: Any, view: "APIView | None") -> bool:
        who = self.identity(request, view)
        if who is None:
            return True
        limit, window_s = settings.THROTTLE_RATES[self.scope]
        try:
            count, self.reset_s = count_request(f"throttle:{self.scope}:{who}", window_s)
        except (RedisError, OSError) as exc:
            # A limit is a courtesy; the site does not stand still because its counter does.
            log.error("requests are not counted: %s", exc)
            return True
        quota = Quota(self.scope, limit, window_s, max(0, limit - count), self.reset_s)
        http: Any = getattr(request, "_request", request)
        http.quotas = [*getattr(http, "quotas", []), quota]
        return count <= limit

    def wait(self) -> float | None:
        return self.reset_s


def count_request(key: str, window_s: int) -> tuple[int, int]:
    """(requests in this window with this one, seconds until it ends)."""
    now = time.time()
    ends_at = cache.get_or_set(f"{key}:window", lambda: now + window_s, window_s) or now + window_s
    # The count is named by its window: one that runs out between two calls is never counted on.
    counter = f"{key}:{ends_at:.3f}"
    cache.add(counter, 0, window_s + 1)
    try:
        count = cache.incr(counter)
    except ValueError:
        count = 1  # the cache threw it out to make room
    return count, max(1, round(ends_at - now))


def learner_or_address(throttle: BaseThrottle, request: Request) -> str:
    if isinstance(request.user, Learner):
        return str(request.user.public_id)
    return str(throttle.get_ident(request))


class LearnerThrottle(WindowThrottle):
    """All requests of one learner, or of one address where nobody is signed in."""

    scope = "learner"

    def identity(self, request: Any, view: "APIView | None") -> str:
        return learner_or_address(self, request)


class SubmissionThrottle(WindowThrottle):
    """What makes work: POSTs and PUTs to the views that say `submits = True`."""

    scope = "submission"

    def identity(self, request: Any, view: "APIView | None") -> str | None:
        if request.method not in {"POST", "PUT"} or not getattr(view, "submits", False):
            return None
        return learner_or_address(self, request)


class RegistrationThrottle(WindowThrottle):
    """New accounts, by address."""

    scope = "register"

    def identity(self, request: Any, view: "APIView | None") -> str:
        return str(self.get_ident(request))


class SignInThrottle(WindowThrottle):
    """Guessing one person's password is slow, whoever else signs in from the same address."""

    scope = "sign_in"

    def identity(self, request: Any, view: "APIView | None") -> str:
        body = request.data if hasattr(request, "data") else request.POST
        name = body.get("username", "") if isinstance(body, dict) else ""
        return f"{self.get_ident(request)}:{str(name)[:150].casefold()!r}"
