"""A form that was sent twice, by a double click or after a lost reply, is carried out once.

The page puts a token into its form (`{% once %}`); token and content together are an Idempotency-Key. The same form
with other values is another intent: browsers keep a page, and with it its token.
"""

import hashlib
import time
from collections.abc import Callable

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpRequest, HttpResponseRedirect

from quiz import services
from quiz.asking import learner_of
from quiz.errors import KeyInUse
from quiz.models import KeyedAnswer

FIELD = "once"
LONGEST = 64
# A second click is answered with what the first one made; that takes the first one milliseconds.
PATIENCE_S = 10.0
PAUSE_S = 0.05
BESIDE_THE_CONTENT = {FIELD, "csrfmiddlewaretoken"}


def redirect_once(request: HttpRequest, carry_out: Callable[[], str]) -> HttpResponseRedirect:
    """Carry out a form and lead to the address that it returns. Its refusals pass, and may be mended and sent again."""
    token = request.POST.get(FIELD, "")[:LONGEST]
    if not token:
        return HttpResponseRedirect(carry_out())
    row = claim(request, f"{token} {fingerprint_of(request)}")
    if row.status is not None:
        return HttpResponseRedirect(row.headers["Location"])
    try:
        with transaction.atomic():
            location = carry_out()
            services.keep_answer(row=row, status=302, headers={"Location": location}, body="")
    except BaseException:
        services.release_key(row=row)
        raise
    return HttpResponseRedirect(location)


def claim(request: HttpRequest, key: str) -> KeyedAnswer:
    """The key's row; while another request carries the form out, wait for what becomes of it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return services.claim_key(learner=learner_of(request), path=request.path, key=key, fingerprint="")
        except KeyInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def fingerprint_of(request: HttpRequest) -> str:
    """Of everything that was sent, chosen files included."""
    digest = hashlib.sha256()
    for name, values in sorted(request.POST.lists()):
        if name not in BESIDE_THE_CONTENT:
            digest.update(repr((name, values)).encode())
    for name in sorted(request.FILES):
        file = request.FILES[name]
        assert isinstance(file, UploadedFile)
        digest.update(repr((name, file.name, file.size)).encode())
        for chunk in file.chunks():
            digest.update(chunk)
        file.seek(0)
    return digest.hexdigest()
