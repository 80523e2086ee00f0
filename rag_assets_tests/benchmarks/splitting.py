"""How fast the text of each format is split, beside the library that splits such text, alone and in the same run.

semantic-text-splitter is written in Rust and given the same limit, overlap and tokenizer. It says where a piece starts;
ids, hashes, lines, pages, heading paths and cuts that survive an edit are ours.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import tree_sitter_python
from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter

from rag_assets.chunking.chunks import chunk_document
from rag_assets.chunking.kinds import kind_of
from rag_assets.config import ChunkingSettings
from rag_assets.reading.documents import read_document
from rag_assets.records import Document
from rag_assets_tests.benchmarks.format_files import made_up
from rag_assets_tests.benchmarks.measuring import cpu_seconds, medians_in_turn
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size

_GOAL = 0.8
_FILES = ("a.md", "a.rst", "a.html", "a.pdf", "a.docx", "a.pptx", "a.xlsx", "a.txt", "a.json", "a.yaml", "a.py")
_MODEL = "gpt-4"  # whose tokenizer is cl100k_base


def run(size: Size, folder: Path) -> Report:
    copies, repeats = (2, 1) if size == "tiny" else (60, 7)
    settings = ChunkingSettings()
    files = made_up(copies)
    figures = []
    for name in _FILES:
        document = read_document(name, files[name])
        chunk_document(document, settings)  # loads the tokenizer
        what, split = _library(document, settings)
        ours = partial(cpu_seconds, partial(chunk_document, document, settings))
        theirs = partial(cpu_seconds, partial(split, document.text))
        megabytes = len(document.text.encode()) / 1e6
        rate, raw = (megabytes / max(each, 1e-9) for each in medians_in_turn(repeats, ours, theirs))
        figures.append(Figure(name, rate, "MB/s", Baseline(what, raw), Goal("at least", round(_GOAL * raw, 3))))
    return Report(
        name="splitting",
        title="Splitting with `auto`, in MB of text a second of CPU",
        figures=figures,
        notes=[f"Files of {copies} sections, pages or slides. Median of {repeats}, in turn."],
    )


def _library(document: Document, settings: ChunkingSettings) -> tuple[str, Callable[[str], object]]:
    limits = (settings.max_tokens, settings.overlap_tokens)
    match kind_of(document):
        case "markdown":
            return "MarkdownSplitter", MarkdownSplitter.from_tiktoken_model(_MODEL, *limits).chunk_indices
        case "code":
            language = tree_sitter_python.language()
            return "CodeSplitter", CodeSplitter.from_tiktoken_model(language, _MODEL, *limits).chunk_indices
    return "TextSplitter", TextSplitter.from_tiktoken_model(_MODEL, *limits).chunk_indices
