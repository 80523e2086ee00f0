"""`dagster dev`, daemon and webserver, on a platform: what a person has who types `make dev`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rag_assets_tests.platform import REPOSITORY, Platform

PATIENCE_SECONDS = 180
_STOP_SECONDS = 30


@dataclass(frozen=True)
class Served:
    """A platform with `dagster dev` running on it, at `url`."""

    platform: Platform
    url: str

    def query(self, query: str) -> dict[str, Any]:
        """The data that the GraphQL `query` returns."""
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
        """The runs of `job`, the newest first, each with `runId` and `status`."""
        query = '{ runsOrError(filter: {pipelineName: "%s"}) { ... on Runs { results { runId status } } } }'
        results = self.query(query % job)["runsOrError"]["results"]
        assert isinstance(results, list)
        return results


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Raise `TimeoutError` when `true` does not become true; a server that does not answer yet is waited for."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if true():
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise TimeoutError(f"waited {PATIENCE_SECONDS} s in vain: {what}")


@contextmanager
def served_platform(platform: Platform) -> Iterator[Served]:
    """`dagster dev` on a free port of this machine, until the context ends. Its log is `dev.log` in the platform's root."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workspace", str(REPOSITORY / "workspace.yaml")]
    environment = os.environ | platform.environment
    with (platform.root / "dev.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            served = Served(platform, f"http://127.0.0.1:{port}")
            wait_until(lambda: bool(served.query("{ version }")), "the webserver answers")
            yield served
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
