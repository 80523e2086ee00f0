"""The asset `C/index`: the rows that readers will search. Next: `C/published_index`."""

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import partitioned_asset, write_retry
from rag_assets.defs.partitions import Shard
from rag_assets.defs.reporting import batch_of, failures_told, report
from rag_assets.defs.resources import StoreResource
from rag_assets.generations import generation_of
from rag_assets.materializing.index import index_documents


def index_asset(corpus: CorpusSettings, shard: Shard = None) -> dg.AssetsDefinition:
    """`C/index` of `corpus`, or of a shard of it."""

    @partitioned_asset(
        corpus,
        "index",
        shard=shard,
        upstream="embeddings",
        kinds={"lancedb"},
        code_version=generation_of(corpus).id,
        retry_policy=write_retry(corpus),
    )
    def index(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        """The document's rows in the search table, old ones replaced by new ones in one commit."""
        with failures_told():
            result = index_documents(store.open(), corpus, batch_of(context), run_id=context.run.run_id)
        return dg.MaterializeResult(metadata=report(context, "index", result) | {"rows": result.total("rows")})

    return index
