"""The asset `C/documents`: what was read. Next: `C/chunks`."""

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import partitioned_asset
from rag_assets.defs.partitions import Shard
from rag_assets.defs.reporting import batch_of, failures_told, report
from rag_assets.defs.resources import StoreResource
from rag_assets.materializing.documents import read_documents
from rag_assets.progress import Heartbeat, reporting
from rag_assets.reading.documents import READER_VERSION
from rag_assets.reading.source import open_source


def documents_asset(corpus: CorpusSettings, shard: Shard = None) -> dg.AssetsDefinition:
    """`C/documents` of `corpus`, or of a shard of it."""

    @partitioned_asset(corpus, "documents", shard=shard, kinds={"python", "lance"}, code_version=READER_VERSION)
    def documents(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        """The source file as text, with its title, hashes, time of modification and status."""
        with failures_told():
            result = read_documents(
                store.open(),
                corpus,
                open_source(corpus),
                batch_of(context),
                run_id=context.run.run_id,
                progress=reporting(Heartbeat(context.log.info)),
            )
        return dg.MaterializeResult(metadata=report(context, "read", result))

    return documents
