"""What a peer is: it brings an index up to date with a folder, and tells what a reader of the index finds.

A peer's process writes one line of JSON, the `Report`. Only the standard library is imported here, because the peers
have an environment of their own.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# Every paragraph has between these many characters and tokens, and becomes a chunk of its own with each splitter.
CHUNK_CHARACTERS = 400
CHUNK_TOKENS = 70
INPUTS_PER_REQUEST = 10
MODEL = "counted"

Rows = Mapping[str, Sequence[str]]
"""The texts of each document, in any order."""


@dataclass(frozen=True)
class Job:
    """Bring the index in the folder `state` up to date with the documents in the folder `corpus`."""

    corpus: Path
    state: Path
    base_url: str

    def documents(self) -> dict[str, str]:
        """The text of each document."""
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(self.corpus.glob("*.md"))}


@dataclass(frozen=True)
class Report:
    """What a reader finds after the job, and the error that the job ended with."""

    rows: Rows
    error: str | None


def do(job: Job, ingest: Callable[[Job], None], rows: Callable[[Job], Rows]) -> Report:
    """Do `job`, whether it fails or not, and look at what a reader finds then."""
    job.state.mkdir(parents=True, exist_ok=True)
    error = None
    try:
        ingest(job)
    except Exception as problem:  # whatever a peer raises when its provider fails
        error = f"{type(problem).__name__}: {problem}"
    return Report(rows(job), error)


def main(ingest: Callable[[Job], None], rows: Callable[[Job], Rows]) -> None:
    """Do the job that the command line describes, and report it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("base_url")
    print(json.dumps(asdict(do(Job(**vars(parser.parse_args())), ingest, rows))))
