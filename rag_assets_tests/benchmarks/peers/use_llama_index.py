"""LlamaIndex: an `IngestionPipeline` with a document store, upserts and deletions, and its cache, over Chroma."""

import chromadb
from llama_index.core import Document
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.vector_stores.chroma import ChromaVectorStore

from rag_assets_tests.benchmarks.peers.peer import CHUNK_TOKENS, INPUTS_PER_REQUEST, MODEL, Job, Rows, main


def ingest(job: Job) -> None:
    """Bring the index up to date; the document store and the cache are files that are written at the end."""
    embedder = OpenAILikeEmbedding(
        model_name=MODEL, api_base=job.base_url, api_key="none", embed_batch_size=INPUTS_PER_REQUEST, max_retries=0
    )
    splitter = SentenceSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=0, paragraph_separator="\n\n")
    pipeline = IngestionPipeline(
        transformations=[splitter, embedder],
        docstore=SimpleDocumentStore(),
        vector_store=ChromaVectorStore(chroma_collection=_collection(job)),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    storage = job.state / "pipeline"
    if storage.exists():
        pipeline.load(str(storage))
    try:
        pipeline.run(documents=[Document(doc_id=name, text=text) for name, text in job.documents().items()])
    finally:
        pipeline.persist(str(storage))


def rows(job: Job) -> Rows:
    """What the vector store holds."""
    found = _collection(job).get()
    texts: dict[str, list[str]] = {}
    for text, metadata in zip(found["documents"] or [], found["metadatas"] or [], strict=True):
        texts.setdefault(str(metadata["ref_doc_id"]), []).append(text)
    return texts


def _collection(job: Job) -> chromadb.Collection:
    settings = chromadb.Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(str(job.state / "chroma"), settings).get_or_create_collection("documents")


if __name__ == "__main__":
    main(ingest, rows)
