"""Where this machine keeps what can be made again: unpacked vocabularies, the state of rate limits."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder `name` in the user's cache. It may be missing, and may not be writable."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() may raise
    return Path(base) / "rag_assets" / name
