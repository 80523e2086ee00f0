"""What a source says of a document beside its bytes, as HTTP does: `text/html; charset=iso-8859-2`.

A server guesses as well: what everything is by default, and formats that nobody reads, tell nothing.
"""

from dataclasses import dataclass

from rag_assets.reading.formats import BY_MIME, Format

_ALIASES = {
    "application/xhtml+xml": "text/html",
    "text/x-markdown": "text/markdown",
    "application/csv": "text/csv",
    "text/json": "application/json",
    "application/jsonl": "application/x-ndjson",
    "application/x-yaml": "application/yaml",
    "text/yaml": "application/yaml",
    "text/x-yaml": "application/yaml",
    "text/xml": "application/xml",
    "application/javascript": "text/x-javascript",
    "text/javascript": "text/x-javascript",
}


@dataclass(frozen=True)
class ContentType:
    """The format that is meant and the encoding, None where nothing is said."""

    kind: Format | None = None
    charset: str | None = None


def parse_content_type(stated: str | None) -> ContentType:
    """What the header `stated` says. `text/plain` names no format: so servers call all text that they do not know."""
    if stated is None:
        return ContentType()
    from email.message import Message  # most sources say nothing

    message = Message()
    message["Content-Type"] = " ".join(stated.split())
    mime = message.get_content_type()
    mime = _ALIASES.get(mime, mime)
    return ContentType(None if mime == "text/plain" else BY_MIME.get(mime), message.get_content_charset())
