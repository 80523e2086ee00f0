"""What a corpus needs: its listing compared with what is known of its documents.

`compare` is pure. It trusts fingerprints, not clocks: another revision, or another time of modification where the store
offers no revision, makes a file suspect, and only its bytes decide. It knows that a failed listing is not an empty
folder, and that many deletions at once are implausible.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError
from rag_assets.fingerprints import hash_bytes
from rag_assets.generations import Generation, generation_of
from rag_assets.reading.source import Entry, Listing, Source
from rag_assets.storing.ledger import KnownDocument, change, known_documents
from rag_assets.storing.publishing import documents_without_rows
from rag_assets.storing.stores import Store

# A file that was modified this shortly before it was read may have changed again within the same clock tick.
_CLOCK_TICK = timedelta(seconds=2)
# Fewer deletions than this are believed however small the corpus is.
_PLAUSIBLE_DELETIONS = 10
# Documents whose new times are noted in one commit, at most.
_ROWS_AT_ONCE = 5_000
_BYTES_AT_ONCE = 64 * 1024 * 1024

Verdict = Literal["added", "changed", "outdated", "unchanged", "touched", "failed"]


@dataclass(frozen=True)
class ReadingLimit:
    """How much a look reads of what may have changed: until so many documents have `changed`, or for so many `seconds`."""

    changed: int
    seconds: float


@dataclass(frozen=True)
class Presence:
    """How many documents the source lists, how many known ones it does not, though they stay, and why their deletion is
    withheld, None where it is not."""

    listed: int
    gone: int = 0
    withheld: str | None = None


@dataclass(frozen=True)
class Scan:
    """What one look at a corpus found. Every listed document is in exactly one of `added`, `changed`, `unsettled`, `unread`,
    `failed` or counted in `unchanged`. `unread` ones may have changed, and wait for another look.

    `touched` (document → entry) are unchanged documents whose time of modification or revision is not the known one.
    `removed` may be purged now; `withheld` says why deletions were held back, and `gone` which. `failed` are known failures
    whose content did not change. `refused` was seen and cannot be read as a document now: (name, reason); one that is known
    is not gone, nor is one below a refused folder, whose name ends in a slash. `entries` are all listed documents, and
    `known` is what was known of the documents. Of the pending ones, `lost` are those whose rows are not in the index, though
    they were. Of those that changed, `outdated` have the bytes that they had, and were made with another model, chunking or
    reader.
    """

    scanned: int
    added: Sequence[str]
    changed: Sequence[str]
    removed: Sequence[str]
    failed: Sequence[KnownDocument]
    unsettled: Sequence[str]
    unchanged: int
    touched: Mapping[str, Entry]
    gone: Sequence[str] = ()
    withheld: str | None = None
    refused: Sequence[tuple[str, str]] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)
    known: Mapping[str, KnownDocument] = field(default_factory=dict)
    unread: Sequence[str] = ()
    lost: Sequence[str] = ()
    outdated: Sequence[str] = ()

    @property
    def presence(self) -> Presence:
        """What a check tells of the source after what the scan found is done: those that may be removed are."""
        return Presence(self.scanned, len(self.gone) if self.withheld else 0, self.withheld)

    @property
    def pending(self) -> list[str]:
        """Documents to materialize, in the order of their names."""
        return sorted([*self.added, *self.changed])


def scan(
    store: Store,
    corpus: CorpusSettings,
    source: Source,
    *,
    listing: Listing | None = None,
    known: Mapping[str, KnownDocument] | None = None,
    settle: timedelta = timedelta(0),
    limit: ReadingLimit | None = None,
    confirm_deletions: bool = False,
) -> Scan:
    """List the source of `corpus` and compare it with what is known. Files modified less than `settle` ago wait. `listing`
    and `known` spare another look at the source, and into the documents table, to who has just looked.

    Raises `SourceError` when the listing fails. Notes new times of modification and revisions of unchanged files, so that
    the next scan need not read them.
    """
    started = datetime.now(UTC)  # what is noted as read now may change from here on
    listing = source.list() if listing is None else listing
    table = store.documents(corpus.name)
    generation = generation_of(corpus)
    known = known_documents(table) if known is None else known
    # Documents whose rows were lost are made again, from vectors that are still there.
    lost = documents_without_rows(store, corpus.name, generation, known)
    found = compare(
        listing,
        {name: replace(one, status="pending") if name in lost else one for name, one in known.items()}
        if lost
        else known,
        generation=generation,
        byte_hash=lambda document: hash_bytes(source.read(document).data),
        settle=settle,
        limit=limit,
        max_share_deleted=corpus.max_share_deleted,
        confirm_deletions=confirm_deletions,
    )
    for entries in _portions(found.touched):
        change(table, {name: _as_noted(entry, started) for name, entry in entries.items()})
    return replace(found, lost=[name for name in found.pending if name in lost]) if lost else found


def compare(
    listing: Listing,
    known: Mapping[str, KnownDocument],
    *,
    generation: Generation,
    byte_hash: Callable[[str], str],
    settle: timedelta = timedelta(0),
    limit: ReadingLimit | None = None,
    max_share_deleted: float = 0.5,
    confirm_deletions: bool = False,
) -> Scan:
    """Compare a listing with what is known. `byte_hash` is called only for files that look changed, within `limit` and in
    any order: where a look never comes to the end of them, each has its turn all the same."""
    by_verdict: dict[Verdict, list[str]] = {verdict: [] for verdict in get_args(Verdict)}
    unsettled: list[str] = []
    suspects: list[str] = []
    now_ns = _nanoseconds(datetime.now(UTC))
    settle_ns = int(settle.total_seconds() * 1e9)
    for name, entry in listing.entries.items():
        # A clock that is ahead must not hold a file for ever.
        if entry.modified_ns is not None and abs(now_ns - entry.modified_ns) < settle_ns:
            unsettled.append(name)
            continue
        before = known.get(name)
        if before is not None and _is_suspect(entry, before, listing.clock_tolerance):
            suspects.append(name)
        else:
            by_verdict[_judge(entry, before, generation, None)].append(name)
    unread: list[str] = []
    if limit is not None:
        random.shuffle(suspects)
    started = time.monotonic()
    for number, name in enumerate(suspects):
        if limit and number and _is_reached(limit, len(by_verdict["changed"]), time.monotonic() - started):
            unread = suspects[number:]
            break
        by_verdict[_judge(listing.entries[name], known[name], generation, byte_hash)].append(name)
    gone = gone_from(listing, known)
    withheld = None if confirm_deletions else why_withheld(listing, gone, known.keys(), max_share_deleted)
    return Scan(
        scanned=len(listing.entries),
        added=by_verdict["added"],
        changed=[*sorted(by_verdict["changed"]), *by_verdict["outdated"]],
        outdated=by_verdict["outdated"],
        removed=[] if withheld else gone,
        failed=[known[name] for name in by_verdict["failed"]],
        unsettled=unsettled,
        unchanged=len(by_verdict["unchanged"]) + len(by_verdict["touched"]),
        touched={name: listing.entries[name] for name in by_verdict["touched"]},
        gone=gone,
        withheld=withheld,
        refused=listing.refused,
        entries=listing.entries,
        known=known,
        unread=sorted(unread),
    )


def _is_reached(limit: ReadingLimit, changed: int, seconds: float) -> bool:
    return changed >= limit.changed or seconds >= limit.seconds


def gone_from(listing: Listing, known: Iterable[str]) -> list[str]:
    """The documents of `known` that are not there any more: neither listed, nor refused, nor below a refused folder."""
    refused = {name for name, _ in listing.refused}
    closed = tuple(name for name in refused if name.endswith("/"))
    return sorted(
        name for name in known if name not in listing.entries and name not in refused and not name.startswith(closed)
    )


def _judge(
    entry: Entry, known: KnownDocument | None, generation: Generation, byte_hash: Callable[[str], str] | None
) -> Verdict:
    """What became of a document. `byte_hash` is given when it is suspect."""
    if known is None:
        return "added"
    if byte_hash is not None:
        try:
            same = byte_hash(entry.document) == known.byte_hash
        except DocumentError:  # unreadable, gone or being written: a first time is told by the run that reads it
            if known.status == "failed":
                return "failed"
            same = False
        if not same:
            return "changed" if known.indexed_at else "added"
    if known.reader != generation.reader or known.generation != generation.id:
        return "outdated" if known.indexed_at else "added"
    if known.status == "pending":
        return "changed" if known.indexed_at else "added"
    if known.status == "failed":
        return "failed"
    if byte_hash is None and entry.revision == known.revision:
        return "unchanged"
    return "unchanged" if entry.revision is None and entry.modified_ns is None else "touched"


def _is_suspect(entry: Entry, known: KnownDocument, clock_tolerance: timedelta) -> bool:
    """Whether the file may hold other bytes than those that were read. Its store's own mark of content tells it, else size
    and time, and those not while the time was fresh; a store that offers none of them leaves every file suspect."""
    if entry.revision is not None and known.revision is not None:
        return entry.revision != known.revision
    if known.read_at is None or known.modified_ns is None:
        return True
    if (entry.bytes, entry.modified_ns) != (known.bytes, known.modified_ns):
        return True
    fresh = _CLOCK_TICK + clock_tolerance
    return abs(_nanoseconds(known.read_at) - known.modified_ns) < fresh.total_seconds() * 1e9


def _as_noted(entry: Entry, read_at: datetime) -> dict[str, object]:
    size = {} if entry.bytes is None else {"bytes": entry.bytes}
    return {"modified_ns": entry.modified_ns, "revision": entry.revision, "read_at": read_at, **size}


def _portions(entries: Mapping[str, Entry]) -> Iterator[Mapping[str, Entry]]:
    """`entries` in parts whose rows, which are written again with all of their text, fit into memory."""
    portion: dict[str, Entry] = {}
    taken = 0
    for name, entry in entries.items():
        taken += entry.bytes or 0
        if portion and (taken > _BYTES_AT_ONCE or len(portion) == _ROWS_AT_ONCE):
            yield portion
            portion, taken = {}, entry.bytes or 0
        portion[name] = entry
    if portion:
        yield portion


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)


def why_withheld(listing: Listing, gone: Sequence[str], known: Set[str], max_share: float) -> str | None:
    """Why the deletion of the documents `gone` of `known` is not believed, or None. Files that came while others went (a
    folder that was renamed) are set off against them."""
    if not gone:
        return None
    if not listing.entries:
        return f"the source lists no document, and {len(known)} are known"
    lost = len(gone) - len(listing.entries.keys() - known)
    if lost > _PLAUSIBLE_DELETIONS and lost > max_share * len(known):
        return (
            f"{len(gone)} of {len(known)} documents are gone at once, more than max_share_deleted {max_share:g} allows"
        )
    return None


def retry_delay(attempts: int) -> timedelta:
    """How long a failed document rests before it is tried alone: 30 s, doubling, at most an hour."""
    doublings = min(max(attempts - 1, 0), 7)
    return min(timedelta(seconds=30 * 2**doublings), timedelta(hours=1))


def due_for_retry(failed: Sequence[KnownDocument], *, max_attempts: int, now: datetime) -> KnownDocument | None:
    """The failed document that has waited longest and may be tried again, None where there is none."""
    due = [
        document
        for document in failed
        if document.attempts < max_attempts
        and document.attempted_at is not None
        and document.attempted_at + retry_delay(document.attempts) <= now
    ]
    return min(due, key=lambda document: (document.attempted_at, document.document), default=None)
