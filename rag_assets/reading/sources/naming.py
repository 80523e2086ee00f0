"""Which names documents may have, and which of them belong to a corpus."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.errors import DocumentError, SourceError
from rag_assets.globs import matcher


@dataclass(frozen=True)
class Wanted:
    """What `include` and `exclude` say. Hidden files and folders never belong to a corpus."""

    include: re.Pattern[str]
    exclude: re.Pattern[str]
    closed: re.Pattern[str]

    def __contains__(self, name: str) -> bool:
        return bool(self.include.match(name)) and not self.exclude.match(name)

    def has_room_in(self, folder: str) -> bool:
        """Whether anything below `folder` may belong to the corpus: not where `exclude` ends it with `/**`."""
        return not is_hidden(folder) and not self.closed.match(folder)


def wanted(include: Sequence[str], exclude: Sequence[str]) -> Wanted:
    """The names that belong to a corpus. Raises `SourceError` for what is no glob."""
    try:
        closed = [glob.removesuffix("/**") for glob in exclude if glob.endswith("/**")]
        return Wanted(matcher(include), matcher(exclude), matcher(closed))
    except ValueError as error:
        raise SourceError(
            f"include or exclude of the corpus holds what is no glob: {error}: {', '.join([*include, *exclude])}"
        ) from None


DEEPEST = 100
"""Below so many folders, one is taken for a folder that contains itself, as a mount or a link can make it do."""

TOO_DEEP = f"it is deeper than {DEEPEST} folders, and may contain itself; exclude it by what is above it"


def is_hidden(name: str) -> bool:
    """Whether a part of the path begins with a dot; `..` does."""
    return name.startswith(".") or "/." in name


def check_name(document: str, wanted: Wanted) -> None:
    """Raise `DocumentError` unless `document` is a path that stays below the root of its corpus, and is `wanted`.

    Anyone can add a partition key in Dagster's UI, so a name may be anything.
    """
    if "\0" in document or is_hidden(document) or not all(document.split("/")):
        raise DocumentError("its name is not a path below the folder of the corpus, or a hidden one; it is not read")
    if document not in wanted:
        raise DocumentError("include or exclude of the corpus leaves its name out; it is not read")


def too_large(size: int, max_bytes: int) -> DocumentError:
    """The reason to set aside a document of `size` bytes or more."""
    return DocumentError(
        f"it has {size:,} bytes, more than max_bytes {max_bytes:,} allows; raise max_bytes of the corpus, or exclude it"
    )
