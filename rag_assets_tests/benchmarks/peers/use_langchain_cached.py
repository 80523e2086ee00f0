"""LangChain again, with its cache of embeddings in front of the provider."""

from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_classic.storage import LocalFileStore

from rag_assets_tests.benchmarks.peers.peer import INPUTS_PER_REQUEST, MODEL, Job, main
from rag_assets_tests.benchmarks.peers.use_langchain import ingest_with, openai_embeddings, rows


def ingest(job: Job) -> None:
    """Bring the index up to date; a vector is written to the cache with every request."""
    cache = LocalFileStore(job.state / "cache")
    embeddings = CacheBackedEmbeddings.from_bytes_store(
        openai_embeddings(job), cache, namespace=MODEL, batch_size=INPUTS_PER_REQUEST, key_encoder="blake2b"
    )
    ingest_with(job, embeddings)


if __name__ == "__main__":
    main(ingest, rows)
