"""From the edit of one page to finding it: what is embedded again, and how long a reader waits."""

from functools import partial
from pathlib import Path
from statistics import median

from rag_assets.chunking.chunks import chunk_document
from rag_assets.reading.documents import read_document
from rag_assets_tests.benchmarks.corpora import missing_pages, pages_of, pages_platform
from rag_assets_tests.benchmarks.measuring import COMMAND_LINE, python_seconds, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform

_TITLE = "One page edited"
_EDITS = {"tiny": 1, "full": 3}


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("one_edit", _TITLE, skipped=why)
    platform = pages_platform(folder, size)
    first = wall_seconds(platform.ingest)
    pages, edits = pages_of(platform), _EDITS[size]
    places = [len(pages) * (2 * number + 1) // (4 * edits) for number in range(2 * edits)]
    before = platform.status()["vectors"]
    changed = 0
    warm: list[float] = []
    cold: list[float] = []
    for number, place in enumerate(places):
        page, word = pages[place], f"quokka{number}"
        changed += _edit(platform, page, word)
        if number % 2:
            cold.append(wall_seconds(partial(_ingest_afresh_and_find, platform, page, word)))
        else:
            warm.append(wall_seconds(partial(_ingest_and_find, platform, page, word)))
    embedded = platform.status()["vectors"] - before
    start = python_seconds("-c", "import dagster, lance")
    return Report(
        name="one_edit",
        title=_TITLE,
        figures=[
            Figure(
                "edit to found, in a process that runs already",
                median(warm),
                "s",
                Baseline(f"first ingest of {len(pages)} pages", first),
            ),
            Figure(
                "edit to found, `rag-assets ingest` afresh",
                median(cold),
                "s",
                Baseline("a fresh Python that imports dagster and lance", start),
            ),
            Figure(
                f"texts embedded, {len(places)} edits",
                embedded,
                "texts",
                Baseline("chunks whose text changed", changed),
                Goal("at most", changed),
            ),
        ],
        notes=[f"A sentence is added in the middle of a page, another page each time; wall time, median of {edits}."],
    )


def _ingest_and_find(platform: Platform, page: str, word: str) -> None:
    platform.ingest()
    _must_find(platform, page, word)


def _ingest_afresh_and_find(platform: Platform, page: str, word: str) -> None:
    python_seconds(*COMMAND_LINE, "ingest", environment=platform.environment)
    _must_find(platform, page, word)


def _edit(platform: Platform, page: str, word: str) -> int:
    """Add a sentence with `word` in the middle of `page`, and return how many chunks have a text that was not there."""
    path = platform.corpus / page
    text = path.read_text(encoding="utf-8")
    before = _texts(platform, page)
    middle = text.index("\n\n", len(text) // 2)
    path.write_text(f"{text[:middle]}\n\nThe {word} came by here.{text[middle:]}", encoding="utf-8")
    return len(_texts(platform, page) - before)


def _texts(platform: Platform, page: str) -> set[str]:
    document = read_document(page, (platform.corpus / page).read_bytes())
    return {chunk.text_hash for chunk in chunk_document(document, platform.notes.chunking)}


def _must_find(platform: Platform, page: str, word: str) -> None:
    found = [result["document"] for result in platform.search(word, "--mode", "text")]
    assert found == [page], f"{word} was written to {page}, and is found in {found}"
