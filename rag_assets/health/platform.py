"""What Dagster knows of the corpus, against what the tables know. Without an instance there is nothing to compare."""

from rag_assets.health.verdicts import Cell, Verdict, fails, passes, some
from rag_assets.health.view import View
from rag_assets.wording import count

_ALONE = "There is no Dagster instance to look at."


def partitions(view: View) -> Verdict:
    """Every document has its partition, and every partition its document."""
    if view.instance is None:
        return passes(_ALONE)
    lost, left = view.instance.without_partition, view.instance.without_document
    figures = {"documents_without_partition": len(lost), "partitions_without_document": len(left)}
    if not lost and not left:
        return passes("Documents and partitions are the same.", figures)
    rows: list[dict[str, Cell]] = [{"document": name, "lacks": "its partition"} for name in lost]
    rows += [{"document": name, "lacks": "its document"} for name in left]
    what = f"{count(len(lost), 'document')} without a partition, {count(len(left), 'partition')} without a document"
    return fails(f"{what}: rag-assets doctor {view.corpus.name} --fix", figures, some(rows))


def stuck_runs(view: View) -> Verdict:
    """Every run that is under way moves."""
    stuck = (view.instance.stuck_runs or {}) if view.instance else {}
    if not stuck:
        return passes(_ALONE if view.instance is None else "No run is stuck.", {"runs_stuck": 0})
    run, why = next(iter(stuck.items()))
    what = f"{count(len(stuck), 'run')} of {view.corpus.name} do not move, such as {run[:8]} ({why})"
    remedy = f"terminate it in the UI, or: rag-assets ingest {view.corpus.name}"
    rows = some({"run": run, "why": why} for run, why in stuck.items())
    return fails(f"{what}: {remedy}", {"runs_stuck": len(stuck)}, rows)
