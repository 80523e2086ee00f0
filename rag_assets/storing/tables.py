"""One Lance table: created on first use, replaced by document in one commit, read at any version.

Here belongs what is true of every table; which tables there are is `stores.py`. `lance` (0.5 s to import) is enough to
read and write; LanceDB (3 s) is imported only where search indices are built. Any LanceDB client can open the tables.
"""

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import tenacity
from filelock import FileLock

from rag_assets.errors import StoreError
from rag_assets.storing.objects import require_reachable, store_trouble

if TYPE_CHECKING:
    import lance

KEEP_VERSIONS_FOR = timedelta(minutes=10)
"""For so long after a version of a table was left behind, whoever opened it may read it."""

READ_AHEAD_BYTES = 32 * 1024 * 1024
"""How much of a table that is read from end to end waits in memory. Lance's own 2 GiB held most of 200,000 rows there."""

# One SQL filter holds at most this many literals; longer lists are split.
_LITERALS = 1_000
# Simulated with 2,000 commits of 800 rows after 10,000: steps of 2, 4 and 8 write a row again 6, 3.5 and 3 times, and one
# fragment for all 51 times; longer steps leave more fragments.
_FRAGMENT_STEP = 4
_SMALLEST_FRAGMENT = 64
_LARGEST_FRAGMENT = 1024 * 1024
# Lance's own 0.1 would write ten rows for each one that is replaced somewhere in a big table.
_DELETED_SHARE = 0.2
_DELETED_ROWS = 1_000
# What a merge holds in memory: a row with a vector of 1,536 dimensions takes some 8 kB.
_ROWS_IN_MEMORY = 2_048
_THREADS = 2
# Bytes of the indices and of the rest that a process keeps. The vector index of 1,000,000 rows of 384 dimensions has 390 MB.
_INDEX_CACHE = 512 * 1024 * 1024
_METADATA_CACHE = 128 * 1024 * 1024
# Lance gives up a commit after its own retries when other writers keep winning; so many more times we start over.
_COMMIT_ATTEMPTS = 20


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


@functools.cache
def _session() -> Any:
    """What this process has read of indices and files, for whoever opens a table again. A question that finds it takes a
    third of the time, and so does a replacement among 1,000,000 rows. A table that was deleted and made again is told apart
    by its files."""
    from lance import Session  # type: ignore[attr-defined]  # documented, and not listed in its `__all__`

    return Session(index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE)


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
        return self.open_existing(version) or self._create()

    def open_existing(self, version: int | None = None) -> "lance.LanceDataset | None":
        """As `open`; None in place of a table that was never created. To ask `exists` first would look twice."""
        import lance

        require_reachable(self.uri)
        try:
            dataset = lance.dataset(self.uri, version=version, session=_session())
        except (ValueError, FileNotFoundError, OSError) as error:
            if trouble := store_trouble(self.uri, error):
                raise trouble from error
            if version is None and _is_missing(error):
                return None
            raise StoreError(
                f"table {self.uri} (version {version or 'latest'}) is lost or damaged ({first_line(error)[:200]});"
                " rag-assets doctor tells what else is, and rag-assets doctor --fix mends it"
            ) from error
        return dataset if version is not None else self._upgraded(dataset)

    def _upgraded(self, dataset: "lance.LanceDataset") -> "lance.LanceDataset":
        """Give a table that an earlier version of the code made the columns that came since, empty."""
        known = set(dataset.schema.names)
        new = [field for field in self.schema if field.name not in known and field.nullable]
        if not new:
            return dataset

        @retry_on_conflict
        def add() -> "lance.LanceDataset":
            import lance

            with self._commit_lock():
                latest = lance.dataset(self.uri)
                missing = [field for field in new if field.name not in latest.schema.names]
                if missing:
                    latest.add_columns(missing)
                return lance.dataset(self.uri)

        return add()

    def _create(self) -> "lance.LanceDataset":
        """Make the table, unless another process was faster.

        Not with `write_dataset(mode="create")`: when two look, see nothing and write, Lance takes the later for an
        overwrite, and what the faster one had appended meanwhile is gone. Without retries the later one fails instead.
        """
        import lance

        empty = lance.LanceOperation.Overwrite(self.schema, [])
        try:
            return lance.LanceDataset.commit(self.uri, empty, max_retries=0)
        except OSError as error:
            if self.exists():
                return lance.dataset(self.uri)
            trouble = store_trouble(self.uri, error)
            raise trouble or StoreError(f"table {self.uri} cannot be created: {first_line(error)}") from error

    def exists(self) -> bool:
        """Whether the table was ever created."""
        import lance

        require_reachable(self.uri)
        try:
            lance.dataset(self.uri)
        except (ValueError, FileNotFoundError, OSError) as error:
            trouble = store_trouble(self.uri, error)
            if trouble is None and _is_missing(error):
                return False
            raise trouble or StoreError(f"table {self.uri} cannot be opened: {first_line(error)}") from error
        return True

    def read(
        self, columns: Sequence[str] | None = None, *, where: str | None = None, version: int | None = None
    ) -> pa.Table:
        """Rows of the latest or the given version; all columns unless named. A missing table is an empty one."""
        dataset = self.open_existing(version)
        if dataset is None:
            table = self.schema.empty_table()
            return table.select(list(columns)) if columns is not None else table
        with self._reading():
            return dataset.to_table(columns=list(columns) if columns is not None else None, filter=where)

    def scan(
        self, columns: Sequence[str], *, where: str | None = None, version: int | None = None, rows: int
    ) -> Iterator[pa.Table]:
        """As `read`, at most `rows` at a time, for those who look at everything. A missing table has none."""
        dataset = self.open_existing(version)
        if dataset is None:
            return
        with self._reading():
            for batch in dataset.to_batches(
                columns=list(columns), filter=where, batch_size=rows, batch_readahead=2, io_buffer_size=READ_AHEAD_BYTES
            ):
                yield pa.Table.from_batches([batch])

    def read_where_in(
        self, column: str, values: Sequence[str], columns: Sequence[str] | None = None, *, at_once: int = _LITERALS
    ) -> pa.Table:
        """Rows whose `column` is one of `values`, in no order; `at_once` values are looked up by one filter."""
        wanted = list(columns) if columns is not None else list(self.schema.names)
        dataset = self.open_existing() if values else None
        if dataset is None:
            return self.schema.empty_table().select(wanted)
        return self._rows_in(dataset, column, values, wanted, at_once)

    def append(self, rows: pa.Table) -> None:
        """Add `rows` in one commit. Appends of several writers never conflict."""
        if rows.num_rows:
            dataset = self.open()
            with self._writing():
                dataset.insert(rows.cast(self.schema), mode="append")

    def append_next(self, rows: pa.Table, *, column: str, greatest: int) -> bool:
        """Add `rows` in one commit, where `greatest` is the greatest value of the integer `column` (0: no row is there), and
        return whether it was and still is: of two writers who found the same, one adds its rows.
        """
        from lance.fragment import write_fragments

        with self._commit_lock():
            dataset = self.open()
            if (pc.max(dataset.to_table(columns=[column])[column]).as_py() or 0) != greatest:
                return False
            fragments = list(write_fragments(rows.cast(self.schema), dataset, mode="append", schema=self.schema))
            try:
                self._commit_update(dataset, "false", fragments)
            except (OSError, RuntimeError, ValueError) as error:
                if not _is_conflict(error):
                    raise
                return False
        return True

    def overwrite(self, rows: pa.Table) -> int:
        """Make `rows` the only rows of the table, and return its version after that."""
        import lance

        self.open()
        with self._commit_lock():
            return int(lance.write_dataset(rows.cast(self.schema), self.uri, mode="overwrite").version)

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
        with self._writing():
            fragments = list(write_fragments(rows, dataset, mode="append", schema=self.schema)) if rows.num_rows else []

        @retry_on_conflict
        def commit() -> int:
            with self._commit_lock():
                return self._commit_update(self.open(), is_in("document", documents), fragments)

        return commit()

    def rewrite(self, documents: Sequence[str], change: Callable[[pa.Table], pa.Table]) -> int:
        """Replace the rows of `documents` with what `change` makes of them, in one commit, and return the version after it.

        No other writer comes between reading and writing: when one did, the rows are read, and changed, again.
        """
        from lance.fragment import write_fragments

        @retry_on_conflict
        def commit() -> int:
            with self._commit_lock():
                dataset = self.open()
                old = self._rows_in(dataset, "document", documents, self.schema.names, _LITERALS)
                if old.num_rows == 0:
                    return int(dataset.version)
                rows = change(old).cast(self.schema)
                fragments = list(write_fragments(rows, dataset, mode="append", schema=self.schema))
                return self._commit_update(dataset, is_in("document", documents), fragments)

        return commit() if documents else int(self.open().version)

    def _rows_in(
        self, dataset: "lance.LanceDataset", column: str, values: Sequence[str], columns: Sequence[str], at_once: int
    ) -> pa.Table:
        with self._reading():
            return pa.concat_tables(
                [
                    dataset.to_table(columns=list(columns), filter=is_in(column, some))
                    for some in batches(values, at_once)
                ]
            )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Tell of files that are damaged or gone as what they are."""
        try:
            yield
        except (ValueError, OSError) as error:
            if trouble := store_trouble(self.uri, error):
                raise trouble from error
            raise StoreError(
                f"table {self.uri} cannot be read: {first_line(error)[:200]}. Restore its folder from a backup, or run"
                " rag-assets doctor --fix, which keeps what can be read and makes again what can be made"
            ) from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Tell of an object store that cannot be reached as what it is. A lost race is not that."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            trouble = None if _is_conflict(error) else store_trouble(self.uri, error)
            if trouble is None:
                raise
            raise trouble from error

    def _commit_update(self, dataset: "lance.LanceDataset", where: str, new_fragments: list[Any]) -> int:
        """Put `new_fragments` in place of the rows for which `where` is true. Of two who add rows to the same version, or
        take the same rows, one fails.

        Lance sees a conflict only where two commits touch one fragment, so that two who add rows of a new document would
        both succeed. Therefore whoever adds rows touches the oldest fragment, or, where there is none, makes the table anew.
        """
        import lance

        fragments = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
        removed: list[int] = []
        updated: dict[int, Any] = {}
        for fragment_id, addresses in _addresses(dataset, where).items():
            fragment: Any = fragments[fragment_id]
            # Each fragment reads its filter anew. A long list of documents costs ten times the rows that are meant.
            left = fragment.delete(min(where, f"_rowaddr IN ({', '.join(map(str, addresses))})", key=len))
            if left is None:
                removed.append(fragment_id)
            else:
                updated[fragment_id] = left
        if new_fragments and not fragments:
            first = lance.LanceOperation.Overwrite(self.schema, new_fragments)
            made = lance.LanceDataset.commit(dataset, first, read_version=dataset.version, max_retries=0)
            return int(made.version)
        if new_fragments and (oldest := min(fragments)) not in removed:
            updated.setdefault(oldest, fragments[oldest].metadata)
        if not removed and not updated and not new_fragments:
            return int(dataset.version)
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=list(updated.values()), new_fragments=new_fragments
        )
        committed = lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
        return int(committed.version)

    def fragments(self) -> int:
        """How many fragments the latest version has."""
        return len(self.open().get_fragments())

    def compact(self, *, more_than_fragments: int) -> bool:
        """Merge small fragments when there are more than `more_than_fragments`, and rewrite those with many deleted rows.
        Returns whether there was anything to do.

        Only fragments of about one size are merged, so that a row is written again a few times, not once for every few
        commits. Other writers may win while it works; it then leaves the work to the next time.
        """
        try:
            if not _is_scattered(self.open(), more_than_fragments):
                return False
            with self._commit_lock():
                dataset = self.open()
                before = dataset.version
                fragments = [(fragment.physical_rows, fragment.num_deletions) for fragment in dataset.get_fragments()]
                few = more_than_fragments // 2 + sum(rows for rows, _ in fragments) // _LARGEST_FRAGMENT
                dataset.optimize.compact_files(
                    target_rows_per_fragment=fragment_size(fragments, at_most=few),
                    materialize_deletions_threshold=_DELETED_SHARE,
                    batch_size=_ROWS_IN_MEMORY,
                    num_threads=_THREADS,
                )
                return int(dataset.version) != before
        except (OSError, RuntimeError) as error:
            if _is_conflict(error):
                return False
            raise

    def clean_up(self, *, keep_versions_for: timedelta | None = None, spare: Collection[int] = ()) -> int:
        """Drop the versions that another one took the place of longer ago than `keep_versions_for` (by default
        `KEEP_VERSIONS_FOR`), and return the bytes that this freed. Tagged versions stay, and those of `spare`.

        What counts is when a version was left, not when it was made: whoever opened it before that may still read it.
        """
        dataset = self.open()
        keep_for = KEEP_VERSIONS_FOR if keep_versions_for is None else keep_versions_for
        moment = (datetime.now(UTC) - keep_for).timestamp()
        left = [(version, at) for (version, _), (_, at) in pairwise(_commits(dataset))]
        old = [version for version, at in left if at.timestamp() < moment and version not in spare]
        if not old:
            return 0
        try:
            done = dataset.cleanup_old_versions(versions=old, error_if_tagged_old_versions=False)
        except OSError:  # another clean-up is under way
            return 0
        return int(done.bytes_removed)

    def written_at(self) -> datetime:
        """When the latest version was committed."""
        return _commits(self.open())[-1][1]

    def delete(self, where: str) -> int:
        """Delete the rows for which `where` is true, and return how many there were."""

        @retry_on_conflict
        def commit() -> int:
            with self._commit_lock():
                return int(self.open().delete(where)["num_deleted_rows"])

        return commit()

    def drop(self) -> None:
        """Delete the table with everything in it."""
        import lance

        lance.LanceDataset.drop(self.uri, ignore_not_found=True)

    @contextlib.contextmanager
    def _commit_lock(self) -> Iterator[None]:
        """Writers of one machine take turns, so that they do not use up their retries against each other."""
        with contextlib.ExitStack() as held:
            if self._lock_path is not None:
                # Of an object store the lock lies in the user's cache, which may be read-only. A singleton, because who
                # commits may find that the table lacks columns, and commit those first.
                with contextlib.suppress(OSError) if "://" in self.uri else contextlib.nullcontext():
                    self._lock_path.parent.mkdir(parents=True, exist_ok=True)
                    held.enter_context(FileLock(self._lock_path, is_singleton=True))
            with self._writing():
                yield


def _commits(dataset: "lance.LanceDataset") -> list[tuple[int, datetime]]:
    """Each version that is there, the oldest first, and when it was made. Lance tells local times without a zone."""
    versions: list[Any] = dataset.versions()
    return [(int(one["version"]), one["timestamp"].astimezone(UTC)) for one in versions]


def _is_scattered(dataset: "lance.LanceDataset", more_than_fragments: int) -> bool:
    """Whether there are too many fragments, or too many deleted rows, which searches still pass over."""
    fragments = dataset.get_fragments()
    stored = sum(fragment.physical_rows for fragment in fragments)
    if len(fragments) > more_than_fragments + stored // _LARGEST_FRAGMENT:
        return True
    deleted = sum(fragment.num_deletions for fragment in fragments)
    return deleted > max(_DELETED_ROWS, _DELETED_SHARE * stored)


def fragment_size(fragments: Sequence[tuple[int, int]], *, at_most: int) -> int:
    """The smallest size, by powers of four, at which merging what is smaller leaves at most `at_most` fragments.

    `fragments` are the rows written to each, in order, and how many of them are deleted. Only neighbours are merged; a
    fragment with many deleted rows is written again whatever its size, in as many as this size makes of it.
    """
    size = _SMALLEST_FRAGMENT
    while size < _LARGEST_FRAGMENT:
        left = 0
        for is_rewritten, run in groupby(fragments, key=functools.partial(_is_rewritten, size=size)):
            rows = [written - deleted for written, deleted in run]
            left += max(1, sum(rows) // size) if is_rewritten else len(rows)
        if left <= at_most:
            break
        size *= _FRAGMENT_STEP
    return min(size, _LARGEST_FRAGMENT)


def _is_rewritten(fragment: tuple[int, int], *, size: int) -> bool:
    written, deleted = fragment
    return written - deleted < size or deleted > _DELETED_SHARE * written


def _addresses(dataset: "lance.LanceDataset", where: str) -> dict[int, list[int]]:
    """The addresses of the rows for which `where` is true, by fragment, whose id is the upper half of an address."""
    found = dataset.scanner(columns=[], filter=where, with_row_address=True).to_table()["_rowaddr"]
    by_fragment = groupby(sorted(found.to_pylist()), key=lambda address: address >> 32)
    return {fragment: list(addresses) for fragment, addresses in by_fragment}


def first_line(error: BaseException) -> str:
    """What `error` says, without the place in Lance's own source that ends its messages."""
    return re.split(r",?\s+\S*/rustc?/\S+\.rs:\d+", str(error).splitlines()[0] if str(error) else type(error).__name__)[
        0
    ]


def _is_missing(error: BaseException) -> bool:
    message = str(error).lower()
    return "not found" in message or "does not exist" in message
