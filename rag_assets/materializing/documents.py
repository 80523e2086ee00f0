"""Source files become rows of `documents`: text, title, hashes, and a status that later stages carry on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError
from rag_assets.fingerprints import hash_bytes
from rag_assets.generations import Generation, generation_of
from rag_assets.materializing.reports import PREVIEW, Progress, StageReport, no_progress, set_aside
from rag_assets.reading.documents import read_document
from rag_assets.reading.source import Source, SourceFile
from rag_assets.records import DOCUMENTS, Document
from rag_assets.storing.ledger import KnownDocument, change, failure, known_documents
from rag_assets.storing.stores import Store

# Nothing is known of a file that could not be read, so that the next scan takes it up as soon as it can be.
_UNREAD: Mapping[str, object] = dict.fromkeys(("byte_hash", "bytes", "modified_ns", "revision", "read_at"))


def read_documents(
    store: Store,
    corpus: CorpusSettings,
    source: Source,
    documents: Sequence[str],
    *,
    run_id: str,
    progress: Progress = no_progress,
) -> StageReport:
    """Read `documents` from their source and replace their rows, in one commit.

    A document that cannot be read keeps its last good text and is marked `failed` with the reason.
    """
    table = store.documents(corpus.name)
    known = known_documents(table, documents)
    generation = generation_of(corpus)
    rows: list[dict[str, Any]] = []
    figures: dict[str, dict[str, object]] = {}
    failed: dict[str, DocumentError] = {}
    changes: dict[str, dict[str, object]] = {}
    for done, name in enumerate(documents):
        progress("documents", done, len(documents))
        file = set_aside(lambda name=name: source.read(name), failed, name)  # type: ignore[misc]
        document = file and set_aside(lambda name=name, file=file: _read(name, file), failed, name)  # type: ignore[misc]
        if file and document:
            rows.append(_row(document, file, known.get(name), generation, run_id))
            figures[name] = _figures(document, file)
            continue
        columns = _failure(failed[name], file, known.get(name), generation, run_id)
        if name in known:
            changes[name] = columns
        else:
            rows.append({"document": name} | columns)
    progress("documents", len(documents), len(documents))
    if rows:
        table.replace([row["document"] for row in rows], pa.Table.from_pylist(rows, schema=DOCUMENTS))
    if changes:
        change(table, changes)
    return StageReport(documents=figures, failed=failed)


def _read(name: str, file: SourceFile) -> Document:
    return read_document(name, file.data, file.content_type)


def _row(
    document: Document, file: SourceFile, known: KnownDocument | None, generation: Generation, run_id: str
) -> dict[str, Any]:
    source = _source_columns(file)
    return {
        "document": document.document,
        "title": document.title,
        "mime": document.mime,
        "text": document.text,
        "text_hash": document.text_hash,
        "metadata": json.dumps(document.metadata, ensure_ascii=False),
        "first_line": document.first_line,
        "lossy": document.lossy,
        "page_starts": list(document.page_starts),
        "source_uri": file.uri,
        **source,
        "text_since": known.text_since if known and known.text_hash == document.text_hash else file.read_at,
        "reader": generation.reader,
        "status": "pending",
        "attempts": known.attempts if known and _is_same(known, source["byte_hash"], generation) else 0,
        "generation": known.generation if known else None,
        "indexed_at": known.indexed_at if known else None,
        "run_id": run_id,
    }


def _failure(
    error: DocumentError, file: SourceFile | None, known: KnownDocument | None, generation: Generation, run_id: str
) -> dict[str, object]:
    columns = _source_columns(file) if file else _UNREAD
    return {
        **columns,
        **failure(known, "read", error, same_content=_is_same(known, columns["byte_hash"], generation)),
        "reader": generation.reader,
        "generation": generation.id,
        "run_id": run_id,
    }


def _is_same(known: KnownDocument | None, byte_hash: object, generation: Generation) -> bool:
    """Whether the last attempt was made on the same bytes, with the same code and configuration."""
    made = (byte_hash, generation.reader, generation.id)
    return known is not None and (known.byte_hash, known.reader, known.generation) == made


def _source_columns(file: SourceFile) -> dict[str, object]:
    return {
        "byte_hash": hash_bytes(file.data),
        "bytes": file.entry.bytes,
        "modified_ns": file.entry.modified_ns,
        "revision": file.entry.revision,
        "read_at": file.read_at,
    }


def _figures(document: Document, file: SourceFile) -> dict[str, object]:
    return {
        "title": document.title,
        "mime": document.mime,
        "bytes": file.entry.bytes,
        "characters": len(document.text),
        "lossy": document.lossy,
        "page_starts": list(document.page_starts),
        "source_uri": file.uri,
        "preview": document.text[:PREVIEW],
    }
