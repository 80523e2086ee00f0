"""An answer that is shown while it is written: as text, or as a JSON object a line."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rag_assets.showing import visible


@contextmanager
def streaming(write: Callable[[str], None], *, as_json: bool) -> Iterator[Callable[[str], None]]:
    """Yields what takes the pieces of an answer and hands them to `write`.

    Text that breaks off ends its line first, so that what is said of it stands on a line of its own.
    """
    begun = False

    def on_text(text: str) -> None:
        nonlocal begun
        begun = True
        write(event("text", text=text) if as_json else visible(text))

    try:
        yield on_text
    except BaseException:
        if begun and not as_json:
            write("\n")
        raise


def event(kind: str, **values: object) -> str:
    """One line of a stream of JSON objects; `event` says what it is."""
    return json.dumps({"event": kind, **values}, ensure_ascii=False) + "\n"
