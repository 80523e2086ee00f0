"""Which formats are read, by what, and under which endings. A new format is one module and one line here.

This is data: nothing is imported until a file of the format is read. `detecting.py` chooses the format of a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Markup = Literal["markdown", "plain", "code"]


@dataclass(frozen=True)
class Format:
    """A format, and the module below `rag_assets.reading` whose `read(data)` makes `Content` of its bytes.

    `endings` are separated by blanks. `markup` says what the text of such a document is. `container` formats are not
    text: their bytes tell them apart, whatever the name. `extra` must be installed where the module needs it.
    """

    name: str
    module: str
    mime: str
    endings: str
    markup: Markup = "markdown"
    container: bool = False
    extra: str | None = None


_OOXML = "application/vnd.openxmlformats-officedocument"

MARKDOWN = Format("Markdown", "markdown", "text/markdown", ".md .markdown .mdx")
TEXT = Format("plain text", "plain", "text/plain", ".txt .text .adoc .org .tex", "plain")
HTML = Format("HTML", "html", "text/html", ".html .htm .xhtml")
PDF = Format("PDF", "pdf", "application/pdf", ".pdf", container=True)
DOCX = Format("Word", "docx", f"{_OOXML}.wordprocessingml.document", ".docx .docm", container=True)
PPTX = Format(
    "PowerPoint", "pptx", f"{_OOXML}.presentationml.presentation", ".pptx .pptm .ppsx", container=True, extra="office"
)
XLSX = Format("Excel", "xlsx", f"{_OOXML}.spreadsheetml.sheet", ".xlsx .xlsm .xlsb", container=True)
XLS = Format("Excel 97", "xlsx", "application/vnd.ms-excel", ".xls", container=True)
ODS = Format(
    "OpenDocument spreadsheet", "xlsx", "application/vnd.oasis.opendocument.spreadsheet", ".ods", container=True
)
EPUB = Format("EPUB", "epub", "application/epub+zip", ".epub", container=True)
XML = Format("XML", "xml", "application/xml", ".xml", "code")

FORMATS = (
    MARKDOWN,
    TEXT,
    Format("reStructuredText", "rst", "text/x-rst", ".rst .rest"),
    HTML,
    PDF,
    DOCX,
    PPTX,
    XLSX,
    XLS,
    ODS,
    Format("CSV", "delimited", "text/csv", ".csv"),
    Format("TSV", "delimited", "text/tab-separated-values", ".tsv .tab"),
    EPUB,
    Format("Jupyter notebook", "notebook", "application/x-ipynb+json", ".ipynb"),
    Format("e-mail", "mail", "message/rfc822", ".eml"),
    Format("JSON", "plain", "application/json", ".json", "code"),
    Format("JSON Lines", "plain", "application/x-ndjson", ".jsonl .ndjson", "code"),
    Format("YAML", "plain", "application/yaml", ".yaml .yml", "code"),
    Format("TOML", "plain", "application/toml", ".toml", "code"),
    Format("settings", "plain", "text/x-ini", ".ini .cfg .conf .properties", "code"),
    XML,
    Format("Python", "plain", "text/x-python", ".py .pyi", "code"),
    Format("JavaScript", "plain", "text/x-javascript", ".js .mjs .cjs .jsx", "code"),
    Format("TypeScript", "plain", "text/x-typescript", ".ts .mts .cts", "code"),
    Format("TSX", "plain", "text/x-tsx", ".tsx", "code"),
    Format("Java", "plain", "text/x-java", ".java", "code"),
    Format("Kotlin", "plain", "text/x-kotlin", ".kt .kts", "code"),
    Format("Scala", "plain", "text/x-scala", ".scala", "code"),
    Format("Go", "plain", "text/x-go", ".go", "code"),
    Format("Rust", "plain", "text/x-rust", ".rs", "code"),
    Format("C", "plain", "text/x-c", ".c .h", "code"),
    Format("C++", "plain", "text/x-cpp", ".cpp .cc .cxx .hpp .hh .hxx", "code"),
    Format("C#", "plain", "text/x-csharp", ".cs", "code"),
    Format("Swift", "plain", "text/x-swift", ".swift", "code"),
    Format("Ruby", "plain", "text/x-ruby", ".rb", "code"),
    Format("PHP", "plain", "text/x-php", ".php", "code"),
    Format("Lua", "plain", "text/x-lua", ".lua", "code"),
    Format("R", "plain", "text/x-r", ".r", "code"),
    Format("Shell", "plain", "text/x-bash", ".sh .bash .zsh", "code"),
    Format("SQL", "plain", "text/x-sql", ".sql", "code"),
)

BY_ENDING: Mapping[str, Format] = {ending: kind for kind in FORMATS for ending in kind.endings.split()}
BY_MIME: Mapping[str, Format] = {kind.mime: kind for kind in FORMATS}

INCLUDE = tuple(f"**/*{ending}" for ending in BY_ENDING)
"""A glob for every ending that can be read: what a corpus includes unless it says otherwise."""


def format_by_name(document: str) -> Format | None:
    """The format that the ending of the path `document` promises, None for an ending that is not in the list.

    A path that ends in a slash has none: the first page of `docs.rs` is no program in Rust.
    """
    return None if document.endswith("/") else BY_ENDING.get(PurePosixPath(document).suffix.lower())


def markup_of(document: str) -> Markup:
    """What the text of `document` is: Markdown, prose as it was written, or code and data."""
    kind = format_by_name(document)
    return kind.markup if kind else "plain"
