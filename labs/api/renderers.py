"""What else than JSON the API answers with. An error met on the way is still a problem document."""

from typing import Any

from rest_framework.renderers import BaseRenderer, JSONRenderer


class SchemaRenderer(JSONRenderer):
    media_type = "application/schema+json"
    format = "schema"


class VegaLiteRenderer(JSONRenderer):
    media_type = "application/vnd.vegalite+json"
    format = "json"


class RawRenderer(BaseRenderer):
    charset: str | None = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
        if isinstance(data, (bytes, str)):
            return data
        return JSONRenderer().render(data)


class SvgRenderer(RawRenderer):
    media_type, format, charset = "image/svg+xml", "svg", "utf-8"


class PngRenderer(RawRenderer):
    media_type, format = "image/png", "png"
    render_style = "binary"


class CsvRenderer(RawRenderer):
    media_type, format, charset = "text/csv", "csv", "utf-8"


class EventStreamRenderer(RawRenderer):
    """Named for content negotiation; events are written by labs.streaming."""

    media_type, format = "text/event-stream", "events"
