"""`python -m rag_assets_tests.format_outcomes FOLDER`: what becomes of every file of a folder, as a Markdown table."""

import sys
from collections.abc import Iterator
from pathlib import Path

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.errors import DocumentError
from rag_assets.reading.documents import read_document
from rag_assets.reading.formats import FORMATS, format_by_name
from rag_assets.reading.markdown_writing import table
from rag_assets.records import Document

_FORMAT_NAMES = {kind.mime: kind.name for kind in FORMATS}


def outcomes(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Name, format and outcome of every file in `folder`, by name: figures of what was indexed, or `set aside: reason`."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        try:
            document = read_document(name, path.read_bytes())
        except DocumentError as error:
            named = format_by_name(name)
            yield name, named.name if named else "", f"set aside: {error.reason}"
            continue
        yield name, _FORMAT_NAMES[document.mime], _indexed(document)


def _indexed(document: Document) -> str:
    chunks = chunk_document(document, ChunkingSettings())
    if not chunks:
        return "empty"
    figures = [_counted(len(document.text), "character"), _counted(len(chunks), "chunk")]
    if document.page_starts:
        figures.append(_counted(len(document.page_starts), "page"))
    if document.lossy:
        figures.append("encoding guessed")
    return ", ".join(figures)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def main() -> None:
    """See the module."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m rag_assets_tests.format_outcomes FOLDER")
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, kind, outcome in outcomes(Path(sys.argv[1])):
        apart = "" if outcome.startswith("set aside") else name  # files that are set aside for one reason share a row
        rows.setdefault((apart, kind, outcome), []).append(name)
    lines = [(", ".join(names), kind, outcome) for (_, kind, outcome), names in rows.items()]
    print(table([("file", "format", "outcome"), *lines]))


if __name__ == "__main__":
    main()
