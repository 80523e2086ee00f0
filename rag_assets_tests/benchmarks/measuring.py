"""Clocks, repeats, and processes of their own. What is measured with them is the business of each benchmark."""

import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

REPOSITORY = Path(__file__).parent.parent.parent
# What the installed script `rag-assets` does, also where it is not installed.
COMMAND_LINE = ("-c", "from rag_assets.cli import main; main()")


def wall_seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of all threads of this process while `work` is done."""
    started = time.process_time()
    work()
    return time.process_time() - started


def median(repeats: int, measure: Callable[[], float]) -> float:
    """The median of `repeats` measurements."""
    return statistics.median(measure() for _ in range(repeats))


def medians_in_turn(repeats: int, *measures: Callable[[], float]) -> list[float]:
    """The median of `repeats` of each of `measures`, which take turns: what else the machine does meets them alike."""
    rounds = [[measure() for measure in measures] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def python_seconds(*arguments: str, environment: Mapping[str, str] | None = None) -> float:
    """Wall seconds of a fresh Python with `arguments`, from its start to its end. Raises when it fails."""
    command = [sys.executable, *arguments]
    started = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.strip()}")
    return seconds


def in_child(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call `work`, a function of a module, in a fresh process and return what it returns."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments, **named).result()


def peak_memory() -> int:
    """The most bytes of memory that this process has held at once.

    From /proc where there is one: `ru_maxrss` there begins with what the parent held when it started this process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
