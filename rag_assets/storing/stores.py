"""Which tables there are, and where: everything under `RAG_ASSETS_HOME`.

    corpora/<corpus>/documents.lance            one row a document: its text, status and history
    corpora/<corpus>/chunks.lance               one row a chunk
    corpora/<corpus>/index_<generation>.lance   what readers search
    corpora/<corpus>/publications.lance         the pointer: its last row names what readers see
    corpora/<corpus>/evaluations.lance          how well the index answered, one row an evaluation
    corpora/<corpus>/health.lance               how healthy the corpus was, one row a measurement
    vectors/<embedding>.lance                   one row a text, shared by all corpora
    unneeded/<embedding>.lance                  one row a text whose vector nothing needs, and since when
    answers.lance                               every answer given
    spend.lance                                 what each run paid for embeddings

`lancedb.connect` on `corpora/<corpus>` lists the tables of that corpus.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from filelock import FileLock, Timeout

from rag_assets.caching import cache_folder
from rag_assets.errors import StoreError
from rag_assets.records import (
    ANSWERS,
    CHUNKS,
    DOCUMENTS,
    EVALUATIONS,
    HEALTH,
    PUBLICATIONS,
    SPEND,
    UNNEEDED,
    index_schema,
)
from rag_assets.storing.leases import lease
from rag_assets.storing.objects import Objects, objects_at, require_safe_commits, seconds_behind
from rag_assets.storing.tables import Table
from rag_assets.storing.vectors import VectorTable


@dataclass(frozen=True)
class Note:
    """A note, and when it was written, by the clock of this machine."""

    text: str
    written_at: datetime


@dataclass(frozen=True)
class Store:
    """The tables under `home`, a folder or an object-store URI."""

    home: str

    @property
    def objects(self) -> Objects | None:
        """The object store that the home is in; None where it is a folder."""
        return objects_at(self.home) if "://" in self.home else None

    @contextlib.contextmanager
    def lock(self, name: str, *, timeout_seconds: float = -1) -> Iterator[None]:
        """Hold the lock `name` against all other processes that use the home, in an object store those of other machines
        too. It is released when the process dies; there, some time after.

        Raises `TimeoutError` when another process holds it for longer than `timeout_seconds` (negative: wait for ever).
        """
        if self.objects is not None:
            require_safe_commits(self.objects)
            with lease(self.objects, name, timeout_seconds=timeout_seconds):
                yield
            return
        path = self._lock(name)
        held = FileLock(path, timeout=timeout_seconds)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held.acquire()
        except Timeout:
            raise TimeoutError(f"another process holds {path}") from None
        except OSError as error:
            raise StoreError(
                f"{self.home} cannot be written to ({error.strerror}); correct its permissions, or name another folder with"
                " RAG_ASSETS_HOME"
            ) from None
        try:
            yield
        finally:
            held.release()

    def note(self, name: str, text: str) -> None:
        """Leave `text` beside the locks, for the other processes that use the home."""
        if self.objects is not None:
            self.objects.put(f"locks/{name}", text.encode())
            return
        path = Path(self.home) / "locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def noted(self, name: str) -> Note | None:
        """The note of that name, None where there is none."""
        if self.objects is not None:
            place = f"locks/{name}"
            found, moment = self.objects.get(place), self.objects.modified(place)
            if found is None or moment is None:
                return None
            return Note(found.data.decode(), moment - timedelta(seconds=seconds_behind(self.objects)))
        path = Path(self.home) / "locks" / name
        try:
            moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            return Note(path.read_text(encoding="utf-8"), moment)
        except OSError:
            return None

    def documents(self, corpus: str) -> Table:
        """The documents of `corpus`."""
        return self._table(f"corpora/{corpus}/documents", DOCUMENTS)

    def chunks(self, corpus: str) -> Table:
        """The chunks of `corpus`."""
        return self._table(f"corpora/{corpus}/chunks", CHUNKS)

    def index(self, corpus: str, generation: str, *, dimensions: int) -> Table:
        """What readers of `corpus` search, as `generation` made it. `dimensions` matters only where rows are written."""
        return self._table(f"corpora/{corpus}/{index_name(generation)}", index_schema(dimensions))

    def publications(self, corpus: str) -> Table:
        """What was published of `corpus`, and when."""
        return self._table(f"corpora/{corpus}/publications", PUBLICATIONS)

    def evaluations(self, corpus: str) -> Table:
        """How well the index of `corpus` answered questions with known answers."""
        return self._table(f"corpora/{corpus}/evaluations", EVALUATIONS)

    def health(self, corpus: str) -> Table:
        """How healthy `corpus` was, over time."""
        return self._table(f"corpora/{corpus}/health", HEALTH)

    def vectors(self, embedding_fingerprint: str) -> VectorTable:
        """The vectors of one embedding model and configuration."""
        name = f"vectors/{embedding_fingerprint[:16]}"
        return VectorTable(f"{self.home}/{name}.lance", lock=self._lock(name))

    def unneeded_vectors(self, embedding_fingerprint: str) -> Table:
        """Which vectors of one embedding model nothing needs any more, and since when."""
        return self._table(f"unneeded/{embedding_fingerprint[:16]}", UNNEEDED)

    def answers(self) -> Table:
        """Every answer given, with the passages that fed it."""
        return self._table("answers", ANSWERS)

    def spend(self) -> Table:
        """What each run paid for embeddings."""
        return self._table("spend", SPEND)

    def corpus_uri(self, corpus: str) -> str:
        """The folder that `lancedb.connect` opens to see the tables of `corpus`."""
        return f"{self.home}/corpora/{corpus}"

    def _table(self, name: str, schema: pa.Schema) -> Table:
        return Table(f"{self.home}/{name}.lance", schema, lock=self._lock(name))

    def _lock(self, name: str) -> Path:
        """A file that the processes of this machine lock. Those that commit to an object store take turns by it, and meet
        those of other machines in the store."""
        if self.objects is None:
            folder = Path(self.home) / "locks"
        else:
            folder = cache_folder("locks") / hashlib.sha256(self.home.encode()).hexdigest()[:24]
        return folder / f"{name.replace('/', '.')}.lock"


def index_name(generation: str) -> str:
    """The name of the table that holds `generation`."""
    return f"index_{generation}"
