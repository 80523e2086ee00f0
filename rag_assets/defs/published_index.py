"""The asset `C/published_index`: the version that readers see. Questions are answered from it."""

from typing import Any

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import WRITE_RETRY
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.generations import INDEX_VERSION
from rag_assets.storing.publishing import PublishReport, publish
from rag_assets.storing.stores import Store, index_name


def published_index_asset(corpus: CorpusSettings) -> dg.AssetsDefinition:
    """`C/published_index` of `corpus`."""

    @dg.asset(
        name="published_index",
        key_prefix=corpus.name,
        deps=[dg.AssetDep(dg.AssetKey([corpus.name, "index"]), partition_mapping=dg.AllPartitionMapping())],
        group_name=corpus.name,
        kinds={"lancedb"},
        owners=list(corpus.owners),
        code_version=INDEX_VERSION,
        # Not partitioned, but Dagster wants it said before a range of documents may be materialized with it in one run.
        backfill_policy=dg.BackfillPolicy.single_run(),
        retry_policy=WRITE_RETRY,
        metadata={"source": corpus.source},
    )
    def published_index(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        """The version of the index that readers see: verified, with its search indices up to date."""
        with failures_told():
            opened = store.open()
            result = publish(opened, corpus, run_id=context.run.run_id)
        if result.waiting:
            context.log.warning("not published yet: %s", result.waiting)
        return dg.MaterializeResult(metadata=publication_metadata(opened, corpus.name, result))

    return published_index


def publication_metadata(store: Store, corpus: str, result: PublishReport) -> dict[str, Any]:
    """What a publication says in the UI; numbers become plots over time."""
    metadata: dict[str, Any] = {"moved": result.moved, "unindexed_rows": result.health.unindexed_rows}
    if result.waiting:
        metadata["waiting"] = result.waiting
    if result.published:
        metadata |= {
            "index_version": result.published.version,
            "documents": result.published.documents,
            "chunks": result.published.chunks,
            "generation": result.published.generation,
            "dagster/uri": f"{store.corpus_uri(corpus)}/{index_name(result.published.generation)}.lance",
            "dagster/row_count": result.published.chunks,
        }
    return metadata
