"""What lies in a home, a folder or a bucket, for tests that look at files behind the tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings


def files_below(uri: str) -> list[str]:
    """The paths of all files below `uri`, relative to it, sorted."""
    if "://" not in uri:
        return sorted(str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file())
    import obstore

    return sorted(one["path"] for some in obstore.list(_store(uri)) for one in some)


def delete_below(uri: str) -> None:
    """Delete all files below `uri`, behind the back of whoever wrote them."""
    for path in files_below(uri):
        if "://" in uri:
            import obstore

            obstore.delete(_store(uri), path)
        else:
            (Path(uri) / path).unlink()


def for_all(home: str, *, examples: int, **values: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`given` for tests with a fixture: in a bucket, where each step takes many requests, a fifth of the examples."""
    count = max(1, examples // 5) if "://" in home else examples

    def decorate(law: Callable[..., None]) -> Callable[..., None]:
        checked: Callable[..., None] = settings(deadline=None, max_examples=count)(given(**values)(law))
        return checked

    return decorate


def _store(uri: str) -> Any:
    from obstore.store import from_url

    return from_url(uri)
