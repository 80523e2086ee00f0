"""The corpora that are measured: pages that somebody wrote, and small files in any number."""

import shutil
from collections.abc import Sequence
from pathlib import Path

# Sets the size of event batches. A platform puts the environment back after each command, so it must be set before.
from rag_assets import dagster_storage  # noqa: F401
from rag_assets_tests.benchmarks.measuring import REPOSITORY
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import set_age

PAGES = REPOSITORY.parent / "shared" / "corpora" / "fastapi-docs"
# The first of them by name: a whole first ingest takes half a minute on two cores, and four benchmarks begin with one.
_HOW_MANY = 60
_MADE_UP = """# Page {number}

Whoever reads page {number} learns about pass {number}. The pass is closed from November to May.

Its height is {number}00 metres above the sea, as measured by the road office.

## How to get there

A bus leaves the station every {number} hours, and walkers follow the signs of the old mule track.
"""


def missing_pages(size: Size) -> str | None:
    """Why there are no pages to measure with, or None. The tiny ones are made up."""
    if size == "tiny" or PAGES.is_dir():
        return None
    return f"{PAGES.relative_to(REPOSITORY.parent)} is not beside the repository"


def pages_platform(root: Path, size: Size) -> Platform:
    """A platform over the pages, with the default embedder and chunking. Nothing is ingested yet."""
    platform = Platform(root, options={"embedding": {"provider": "local"}, "chunking": {}})
    if size == "tiny":
        for number in (1, 2, 3):
            set_age(platform.write(f"{number}.md", _MADE_UP.format(number=number)), 60)
        return platform
    for page in sorted(PAGES.rglob("*.md"))[:_HOW_MANY]:
        copy = platform.corpus / page.relative_to(PAGES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(page, copy)
    return platform


def pages_of(platform: Platform) -> Sequence[str]:
    """The names of the pages of `platform`, in order."""
    return sorted(page.relative_to(platform.corpus).as_posix() for page in platform.corpus.rglob("*.md"))


def write_small_files(platform: Platform, count: int, *, first: int = 0) -> None:
    """Add `count` files of one sentence each, numbered from `first`, a hundred to a folder, all written a minute ago."""
    for number in range(first, first + count):
        name = f"{number // 100:03}/{number:05}.md"
        set_age(platform.write(name, f"Document {number} tells of thing {number}, and of nothing else.\n"), 60)
