"""The asset `C/chunks`: what was cut. Next: `C/embeddings`."""

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import partitioned_asset
from rag_assets.defs.partitions import Shard
from rag_assets.defs.reporting import batch_of, failures_told, report
from rag_assets.defs.resources import StoreResource
from rag_assets.generations import generation_of
from rag_assets.materializing.chunks import chunk_documents
from rag_assets.progress import Heartbeat, reporting


def chunks_asset(corpus: CorpusSettings, shard: Shard = None) -> dg.AssetsDefinition:
    """`C/chunks` of `corpus`, or of a shard of it."""

    @partitioned_asset(
        corpus,
        "chunks",
        shard=shard,
        upstream="documents",
        kinds={"python", "lance"},
        code_version=generation_of(corpus).chunking[:12],
    )
    def chunks(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        """The document in passages small enough for the embedder, with their exact offsets, lines and headings."""
        with failures_told():
            result = chunk_documents(
                store.open(), corpus, batch_of(context), progress=reporting(Heartbeat(context.log.info))
            )
        figures = {"chunks": result.total("chunks"), "tokens": result.total("tokens")}
        return dg.MaterializeResult(metadata=report(context, "chunk", result) | figures)

    return chunks
