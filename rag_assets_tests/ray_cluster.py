"""A real Ray cluster of two nodes that lives as long as a test module: processes of this machine, on loopback or near it."""

import gc
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import psutil

CPUS = 2
"""Of each node, as Ray counts them."""


def missing() -> str | None:
    """Why no cluster can be started here, or None."""
    absent = [name for name in ("ray", "dagster_ray") if find_spec(name) is None]
    return f"{' and '.join(absent)} not installed: pip install '.[dev]'" if absent else None


@dataclass(frozen=True)
class RayCluster:
    """A running cluster; the second node has one GPU as well, as Ray counts them. `jobs` is where jobs are submitted."""

    address: str
    jobs: str

    def workers(self) -> dict[int, str]:
        """The processes that embed, and the node of each, by the id that Ray gave it."""
        return {
            process.pid: node
            for process in psutil.process_iter()
            if (node := _node_of(process)) is not None and _title(process).startswith("ray::Worker")
        }

    def kill_workers(self) -> int:
        """Kill them all, as the system does when memory is short. Returns how many there were."""
        workers = self.workers()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        return len(workers)


def disconnect() -> None:
    """End the connection of this process, if there is one. A provider that only the traceback of a test still holds is
    dropped before: a thread of it that Ray is taken from brings the process down."""
    import ray

    gc.collect()
    ray.shutdown()


@contextmanager
def two_nodes(environment: Mapping[str, str], *, jobs: bool = False) -> Iterator[RayCluster]:
    """A cluster whose processes see `environment` as well, and whose nodes have caches of their own, as two machines have.

    Jobs can be submitted only with `jobs`: what takes them is slow to start.
    """
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # as `rag_assets.embedding.ray_workers` does
    from ray.cluster_utils import Cluster

    # Not below pytest's folder: the paths of Ray's sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    with mock.patch.dict(os.environ, {**environment, "RAY_USAGE_STATS_ENABLED": "0"}):
        cluster = Cluster()
        try:
            with warnings.catch_warnings():
                # Where an earlier test imported Lance. Ray forks only to execute another program, which harms nothing.
                warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
                for number in (1, 2):
                    cluster.add_node(
                        num_cpus=CPUS,
                        num_gpus=number - 1,
                        object_store_memory=80_000_000,
                        temp_dir=str(folder),
                        include_dashboard=jobs and number == 1,
                        dashboard_port=0,
                        env_vars={"XDG_CACHE_HOME": str(folder / f"cache{number}")},
                    )
            head = cluster.head_node
            yield RayCluster(cluster.address, f"http://{head.webui_url}" if jobs else "")
        finally:
            disconnect()
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _node_of(process: psutil.Process) -> str | None:
    """The id of the node whose raylet started `process`."""
    try:
        parent = process.parent()
    except psutil.Error:
        return None
    words = _title(parent).split() if parent else []
    return next((word.split("=")[1] for word in words if word.startswith("--node_id=")), None)
