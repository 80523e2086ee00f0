"""What the embedder sees of the chunks of a corpus, and the keys under which their vectors are kept.

Embedding and indexing must agree on both, so both ask here.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rag_assets.config import CorpusSettings
from rag_assets.embedding.templates import embedded_text, uses_title
from rag_assets.fingerprints import hash_text
from rag_assets.storing.stores import Store

COLUMNS = ("document", "text", "text_hash", "heading_path")
"""The columns of `chunks` that are looked at."""


def embedded_texts(store: Store, corpus: CorpusSettings, chunks: pa.Table) -> tuple[Sequence[str], Sequence[str]]:
    """The key and the text of each row of `chunks`, as the template of the corpus asks."""
    texts = chunks["text"].to_pylist()
    template = corpus.embed_template
    if template is None:
        return chunks["text_hash"].to_pylist(), texts
    documents = chunks["document"].to_pylist()
    titles = _titles(store, corpus, documents) if uses_title(template) else {}
    paths = chunks["heading_path"].to_pylist()
    seen = [
        embedded_text(template, title=titles.get(document) or "", heading_path=path or (), text=text)
        for document, path, text in zip(documents, paths, texts, strict=True)
    ]
    return [hash_text(text) for text in seen], seen


def _titles(store: Store, corpus: CorpusSettings, documents: Sequence[str]) -> Mapping[str, str]:
    wanted = sorted(set(documents))
    found = store.documents(corpus.name).read_where_in("document", wanted, ["document", "title"])
    return dict(zip(found["document"].to_pylist(), found["title"].to_pylist(), strict=True))
