"""Passages written by hand, with as little ceremony as a test needs."""

from rag_assets.records import Passage


def passage(text: str, document: str = "a.md", *, start: int = 0, title: str = "", heading: str = "") -> Passage:
    """A passage of `document` that begins at code point `start`."""
    return Passage(
        chunk_id=f"{document}:{start}",
        document=document,
        ordinal=start,
        text=text,
        title=title,
        source_uri=f"file:///corpus/{document}",
        heading_path=(heading,) if heading else (),
        start_char=start,
        end_char=start + len(text),
        start_line=1 + start,
        end_line=1 + start + text.count("\n"),
        score=0.5,
        similarity=None,
    )
