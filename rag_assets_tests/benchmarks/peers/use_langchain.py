"""LangChain: `index()` with a SQL record manager and incremental cleanup, over Chroma."""

import chromadb
from langchain_chroma import Chroma
from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index
from langchain_openai import OpenAIEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

from rag_assets_tests.benchmarks.peers.peer import CHUNK_CHARACTERS, INPUTS_PER_REQUEST, MODEL, Job, Rows, main

_NAMESPACE = "documents"


def ingest(job: Job) -> None:
    """Bring the index up to date."""
    ingest_with(job, openai_embeddings(job))


def ingest_with(job: Job, embeddings: Embeddings) -> None:
    """Bring the index up to date with the vectors of `embeddings`."""
    manager = SQLRecordManager(_NAMESPACE, db_url=f"sqlite:///{job.state / 'records.sqlite'}")
    manager.create_schema()
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_CHARACTERS, chunk_overlap=0)
    documents = [Document(text, metadata={"source": name}) for name, text in job.documents().items()]
    index(
        splitter.split_documents(documents),
        manager,
        _store(job, embeddings),
        cleanup="incremental",
        source_id_key="source",
        key_encoder="blake2b",
    )


def openai_embeddings(job: Job) -> Embeddings:
    """The provider. Texts are sent as texts, not as tokens of OpenAI's own models."""
    return OpenAIEmbeddings(
        model=MODEL,
        base_url=job.base_url,
        api_key="none",
        chunk_size=INPUTS_PER_REQUEST,
        check_embedding_ctx_length=False,
        max_retries=0,
    )


def rows(job: Job) -> Rows:
    """What the vector store holds."""
    found = _store(job, openai_embeddings(job)).get()
    texts: dict[str, list[str]] = {}
    for text, metadata in zip(found["documents"], found["metadatas"], strict=True):
        texts.setdefault(metadata["source"], []).append(text)
    return texts


def _store(job: Job, embeddings: Embeddings) -> Chroma:
    return Chroma(
        _NAMESPACE,
        embedding_function=embeddings,
        persist_directory=str(job.state / "chroma"),
        client_settings=chromadb.Settings(anonymized_telemetry=False, is_persistent=True),
    )


if __name__ == "__main__":
    main(ingest, rows)
