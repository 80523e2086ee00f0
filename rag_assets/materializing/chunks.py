"""Rows of `documents` become rows of `chunks`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError
from rag_assets.generations import generation_of
from rag_assets.materializing.reports import Progress, StageReport, no_progress, set_aside, why_skipped
from rag_assets.records import CHUNKS, Chunk, Document
from rag_assets.storing.ledger import change, failure, known_documents
from rag_assets.storing.stores import Store

_COLUMNS = ["document", "title", "mime", "text", "text_hash", "metadata", "first_line", "lossy", "page_starts"]


def chunk_documents(
    store: Store, corpus: CorpusSettings, documents: Sequence[str], *, progress: Progress = no_progress
) -> StageReport:
    """Cut those of `documents` that were read, and replace their chunks in one commit. No text, no chunks."""
    known = known_documents(store.documents(corpus.name), documents)
    good = [name for name in documents if name in known and known[name].status != "failed"]
    chunking = generation_of(corpus).chunking
    rows: list[dict[str, Any]] = []
    figures: dict[str, dict[str, object]] = {}
    failed: dict[str, DocumentError] = {}
    for done, row in enumerate(store.documents(corpus.name).read_where_in("document", good, _COLUMNS).to_pylist()):
        progress("chunks", done, len(good))
        document = Document(
            document=row["document"],
            title=row["title"],
            mime=row["mime"],
            text=row["text"],
            metadata=json.loads(row["metadata"]),
            first_line=row["first_line"],
            lossy=row["lossy"],
            page_starts=row["page_starts"] or (),
        )
        chunks = set_aside(
            lambda document=document: chunk_document(document, corpus.chunking),  # type: ignore[misc]
            failed,
            document.document,
        )
        if chunks is not None:
            rows += [_row(chunk, row["text_hash"], chunking) for chunk in chunks]
            figures[document.document] = {
                "title": document.title,
                "chunks": len(chunks),
                "tokens": sum(chunk.tokens for chunk in chunks),
            }
    progress("chunks", len(good), len(good))
    store.chunks(corpus.name).replace(list(figures), pa.Table.from_pylist(rows, schema=CHUNKS))
    if failed:
        changes = {
            name: failure(known[name], "chunk", error, same_content=True) | {"generation": generation_of(corpus).id}
            for name, error in failed.items()
        }
        change(store.documents(corpus.name), changes, of_bytes={name: known[name].byte_hash for name in changes})
    skipped = {name: why_skipped(known.get(name)) for name in sorted(set(documents) - set(good))}
    return StageReport(documents=figures, failed=failed, skipped=skipped)


def _row(chunk: Chunk, document_hash: str, chunking: str) -> dict[str, Any]:
    return {
        **asdict(chunk),
        "heading_path": list(chunk.heading_path),
        "document_hash": document_hash,
        "chunking": chunking,
    }
