"""The asset `C/embeddings`: every text of the chunks has a vector. Next: `C/index`."""

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import partitioned_asset
from rag_assets.defs.partitions import Shard
from rag_assets.defs.reporting import batch_of, failures_told, report
from rag_assets.defs.resources import EmbeddersResource, StoreResource
from rag_assets.generations import generation_of
from rag_assets.materializing.embeddings import embed_documents
from rag_assets.progress import Heartbeat, reporting


def embeddings_asset(corpus: CorpusSettings, shard: Shard = None) -> dg.AssetsDefinition:
    """`C/embeddings` of `corpus`, or of a shard of it."""

    @partitioned_asset(
        corpus,
        "embeddings",
        shard=shard,
        upstream="chunks",
        kinds={"lance", corpus.embedding.provider},
        code_version=generation_of(corpus).embedding[:12],
        # Without a limit it changes nothing; `dagster instance concurrency set embedding_openai 1` lets runs take turns.
        pool=f"embedding_{corpus.embedding.provider}",
    )
    def embeddings(
        context: dg.AssetExecutionContext, store: StoreResource, embedders: EmbeddersResource
    ) -> dg.MaterializeResult[None]:
        """A vector for every text of the document. A text that has one, in any document of any corpus, is not sent again."""
        with failures_told():
            result = embed_documents(
                store.open(),
                corpus,
                embedders.open_for_documents(corpus.embedding),
                batch_of(context),
                run_id=context.run.run_id,
                progress=reporting(Heartbeat(context.log.info)),
            )
        paid = {name: result.total(name) for name in ("texts_embedded", "texts_reused", "tokens_embedded", "cost_usd")}
        return dg.MaterializeResult(metadata=report(context, "embed", result) | paid)

    return embeddings
