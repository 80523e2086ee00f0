"""The scenarios of `make bench-peers`, with rag_assets and without an environment for the peers."""

from collections.abc import Sequence
from pathlib import Path

from rag_assets_tests.benchmarks.peers import use_rag_assets
from rag_assets_tests.benchmarks.peers.__main__ import column
from rag_assets_tests.benchmarks.peers.peer import Job, Report, do
from rag_assets_tests.benchmarks.peers.scenarios import STEPS, cells


def test_rag_assets_sends_what_is_new_and_nothing_else(tmp_path: Path):
    found = cells(tmp_path, lambda job: do(job, use_rag_assets.ingest, use_rag_assets.rows))
    *sent, meanwhile = found
    assert sent == ["120", "0", "1", "0", "0", "54"]
    assert meanwhile == "2 as before"


def test_what_is_wrong_with_an_index_is_told_beside_the_number(tmp_path: Path):
    """A peer that keeps whatever it once read, loses a document, and has half of another."""

    class Careless:
        def __init__(self) -> None:
            self.rows: dict[str, Sequence[str]] = {}

        def run(self, job: Job) -> Report:
            self.rows |= {name: text.split("\n\n") for name, text in job.documents().items() if name != "cable.md"}
            self.rows["dock.md"] = self.rows["dock.md"][:13]
            return Report(self.rows, error="it always fails")

    found = cells(tmp_path, Careless().run)
    assert found[0] == "0, cable.md not found, dock.md cut otherwise"
    assert found[3] == "0, beacon.md still found, cable.md not found, dock.md cut otherwise"
    assert found[-1] == "1 in parts or mixed, 1 as rewritten"


def test_a_peer_without_an_environment_says_so_in_its_column(tmp_path: Path):
    found = column("CocoIndex", tmp_path / "no-python")
    assert len(found) == len(STEPS)
    assert all("does not run: [Errno 2]" in cell for cell in found)
