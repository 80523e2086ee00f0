"""Checks of a corpus, named as sentences that are true when green."""

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.resources import StoreResource
from rag_assets.errors import SourceError
from rag_assets.reading.source import open_source
from rag_assets.scanning import scan
from rag_assets.storing.ledger import known_documents, set_aside_documents

_SHOWN = 100


def corpus_checks(corpus: CorpusSettings) -> list[dg.AssetChecksDefinition]:
    """The checks of `corpus`."""

    @dg.asset_check(
        asset=dg.AssetKey([corpus.name, "published_index"]),
        name="every_document_is_indexed",
        description="No document was set aside. Those that were are listed with the stage and the reason; their last good"
        " rows stay searchable, and the sensor tries them again alone.",
    )
    def every_document_is_indexed(store: StoreResource) -> dg.AssetCheckResult:
        known = known_documents(store.open().documents(corpus.name))
        failed = set_aside_documents(known)
        metadata: dict[str, dg.MetadataValue] = {"documents": dg.MetadataValue.int(len(known))}
        if failed:
            records = [
                dg.TableRecord({"document": d.document, "stage": d.stage or "", "reason": d.reason or ""})
                for d in failed[:_SHOWN]
            ]
            metadata["set_aside"] = dg.MetadataValue.table(records)
        return dg.AssetCheckResult(
            passed=not failed,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{len(failed)} of {len(known)} documents are set aside" if failed else None,
            metadata=metadata,
        )

    @dg.asset_check(
        asset=dg.AssetKey([corpus.name, "published_index"]),
        name="no_deletion_is_withheld",
        description="The source can be listed, and no implausible number of documents vanished from it at once.",
    )
    def no_deletion_is_withheld(store: StoreResource) -> dg.AssetCheckResult:
        try:
            withheld = scan(store.open(), corpus, open_source(corpus)).withheld
        except SourceError as error:
            withheld = str(error)
        remedy = f". If they are meant to be gone: rag-assets ingest {corpus.name} --confirm-deletions"
        return dg.AssetCheckResult(
            passed=withheld is None,
            severity=dg.AssetCheckSeverity.WARN,
            description=withheld and withheld + remedy,
        )

    return [every_document_is_indexed, no_deletion_is_withheld]
