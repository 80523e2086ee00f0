"""What a store tells of a file, in the words of each client of fsspec, as an `Entry`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rag_assets.reading.source import Entry

# Checksums before what changes with every write: a copy of the same bytes then need not be read.
_REVISIONS = ("md5Hash", "sha", "blob_id", "ETag", "etag")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "modify")


def describe(document: str, info: Mapping[str, Any]) -> Entry:
    """The entry of `document`, of which a store tells `info`."""
    size = info.get("size")
    return Entry(
        document=document,
        bytes=size if isinstance(size, int) else None,
        modified_ns=_modified_ns(info),
        revision=_revision(info),
    )


def _revision(info: Mapping[str, Any]) -> str | None:
    for key in _REVISIONS:
        if info.get(key):
            value = str(info[key]).strip('"')
            return f"{key.lower()}:{value}"
    if isinstance(info.get("CRC"), int):  # an archive
        return f"crc:{info['CRC']:08x}:{info['size']}"
    return None


def _modified_ns(info: Mapping[str, Any]) -> int | None:
    """Nanoseconds since the epoch. A time without a zone is taken for UTC: it is compared with itself."""
    for key in _TIMES:
        moment = info.get(key)
        if isinstance(moment, str):
            moment = _parsed(moment)
        if isinstance(moment, datetime):
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(moment, int | float) and moment > 0:
            return int(moment * 1e9)
    return None


def _parsed(moment: str) -> datetime | None:
    """An ISO time, or fourteen digits as FTP has them, None for anything else."""
    if len(moment) == 14 and moment.isdigit():
        moment = f"{moment[:8]}T{moment[8:]}"
    try:
        return datetime.fromisoformat(moment)
    except ValueError:
        return None
