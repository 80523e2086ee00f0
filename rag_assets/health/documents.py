"""What became of the documents: which are explained, which types fail, and whether clocks can be believed."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from rag_assets.health.lag import target_seconds
from rag_assets.health.verdicts import Row, Verdict, fails, passes, some
from rag_assets.health.view import View
from rag_assets.reading.formats import format_by_name
from rag_assets.reading.sources.schemes import scheme_of
from rag_assets.storing.ledger import KnownDocument
from rag_assets.wording import count, duration

# A failure or two say nothing of a type.
_SEVERAL = 3
_REASONS = 3
# Clocks of two machines differ by seconds, and some file systems keep even numbers of them.
_CLOCKS_DIFFER = 120.0


def set_aside(view: View) -> Verdict:
    """No document is set aside."""
    failed = view.set_aside
    figures = {"documents": len(view.names)}
    if not failed:
        return passes(f"{count(len(view.names), 'document')}, none of which is set aside.", figures)
    rows: list[Row] = [
        {"document": one.document, "stage": one.stage or "", "reason": one.reason or ""} for one in failed
    ]
    return fails(f"{len(failed)} of {count(len(view.names), 'document')} are set aside", figures, some(rows))


def withheld_deletions(view: View) -> Verdict:
    """The source lists what it should. It is done at the end of each run, so that no file is read for it, nor the source
    listed where the scan before the run has done so."""
    seen = view.presence
    if seen.withheld is None:
        return passes(f"{count(seen.listed, 'file')} are listed, and {seen.gone:,} gone.")
    remedy = f"rag-assets ingest {view.corpus.name} --confirm-deletions"
    return fails(f"{seen.withheld}. If they are meant to be gone: {remedy}")


def explained_files(view: View) -> Verdict:
    """Every file is searchable, or it is known why not.

    A pending file is explained while the next publication is not due: for the time that a change may take, from when it
    was modified or from the last publication, whatever came later.
    """
    wrong = sorted(_unexplained(view), key=lambda row: str(row["document"]))
    figures = {"documents_pending": len(view.found.pending)}
    if not wrong:
        return passes(f"{count(view.found.scanned, 'file')} are indexed, set aside with a reason, or new.", figures)
    remedy = f"rag-assets ingest {view.corpus.name}"
    return fails(
        f"{count(len(wrong), 'file')} are not searchable, and nothing says why: {remedy}", figures, some(wrong)
    )


def _unexplained(view: View) -> Iterator[Row]:
    published = view.published.published_at.timestamp() if view.published else 0.0
    target, now = target_seconds(view), view.now.timestamp()
    for name in view.found.pending:
        since = max((view.found.entries[name].modified_ns or 0) / 1e9, published)
        if now - since > target:
            yield {"document": name, "why": f"pending for {duration(now - since)}"}
    for one in view.set_aside:
        if not one.reason or not one.stage:
            yield {"document": one.document, "why": "set aside without a reason"}


def error_rates(view: View) -> Verdict:
    """No type of document fails often."""
    source = view.corpus.source
    scheme = (scheme_of(source) or "file") if isinstance(source, str) else "web"
    total, failed = Counter[str](), Counter[str]()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for document in view.known.values():
        kind = _mime(document)
        total[kind] += 1
        if document.status == "failed":
            failed[kind] += 1
            reasons[kind][document.reason or "no reason"] += 1
    rows: list[Row] = [
        {
            "type": kind,
            "source": scheme,
            "documents": total[kind],
            "failed": number,
            "error_rate": round(number / total[kind], 4),
            "reasons": "; ".join(f"{many} × {reason}" for reason, many in reasons[kind].most_common(_REASONS)),
        }
        for kind, number in failed.most_common()
    ]
    allowed = view.corpus.health.max_error_rate
    often = [row for row in rows if int(row["failed"]) >= _SEVERAL and float(row["error_rate"]) > allowed]
    in_all = sum(failed.values())
    figures = {"documents_failed": in_all, "error_rate": in_all / len(view.known) if view.known else 0.0}
    if not often:
        return passes(f"{in_all:,} of {count(len(view.known), 'document')} failed.", figures, some(rows))
    kinds = ", ".join(f"{row['type']} ({row['failed']} of {row['documents']})" for row in often)
    what = f"more than {allowed:.0%} of these types failed: {kinds}; the reasons are listed"
    return fails(what, figures, some(rows))


def _mime(document: KnownDocument) -> str:
    """What was read, or what the name promises where nothing could be."""
    named = None if document.mime else format_by_name(document.document)
    return document.mime or (named.mime if named else "unknown")


def clocks(view: View) -> Verdict:
    """Nothing is from the future."""
    now = view.now.timestamp()
    ahead: list[Row] = [
        {"what": name, "ahead": duration(entry.modified_ns / 1e9 - now)}
        for name, entry in sorted(view.found.entries.items())
        if entry.modified_ns is not None and entry.modified_ns / 1e9 - now > _CLOCKS_DIFFER
    ]
    ahead += [
        {"what": f"version {one.version}", "ahead": duration(_ahead(one.published_at, now))}
        for one in view.publications
        if _ahead(one.published_at, now) > _CLOCKS_DIFFER
    ]
    if not ahead:
        return passes("No file and no version is younger than now.")
    what = (
        f"{count(len(ahead), 'file or version', 'files and versions')} are from the future, such as {ahead[0]['what']}"
    )
    remedy = "set the clocks of this machine and of the source; touch the files"
    return fails(f"{what}: {remedy}", named=some(ahead))


def _ahead(moment: datetime, now: float) -> float:
    return moment.timestamp() - now
