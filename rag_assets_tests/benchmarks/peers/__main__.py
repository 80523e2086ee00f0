"""Give the same folder to rag_assets and its peers, and print what each sent as a Markdown table."""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rag_assets_tests.benchmarks.measuring import REPOSITORY
from rag_assets_tests.benchmarks.peers.peer import Job, Report
from rag_assets_tests.benchmarks.peers.scenarios import STEPS, cells
from rag_assets_tests.benchmarks.tables import markdown_table

_PEERS = {
    "rag_assets": "use_rag_assets",
    "LlamaIndex": "use_llama_index",
    "LangChain": "use_langchain",
    "LangChain, cached": "use_langchain_cached",
    "CocoIndex": "use_cocoindex",
}
_PACKAGES = ("llama-index-core", "langchain-core", "langchain-classic", "chromadb", "cocoindex", "lancedb")
_QUIET = {"ANONYMIZED_TELEMETRY": "False", "COCOINDEX_DISABLE_USAGE_TRACKING": "1", "LANGSMITH_TRACING": "false"}
_TIMEOUT_SECONDS = 300


class PeerError(Exception):
    """A peer's process ended without a report."""


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.benchmarks.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=_PEERS, default=list(_PEERS))
    parser.add_argument("--python", type=Path, default=REPOSITORY / ".venv-peers/bin/python", help="of the peers")
    asked = parser.parse_args()
    columns = [column(peer, _python_of(peer, asked.python)) for peer in asked.only]
    print(
        f"{datetime.now(UTC):%Y-%m-%d}; {', '.join(f'{k} {v}' for k, v in _versions(asked.python).items())}", end="\n\n"
    )
    rows = [["texts sent", *asked.only], *([step, *(found[n] for found in columns)] for n, step in enumerate(STEPS))]
    print(markdown_table(rows))


def column(peer: str, python: Path) -> Sequence[str]:
    """A cell for each of `STEPS`; the reason in all of them when the peer does not run."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        try:
            return cells(Path(folder), functools.partial(run, _PEERS[peer], python))
        except (PeerError, OSError) as problem:
            return [f"does not run: {problem}"] * len(STEPS)


def run(module: str, python: Path, job: Job) -> Report:
    """Do `job` in a process of its own."""
    done = subprocess.run(
        [python, "-m", f"rag_assets_tests.benchmarks.peers.{module}", job.corpus, job.state, job.base_url],
        cwd=REPOSITORY,
        env=os.environ | _QUIET | {"NO_PROXY": "127.0.0.1,localhost"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PeerError((done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1])
    return Report(**json.loads(done.stdout.splitlines()[-1]))


def _python_of(peer: str, python: Path) -> Path:
    return Path(sys.executable) if peer == "rag_assets" else python


def _versions(python: Path) -> Mapping[str, str]:
    """The versions of what the peers' environment has installed."""
    if not python.exists():
        return {}
    ask = "import importlib.metadata as m, sys; print('\\n'.join(map(m.version, sys.argv[1:])))"
    told = subprocess.run([python, "-c", ask, *_PACKAGES], capture_output=True, text=True, check=True)
    return dict(zip(_PACKAGES, told.stdout.split(), strict=True))


if __name__ == "__main__":
    main()
