"""What makes an artefact stale: one hash over everything that it was made from.

A fingerprint is a SHA-256 over canonical JSON. Two settings with the same fingerprint make the same artefact, so
nothing is made again; a setting that changes the artefact must be part of it.
"""

import hashlib
import json
from collections.abc import Mapping


def hash_bytes(data: bytes) -> str:
    """SHA-256 of `data`, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """SHA-256 of `text` as UTF-8, 64 hexadecimal digits. `text` must hold no lone surrogate."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(parts: Mapping[str, object]) -> str:
    """SHA-256 over `parts` as JSON with sorted keys: 64 hexadecimal digits, the same in every process."""
    return hash_text(json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True))
