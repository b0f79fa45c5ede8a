"""A file that comes as the whole body, or as a part of a form: read in parts, never whole into memory."""

from collections.abc import Iterator
from typing import IO, Any

from django.core.files.uploadedfile import UploadedFile
from django.utils.http import parse_header_parameters
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.request import Request

from quiz.errors import InvalidInput

CHUNK_BYTES = 2**18
FILE = "file"


class RawFile:
    """A body that is a file. Under ASGI the server has written it to a temporary file already."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def chunks(self) -> Iterator[bytes]:
        while part := self.stream.read(CHUNK_BYTES):
            yield part


class RawParser(BaseParser):
    media_type = "application/octet-stream"

    def parse(  # type: ignore[override]  # its stubs know only JSON and forms
        self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None
    ) -> RawFile:
        return RawFile(stream)


class GzipParser(RawParser):
    media_type = "application/gzip"


class JsonLinesParser(RawParser):
    media_type = "application/x-ndjson"


UPLOAD_PARSERS = [GzipParser, JsonLinesParser, RawParser, MultiPartParser]


def uploaded(request: Request) -> tuple[str, Iterator[bytes]]:
    """(name, the file in parts). InvalidInput where a form has no file."""
    data = request.data
    asked = request.query_params.get("name", "")
    if isinstance(data, RawFile):
        return asked or name_in_header(request), data.chunks()
    file = request.FILES.get(FILE)
    if isinstance(file, UploadedFile):
        return asked or request.POST.get("name") or file.name or "", iter(file.chunks(CHUNK_BYTES))
    if isinstance(data, dict) and data:
        raise InvalidInput([(f"/{FILE}", "is what this form has to bring")])
    return asked, iter(())


def name_in_header(request: Request) -> str:
    """Of Content-Disposition, plain or in another script (RFC 8187); empty where there is none that can be read."""
    try:
        _, given = parse_header_parameters(request.headers.get("Content-Disposition", ""))
    except (ValueError, LookupError):  # LookupError: a charset that is none
        return ""
    return str(given.get("filename", ""))
