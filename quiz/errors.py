"""Refusals that reach the caller as problem documents. Plain exceptions: services raise them, and
config/problems.py, named in the settings, turns them into responses."""

from collections.abc import Iterable, Mapping


def pointer_part(key: object) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


class Refusal(Exception):
    """The caller asked for something that the rules do not allow. Says why in a sentence.

    `errors` are (JSON pointer into the body, sentence) pairs.
    """

    status = 409
    slug = "conflict"
    title = "The request conflicts with the present state"
    headers: Mapping[str, str] = {}

    def __init__(self, detail: str, *, errors: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)


class Conflict(Refusal):
    """Somebody or something was faster: the state is no longer the one the caller saw."""


class InvalidInput(Refusal):
    """Values that cannot be accepted; each error points at its field."""

    status = 400
    slug = "invalid-input"
    title = "Some values were not accepted"

    def __init__(self, errors: Iterable[tuple[str, str]]) -> None:
        errors = tuple(errors)
        super().__init__("; ".join(f"{pointer.lstrip('/') or 'body'}: {text}" for pointer, text in errors))
        self.errors = errors


class Closed(Refusal):
    """The activity is not open now."""

    status = 403
    slug = "closed"
    title = "This activity is closed"


class UsedUp(Refusal):
    """No attempt is left."""

    status = 403
    slug = "attempts-used-up"
    title = "No attempt is left"


class NotEnrolled(Refusal):
    """The learner is not in this class."""

    status = 403
    slug = "not-enrolled"
    title = "Not enrolled"


class TooMany(Refusal):
    """The learner already has as many of these under way as one may have."""

    status = 429
    slug = "too-many-active"
    title = "Too many at once"
    headers = {"Retry-After": "2"}


class BadHeader(Refusal):
    """A header that cannot be accepted; the detail names it."""

    status = 400
    slug = "invalid-header"
    title = "A header was not accepted"


class KeyReused(Refusal):
    """An Idempotency-Key that came with another body before."""

    status = 422
    slug = "idempotency-key-reused"
    title = "This key belongs to another request"


class KeyInUse(Refusal):
    """The first request with this Idempotency-Key has not been answered yet."""

    slug = "idempotency-key-in-use"
    title = "The first request is still under way"
    headers = {"Retry-After": "1"}
