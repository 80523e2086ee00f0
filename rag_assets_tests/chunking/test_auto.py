"""The strategy that suits the format."""

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.reading.formats import FORMATS
from rag_assets.records import Document

TEXT = "# Title\n\nfirst: A sentence. " + "Another sentence stands here. " * 20 + "\n\ndef f(a):\n    return a\n" * 9


def cut(mime, strategy):
    return chunk_document(Document("a", "a", mime, TEXT), ChunkingSettings(strategy=strategy, max_tokens=60))


@pytest.mark.parametrize(
    ("mime", "strategy"),
    [
        ("text/markdown", "markdown"),
        ("text/html", "markdown"),
        ("text/x-rst", "markdown"),
        ("application/pdf", "markdown"),
        ("text/csv", "markdown"),
        ("text/plain", "sentence"),
        ("text/x-python", "code_function"),
        ("text/x-kotlin", "code_function"),
        ("application/toml", "code_function"),
        ("application/yaml", "yaml_block"),
        ("application/json", "yaml_block"),
        ("application/x-ndjson", "yaml_block"),
    ],
)
def test_auto_does_what_the_strategy_for_the_format_does(mime, strategy):
    assert cut(mime, "auto") == cut(mime, strategy)


def test_text_that_is_kept_as_written_is_never_read_as_markdown():
    kept = [kind.mime for kind in FORMATS if kind.markup != "markdown"]
    assert [mime for mime in kept if cut(mime, "auto") == cut(mime, "markdown")] == []
