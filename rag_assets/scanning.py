"""What a corpus needs: its listing compared with what is known of its documents.

`compare` is pure. It trusts fingerprints, not clocks: another revision, or another time of modification where the store
offers no revision, makes a file suspect, and only its bytes decide. It knows that a failed listing is not an empty
folder, and that many deletions at once are implausible.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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

Verdict = Literal["added", "changed", "outdated", "unchanged", "touched", "failed"]


@dataclass(frozen=True)
class Scan:
    """What one look at a corpus found. Every listed document is in exactly one of `added`, `changed`, `unsettled`,
    `failed` or counted in `unchanged`.

    `touched` (document → entry) are unchanged documents whose time of modification or revision is not the known one.
    `removed` may be purged now; `withheld` says why deletions were held back, and `gone` which. `failed` are known failures
    whose content did not change. `refused` was seen and cannot be read as a document now: (name, reason); one that is known
    is not gone, nor is one below a refused folder, whose name ends in a slash. `entries` are all listed documents. Of the
    pending documents, `lost` are those whose rows are not in the index, though they were. Of those that changed, `outdated`
    have the bytes that they had, and were made with another model, chunking or reader.
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
    lost: Sequence[str] = ()
    outdated: Sequence[str] = ()

    @property
    def pending(self) -> list[str]:
        """Documents to materialize, in the order of their names."""
        return sorted([*self.added, *self.changed])


def scan(
    store: Store,
    corpus: CorpusSettings,
    source: Source,
    *,
    known: Mapping[str, KnownDocument] | None = None,
    settle: timedelta = timedelta(0),
    confirm_deletions: bool = False,
) -> Scan:
    """List the source of `corpus` and compare it with what is known. Files modified less than `settle` ago wait. `known`
    spares a look into the documents table to who has just read it.

    Raises `SourceError` when the listing fails. Notes new times of modification and revisions of unchanged files, so that
    the next scan need not read them.
    """
    started = datetime.now(UTC)  # what is noted as read now may change from here on
    listing = source.list()
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
        max_share_deleted=corpus.max_share_deleted,
        confirm_deletions=confirm_deletions,
    )
    if found.touched:
        change(table, {name: _as_noted(entry, started) for name, entry in found.touched.items()})
    return replace(found, lost=[name for name in found.pending if name in lost]) if lost else found


def compare(
    listing: Listing,
    known: Mapping[str, KnownDocument],
    *,
    generation: Generation,
    byte_hash: Callable[[str], str],
    settle: timedelta = timedelta(0),
    max_share_deleted: float = 0.5,
    confirm_deletions: bool = False,
) -> Scan:
    """Compare a listing with what is known. `byte_hash` is called only for files that look changed."""
    by_verdict: dict[Verdict, list[str]] = {verdict: [] for verdict in get_args(Verdict)}
    unsettled: list[str] = []
    now_ns = _nanoseconds(datetime.now(UTC))
    settle_ns = int(settle.total_seconds() * 1e9)
    for name, entry in listing.entries.items():
        # A clock that is ahead must not hold a file for ever.
        if entry.modified_ns is not None and abs(now_ns - entry.modified_ns) < settle_ns:
            unsettled.append(name)
            continue
        before = known.get(name)
        suspect = before is not None and _is_suspect(entry, before, listing.clock_tolerance)
        by_verdict[_judge(entry, before, generation, byte_hash if suspect else None)].append(name)
    gone = _gone(listing, known)
    withheld = None
    if gone and not confirm_deletions:
        withheld = _implausible(len(gone), len(known), len(listing.entries), max_share_deleted)
    return Scan(
        scanned=len(listing.entries),
        added=by_verdict["added"],
        changed=[*by_verdict["changed"], *by_verdict["outdated"]],
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
    )


def _gone(listing: Listing, known: Iterable[str]) -> list[str]:
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


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)


def _implausible(gone: int, known: int, listed: int, max_share: float) -> str | None:
    """Why so many deletions are not believed, or None. Files that came while others went (a folder that was renamed) are
    set off against them."""
    if listed == 0:
        return f"the source lists no document, and {known} are known"
    lost = known - listed
    if lost > _PLAUSIBLE_DELETIONS and lost > max_share * known:
        return f"{gone} of {known} documents are gone at once, more than max_share_deleted {max_share:g} allows"
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
