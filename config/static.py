"""Static files under hashed names, ES-module imports rewritten to them; sent without a warning under ASGI."""

from collections.abc import AsyncIterator
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

PART_BYTES = 64 * 1024


class ManifestStorage(CompressedManifestStaticFilesStorage):
    """Lets `import "./x.js"` in a module find the hashed name, so that no build step is needed."""

    support_js_module_import_aggregation = True
    # Before collectstatic has run (tests, a developer's first look) the plain name is served.
    manifest_strict = False


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise answers with a file, a synchronous iterator. Under ASGI Django would read it to its end before the
    first byte leaves, and warn of that with every file; here it is read part by part as it is sent."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponseBase:
        response = WhiteNoiseMiddleware.serve(static_file, request)
        if isinstance(request, ASGIRequest):
            # The response goes on holding the file, and closes it.
            response.streaming_content = parts(response.file_to_stream)
        return response


async def parts(file: IO[bytes] | None) -> AsyncIterator[bytes]:
    """The file's bytes; none for an answer without a body."""
    if file is None:
        return
    read = sync_to_async(file.read, thread_sensitive=False)
    while part := await read(PART_BYTES):
        yield part
