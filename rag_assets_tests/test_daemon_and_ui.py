"""The real thing: `dagster dev` with its daemon and webserver follows a folder, and a browser shows it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets_tests.platform import Platform
from rag_assets_tests.screenshots.browser import CHROMIUM, MISSING, browser
from rag_assets_tests.serving import Served, served_platform, wait_until

pytestmark = [pytest.mark.daemon, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    platform = Platform(tmp_path_factory.mktemp("served"), options={"scan_seconds": 1, "settle_seconds": 2})
    for number in range(3):
        platform.write(f"page{number}.md", f"# Page {number}\n\nThe text of page number{number}.")
    with served_platform(platform) as served:
        yield served


def test_the_daemon_turns_new_files_into_one_run(served: Served):
    wait_until(lambda: served.searchable() >= 3, "three documents are searchable")
    assert len(served.runs("notes_ingest")) == 1
    assert served.platform.search("number1", "--mode", "text")[0]["document"] == "page1.md"


def test_a_growing_file_is_published_once_and_whole(served: Served):
    """Case 17: appended to for five seconds while the sensor ticks; never half a file is seen, one run after."""
    wait_until(lambda: served.searchable() >= 3, "three documents are searchable")
    runs = len(served.runs("notes_ingest"))
    path = served.platform.corpus / "growing.md"
    lines = [f"Line {number} of the growing file.\n\n" for number in range(20)]
    seen: set[int] = set()
    with path.open("w") as file:
        for line in lines:
            file.write(line)
            file.flush()
            time.sleep(0.25)
            seen.add(len(served.platform.search("growing", "--mode", "text")))
    assert seen == {0}
    wait_until(lambda: len(served.platform.search("growing", "--mode", "text")) == 20, "the whole file is found")
    assert len(served.runs("notes_ingest")) == runs + 1


def test_the_daemon_removes_what_is_deleted(served: Served):
    wait_until(lambda: served.searchable() >= 3, "the documents are searchable")
    (served.platform.corpus / "page2.md").unlink()
    wait_until(lambda: "page2.md" not in served.platform.partitions(), "the partition is gone")
    assert served.platform.search("number2", "--mode", "text") == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/asset-groups", ["documents", "chunks", "embeddings", "index", "published_index"]),
        ("/assets/notes/documents?view=partitions&partition=page1.md", ["page1.md", "Materialized", "source_uri"]),
        ("/assets/notes/published_index?view=checks", ["every_document_is_indexed", "no_deletion_is_withheld"]),
        ("/locations/rag_assets/sensors/notes_corpus_sensor", ["notes_corpus_sensor", "vanished ones removed"]),
    ],
)
def test_the_ui_shows_it(served: Served, tmp_path: Path, path: str, shown: list[str]):
    wait_until(lambda: served.searchable() >= 2, "the documents are searchable")
    with browser(tmp_path) as tab:
        tab.open(f"{served.url}{path}", width=1500, height=950)
        tab.wait_for(shown)
