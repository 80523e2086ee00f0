"""CocoIndex: a flow from local files to LanceDB, with a memoised function for a file and one for the vector of a text."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cocoindex as coco
import lancedb as lance_database
import numpy as np
from cocoindex.connectors import lancedb, localfs
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike, PatternFilePathMatcher
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray
from openai import AsyncOpenAI

from rag_assets_tests.benchmarks.peers.peer import CHUNK_CHARACTERS, INPUTS_PER_REQUEST, MODEL, Job, Rows, main

_TABLE = "documents"
_DATABASE = coco.ContextKey[lancedb.LanceAsyncConnection]("database")
_splitter = RecursiveSplitter()
_job: Job


@coco.fn.as_async(batching=True, max_batch_size=INPUTS_PER_REQUEST)
async def _request(texts: list[str]) -> list[NDArray[np.float32]]:
    client = AsyncOpenAI(base_url=_job.base_url, api_key="none", max_retries=0)
    reply = await client.embeddings.create(model=MODEL, input=texts)
    return [np.array(item.embedding, dtype=np.float32) for item in reply.data]


@coco.fn(memo=True)
async def embed(text: str) -> NDArray[np.float32]:
    """The vector of a text; the engine puts texts that are asked for at once into one request."""
    return await _request(text)


@dataclass
class Row:
    """A chunk."""

    id: int
    document: str
    text: str
    embedding: Annotated[NDArray[np.float32], VectorSchema(dtype=np.dtype(np.float32), size=32)]


@coco.lifespan
async def _lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = _job.state / "cocoindex"
    builder.provide(_DATABASE, await lancedb.connect_async(str(_job.state / "lancedb")))
    yield


@coco.fn
async def _chunk(chunk: Chunk, document: str, ids: IdGenerator, table: lancedb.TableTarget[Row]) -> None:
    row = Row(await ids.next_id(chunk.text), document, chunk.text, await embed(chunk.text))
    table.declare_row(row=row)


@coco.fn(memo=True)
async def _file(file: FileLike, table: lancedb.TableTarget[Row]) -> None:
    chunks = _splitter.split(await file.read_text(), chunk_size=CHUNK_CHARACTERS, chunk_overlap=0, language="markdown")
    await coco.map(_chunk, chunks, file.file_path.path.name, IdGenerator(), table)


@coco.fn
async def _flow(folder: Path) -> None:
    schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
    table = await lancedb.mount_table_target(_DATABASE, _TABLE, schema)
    files = localfs.walk_dir(folder, path_matcher=PatternFilePathMatcher(included_patterns=["**/*.md"]))
    await coco.mount_each(_file, files.items(), table)


def ingest(job: Job) -> None:
    """Bring the index up to date."""
    global _job
    _job = job
    coco.App(coco.AppConfig(name="Peer"), _flow, folder=job.corpus).update_blocking()


def rows(job: Job) -> Rows:
    """What the table holds."""
    database = lance_database.connect(str(job.state / "lancedb"))
    texts: dict[str, list[str]] = {}
    if _TABLE in database.list_tables().tables:
        for row in database.open_table(_TABLE).to_arrow().select(["document", "text"]).to_pylist():
            texts.setdefault(row["document"], []).append(row["text"])
    return texts


if __name__ == "__main__":
    main(ingest, rows)
