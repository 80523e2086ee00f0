"""One Lance table: created on first use, replaced by document in one commit, read at any version.

Here belongs what is true of every table; which tables there are is `stores.py`. `lance` (0.5 s to import) is enough to
read and write; LanceDB (3 s) is imported only where search indices are built. Any LanceDB client can open the tables.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import tenacity
from filelock import FileLock

from rag_assets.errors import StoreError

if TYPE_CHECKING:
    import lance

# One SQL filter holds at most this many literals; longer lists are split.
_LITERALS = 1_000
# Lance gives up a commit after its own retries when other writers keep winning; so many more times we start over.
_COMMIT_ATTEMPTS = 12


def sql_literal(value: str) -> str:
    """`value` as a Lance SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def is_in(column: str, values: Sequence[str]) -> str:
    """A filter that holds for rows whose `column` is one of `values` (at least one)."""
    return f"{column} IN ({', '.join(sql_literal(value) for value in values)})"


def batches(values: Sequence[str], size: int = _LITERALS) -> Iterator[Sequence[str]]:
    """`values` in slices short enough for one filter."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _is_conflict(error: BaseException) -> bool:
    """Whether a commit lost a race and can be tried again (Lance names the kind of error in its message only)."""
    message = str(error).lower()
    return isinstance(error, OSError | RuntimeError | ValueError) and (
        "conflict" in message or "concurrent" in message or "already exists" in message
    )


retry_on_conflict = tenacity.retry(
    retry=tenacity.retry_if_exception(_is_conflict),
    wait=tenacity.wait_random_exponential(multiplier=0.05, max=3.0),
    stop=tenacity.stop_after_attempt(_COMMIT_ATTEMPTS),
    reraise=True,
)


class Table:
    """A Lance table at `uri` whose rows belong to documents, or are content-addressed."""

    def __init__(self, uri: str, schema: pa.Schema, *, lock: Path | None = None) -> None:
        self.uri = uri
        self.schema = schema
        self._lock_path = lock

    def open(self, version: int | None = None) -> "lance.LanceDataset":
        """The table at `version` (default: the latest), created empty where it does not exist.

        Raises `StoreError` when it exists and cannot be opened, or that version is gone.
        """
        import lance

        try:
            return lance.dataset(self.uri, version=version)
        except (ValueError, FileNotFoundError, OSError) as error:
            if version is not None or not _is_missing(error):
                raise StoreError(
                    f"table {self.uri} (version {version or 'latest'}) cannot be opened: {error}"
                ) from error
        try:
            return lance.write_dataset(self.schema.empty_table(), self.uri, mode="create", schema=self.schema)
        except OSError as error:
            if not _is_conflict(error):
                raise StoreError(f"table {self.uri} cannot be created: {error}") from error
            return lance.dataset(self.uri)

    def exists(self) -> bool:
        """Whether the table was ever created."""
        import lance

        try:
            lance.dataset(self.uri)
        except (ValueError, FileNotFoundError, OSError) as error:
            if _is_missing(error):
                return False
            raise StoreError(f"table {self.uri} cannot be opened: {error}") from error
        return True

    def read(
        self, columns: Sequence[str] | None = None, *, where: str | None = None, version: int | None = None
    ) -> pa.Table:
        """Rows of the latest or the given version; all columns unless named. A missing table is an empty one."""
        if version is None and not self.exists():
            table = self.schema.empty_table()
            return table.select(list(columns)) if columns is not None else table
        dataset = self.open(version)
        return dataset.to_table(columns=list(columns) if columns is not None else None, filter=where)

    def read_where_in(self, column: str, values: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows whose `column` is one of `values`, in no order."""
        wanted = list(columns) if columns is not None else list(self.schema.names)
        if not values or not self.exists():
            return self.schema.empty_table().select(wanted)
        dataset = self.open()
        return pa.concat_tables(
            [dataset.to_table(columns=wanted, filter=is_in(column, some)) for some in batches(values)]
        )

    def append(self, rows: pa.Table) -> None:
        """Add `rows` in one commit. Appends of several writers never conflict."""
        if rows.num_rows:
            dataset = self.open()
            dataset.insert(rows.cast(self.schema), mode="append")

    def replace(self, documents: Sequence[str], rows: pa.Table) -> int:
        """Make `rows` the only rows of `documents`, in one commit, and return the table's version after it.

        A reader sees all of the old rows or all of the new, of every document at once. The new rows are written once;
        when another writer wins the commit, only the deletions are computed again.
        """
        from lance.fragment import write_fragments

        if not documents:
            return int(self.open().version)
        dataset = self.open()
        rows = rows.cast(self.schema)
        fragments = list(write_fragments(rows, dataset, mode="append", schema=self.schema)) if rows.num_rows else []

        @retry_on_conflict
        def commit() -> int:
            with self._commit_lock():
                return self._commit_update(documents, fragments)

        return commit()

    def _commit_update(self, documents: Sequence[str], new_fragments: list[Any]) -> int:
        import lance

        dataset = self.open()
        where = is_in("document", documents)
        removed: list[int] = []
        updated: list[Any] = []
        for fragment_id in _fragments_with(dataset, where):
            fragment: Any = dataset.get_fragment(fragment_id)
            left = fragment.delete(where)
            if left is None:
                removed.append(fragment_id)
            else:
                updated.append(left)
        if not removed and not updated and not new_fragments:
            return int(dataset.version)
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new_fragments
        )
        committed = lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
        return int(committed.version)

    def fragments(self) -> int:
        """How many fragments the latest version has."""
        return len(self.open().get_fragments())

    def compact(self, *, more_than_fragments: int, keep_versions_for: timedelta) -> bool:
        """Merge small fragments when there are more than `more_than_fragments`, fold new rows into the search indices,
        and drop unpublished versions older than `keep_versions_for`. Returns whether it compacted.

        Other writers may win while it works; it then leaves the work to the next time.
        """
        dataset = self.open()
        if len(dataset.get_fragments()) <= more_than_fragments:
            return False
        try:
            with self._commit_lock():
                dataset = self.open()
                dataset.optimize.compact_files()
                dataset.optimize.optimize_indices()
        except (OSError, RuntimeError) as error:
            if _is_conflict(error):
                return False
            raise
        with contextlib.suppress(OSError):  # a version that a reader holds, or another clean-up under way
            dataset.cleanup_old_versions(older_than=keep_versions_for, error_if_tagged_old_versions=False)
        return True

    @contextlib.contextmanager
    def _commit_lock(self) -> Iterator[None]:
        """Writers of one machine take turns, so that they do not use up their retries against each other."""
        if self._lock_path is None:
            yield
            return
        self._lock_path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self._lock_path):
            yield


def _fragments_with(dataset: "lance.LanceDataset", where: str) -> list[int]:
    """Ids of the fragments that hold a row for which `where` is true: the upper half of a row address."""
    addresses = dataset.scanner(columns=[], filter=where, with_row_address=True).to_table()["_rowaddr"]
    return sorted({address >> 32 for address in addresses.to_pylist()})


def _is_missing(error: BaseException) -> bool:
    message = str(error).lower()
    return "not found" in message or "does not exist" in message
