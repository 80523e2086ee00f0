"""The asset `C/published_index`: the version that readers see. Questions are answered from it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg
from dagster._core.storage.tags import SENSOR_NAME_TAG

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import stage_key, write_retry
from rag_assets.defs.partitions import shards_of
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.drawing import panels_as_markdown
from rag_assets.generations import INDEX_VERSION, generation_of
from rag_assets.progress import Heartbeat, reporting
from rag_assets.scoring.comparing import approval
from rag_assets.storing.comparing import Changes
from rag_assets.storing.ledger import share_made_with, standings
from rag_assets.storing.publishing import PublishReport, publications, publish
from rag_assets.storing.spending import Spend, spend_by_run
from rag_assets.storing.stores import Store, index_name

# A corpus that does not change is not stale: maintenance verifies each night what readers see, and materializes it. Past two
# nights without either, nobody looks after it.
_FRESHNESS = dg.FreshnessPolicy.time_window(warn_window=timedelta(hours=26), fail_window=timedelta(hours=50))

# Documents named by a version, and versions drawn.
_NAMED = 200
_DRAWN = 30


def published_index_asset(corpus: CorpusSettings) -> dg.AssetsDefinition:
    """`C/published_index` of `corpus`."""

    @dg.asset(
        name="published_index",
        key_prefix=corpus.name,
        deps=[
            dg.AssetDep(stage_key(corpus.name, "index", shard), partition_mapping=dg.AllPartitionMapping())
            for shard in shards_of(corpus.shards)
        ],
        group_name=corpus.name,
        kinds={"lancedb"},
        owners=list(corpus.owners),
        code_version=INDEX_VERSION,
        # Not partitioned, but Dagster wants it said before a range of documents may be materialized with it in one run.
        backfill_policy=dg.BackfillPolicy.single_run(),
        retry_policy=write_retry(corpus),
        freshness_policy=_FRESHNESS,
        metadata={"source": corpus.source},
    )
    def published_index(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        """The version of the index that readers see: verified, with its search indices up to date."""
        with failures_told():
            opened = store.open()
            heartbeat = reporting(Heartbeat(context.log.info))
            approve = approval(opened, corpus, run_id=context.run.run_id, progress=heartbeat)
            resume = not asked_by_sensor(context.run)
            result = publish(opened, corpus, run_id=context.run.run_id, resume=resume, approve=approve)
        if result.waiting:
            context.log.warning("not published yet: %s", result.waiting)
        return dg.MaterializeResult(metadata=publication_metadata(opened, corpus, result, run_id=context.run.run_id))

    return published_index


def asked_by_sensor(run: dg.DagsterRun) -> bool:
    """Whether a sensor asked for `run`, and no person did: it leaves a rollback alone."""
    return SENSOR_NAME_TAG in run.tags


def publication_metadata(store: Store, corpus: CorpusSettings, result: PublishReport, *, run_id: str) -> dict[str, Any]:
    """What a publication says in the UI; numbers become plots over time, what was spent on embeddings and the share of the
    documents that are of the configured generation among them."""
    runs = spend_by_run(store, corpus.name)
    in_run, in_all = runs.get(run_id, Spend()), sum(runs.values(), Spend())
    metadata: dict[str, Any] = {
        "moved": result.moved,
        "unindexed_rows": result.health.unindexed_rows,
        "vector_index": result.health.vector_index or "none: every vector is looked at",
        "generation_progress": _progress(store, corpus) if result.waiting else 1.0,
        "tokens": in_run.tokens,
        "cost_usd": in_run.cost_usd,
        "total_tokens": in_all.tokens,
        "total_cost_usd": in_all.cost_usd,
    }
    if result.waiting:
        metadata["waiting"] = result.waiting
    if result.changes is not None:
        metadata["changed_documents"] = _changed_documents(result.changes)
    if result.published:
        metadata["history"] = dg.MetadataValue.md(_history(store, corpus.name, runs))
        metadata |= {
            "index_version": result.published.version,
            **{f"documents_{name}": count for name, count in result.published.changes.items()},
            "documents": result.published.documents,
            "chunks": result.published.chunks,
            "generation": result.published.generation,
            "dagster/uri": f"{store.corpus_uri(corpus.name)}/{index_name(result.published.generation)}.lance",
            "dagster/row_count": result.published.chunks,
        }
    return metadata


def _changed_documents(changes: Changes) -> dg.TableMetadataValue | str:
    """Which documents came, changed and went, as a table for the page of the run."""
    kinds = {"added": changes.added, "changed": changes.changed, "removed": changes.removed}
    rows = [dg.TableRecord({"document": name, "what": kind}) for kind, names in kinds.items() for name in names]
    return dg.MetadataValue.table(rows[:_NAMED]) if rows else "none"


def _history(store: Store, corpus: str, paid: Mapping[str, Spend]) -> str:
    """A picture of the last versions: documents, chunks, and what the run cost that published each."""
    shown = publications(store, corpus)[:_DRAWN][::-1]
    series: dict[str, list[float]] = {
        "documents": [one.documents for one in shown],
        "chunks": [one.chunks for one in shown],
        "US dollars": [paid[one.run_id].cost_usd if one.run_id in paid else 0.0 for one in shown],
    }
    return panels_as_markdown("documents, chunks and cost by version", series, [f"v{one.version}" for one in shown])


def _progress(store: Store, corpus: CorpusSettings) -> float:
    return share_made_with(standings(store.documents(corpus.name)), generation_of(corpus).id)
