"""Where this machine keeps what can be made again: unpacked vocabularies, the state of rate limits."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock


def cache_folder(name: str) -> Path:
    """The folder `name` in the user's cache. It may be missing, and may not be writable."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() may raise
    return Path(base) / "rag_assets" / name


@contextlib.contextmanager
def machine_lock(name: str) -> Iterator[None]:
    """Hold the lock `name` among the processes that share the user's cache. Where it cannot be written to, nobody waits."""
    path = cache_folder("locks") / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(path))
        yield
