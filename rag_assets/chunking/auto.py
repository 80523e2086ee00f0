"""The strategy that suits the format of a document."""

from collections.abc import Callable, Iterable, Mapping

from rag_assets.chunking import code_function, markdown, sentence, yaml_block
from rag_assets.chunking.kinds import Kind, kind_of
from rag_assets.chunking.limits import Limits
from rag_assets.records import Document, Span

_BY_KIND: Mapping[Kind, Callable[[Document, Limits], Iterable[Span]]] = {
    "markdown": markdown.split_markdown,
    "prose": sentence.split_sentences,
    "code": code_function.split_code_functions,
    "data": yaml_block.split_yaml_blocks,
}
VERSION = f"1.{markdown.VERSION}.{sentence.VERSION}.{code_function.VERSION}.{yaml_block.VERSION}"


def split_by_format(document: Document, limits: Limits) -> Iterable[Span]:
    """What the strategy for the kind of text makes."""
    return _BY_KIND[kind_of(document)](document, limits)
