"""What kind of text a document is, by its media type. Strategies that depend on it ask here."""

from collections.abc import Mapping
from typing import Literal

from rag_assets.records import Document

Kind = Literal["markdown", "prose", "code", "data"]

_KINDS: Mapping[str, Kind] = {
    "text/plain": "prose",
    "application/json": "data",
    "application/x-ndjson": "data",
    "application/yaml": "data",
    "application/toml": "code",
    "application/xml": "code",
    "text/x-rst": "markdown",
}


def kind_of(document: Document) -> Kind:
    """Code, data and prose are kept as written; what any other format says reaches us as Markdown."""
    return _KINDS.get(document.mime, "code" if document.mime.startswith("text/x-") else "markdown")
