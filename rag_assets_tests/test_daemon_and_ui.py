"""The real thing: `dagster dev` with its daemon and webserver follows a folder, and a browser shows it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_assets_tests.platform import REPOSITORY, Platform

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_SECONDS = 180

pytestmark = [pytest.mark.daemon, pytest.mark.slow, pytest.mark.timeout(600)]


class Served:
    """A platform with `dagster dev` running on it."""

    def __init__(self, platform: Platform, port: int) -> None:
        self.platform = platform
        self.url = f"http://127.0.0.1:{port}"

    def query(self, query: str) -> dict[str, Any]:
        body = json.dumps({"query": query}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            data = json.load(response)["data"]
        assert isinstance(data, dict)
        return data

    def searchable(self) -> int:
        """How many documents readers find, once all that is indexed is published."""
        status = self.platform.status()
        return int(status["documents"]["indexed"]) if status["index_version"] and status["coverage"] == 1.0 else 0

    def runs(self, job: str) -> list[dict[str, Any]]:
        query = '{ runsOrError(filter: {pipelineName: "%s"}) { ... on Runs { results { runId status } } } }'
        results = self.query(query % job)["runsOrError"]["results"]
        assert isinstance(results, list)
        return results


def wait_until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if true():
                return
        except OSError:
            pass
        time.sleep(0.5)
    pytest.fail(f"waited {PATIENCE_SECONDS} s in vain: {what}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("served")
    platform = Platform(root, options={"scan_seconds": 1, "settle_seconds": 2})
    for number in range(3):
        platform.write(f"page{number}.md", f"# Page {number}\n\nThe text of page number{number}.")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workspace", str(REPOSITORY / "workspace.yaml")]
    with (root / "dev.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=_environment(platform), stdout=log, stderr=log, start_new_session=True
        )
        try:
            served = Served(platform, port)
            wait_until(lambda: bool(served.query("{ version }")), "the webserver answers")
            yield served
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment(platform: Platform) -> dict[str, str]:
    return os.environ | platform.environment


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
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt install chromium)")
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
    dom = ""
    for _ in range(3):  # a busy machine may not have drawn everything within the browser's time
        dom = _dom(f"{served.url}{path}", tmp_path)
        if all(text in dom for text in shown):
            return
    missing = [text for text in shown if text not in dom]
    pytest.fail(f"{path} does not show {missing}")


def _dom(url: str, profile: Path) -> str:
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
    options += ["--window-size=1500,950", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, url], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout
