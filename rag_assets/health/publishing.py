"""Whether readers see the newest rows, and whether anything is to be mended."""

from rag_assets.doctoring import diagnose, is_left_unpublished, why_not_writable
from rag_assets.errors import SourceError
from rag_assets.health.verdicts import Verdict, fails, passes, some
from rag_assets.health.view import View
from rag_assets.reading.source import Listing
from rag_assets.storing.publishing import held_back
from rag_assets.wording import count


def newest_version(view: View) -> Verdict:
    """Readers see the newest version."""
    ingest = f"rag-assets ingest {view.corpus.name}"
    if view.published is None:
        if view.known:
            return fails(f"nothing is published, and {count(len(view.known), 'document')} are known: {ingest}")
        return passes("Nothing is published yet.")
    if view.published.is_rollback:
        shown = view.published.changes.get("rolled_back_to")
        return fails(f"a person rolled back to version {shown}; to go on: {ingest}")
    held = held_back(view.store, view.corpus)
    if held:
        return fails(held)
    if is_left_unpublished(view.store, view.corpus, view.known, _listing_for_pending(view)):
        return fails(f"the index holds something that readers do not see: {ingest}")
    return passes(f"Version {view.published.version} is the newest.")


def _listing_for_pending(view: View) -> Listing | None:
    """What the source lists; None where it cannot be listed, or no document is pending."""
    if all(document.status != "pending" for document in view.known.values()):
        return None
    try:
        return view.listing
    except SourceError:
        return None


def nothing_to_mend(view: View) -> Verdict:
    """`rag-assets doctor` finds nothing in the tables, every file of which is read."""
    problem = why_not_writable(view.store)
    if problem:
        remedy = "correct its permissions, or free space"
        return fails(f"{view.store.home} cannot be written to ({problem}): {remedy}")
    found = diagnose(view.store, view.corpus)
    if not found:
        return passes("Every table is whole, and they agree.", {"findings": 0})
    rows = some({"kind": one.kind, "what": one.what, "remedy": one.remedy} for one in found)
    more = f", and {count(len(found) - 1, 'more finding')}" if len(found) > 1 else ""
    return fails(f"{found[0].what}{more}: {found[0].remedy}", {"findings": len(found)}, rows)
