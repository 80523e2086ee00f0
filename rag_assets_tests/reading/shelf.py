"""A store that fsspec reads and that does what a test tells it: `shelf://` addresses."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any, ClassVar

from fsspec import AbstractFileSystem


class Shelf(AbstractFileSystem):  # type: ignore[misc]
    """Files of one process. `files` maps a path to its bytes and what is told of it; `failing` paths raise."""

    protocol = "shelf"
    files: ClassVar[dict[str, tuple[bytes, dict[str, Any]]]] = {}
    failing: ClassVar[dict[str, Exception]] = {}
    given: ClassVar[dict[str, Any]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        Shelf.given.clear()
        Shelf.given.update(options)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        self._fail(path)
        path = path.strip("/")
        below = {name: told for name, told in self.files.items() if name.startswith(f"{path}/" if path else "")}
        if not below and path:
            raise FileNotFoundError(path)
        found: dict[str, Mapping[str, Any]] = {}
        for name, (data, told) in below.items():
            part = name[len(path) :].strip("/").split("/")[0]
            full = f"{path}/{part}".strip("/")
            if full == name:
                found[full] = {"name": full, "size": len(data), "type": "file", **told}
            else:
                found[full] = {"name": full, "size": 0, "type": "directory"}
        return list(found.values()) if detail else list(found)

    def info(self, path: str, **_: Any) -> Mapping[str, Any]:
        self._fail(path)
        if path in self.files:
            data, told = self.files[path]
            return {"name": path, "size": len(data), "type": "file", **told}
        self.ls(path)
        return {"name": path, "size": 0, "type": "directory"}

    def _open(self, path: str, *_: Any, **__: Any) -> BytesIO:
        self._fail(f"{path} is opened")
        return BytesIO(self.files[path][0])

    def _fail(self, path: str) -> None:
        if path.strip("/") in self.failing:
            raise self.failing[path.strip("/")]
