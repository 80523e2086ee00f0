"""Plain text files: the text as it is, titled by the file's name."""

from pathlib import PurePosixPath

from rag_assets.reading.decoding import decode
from rag_assets.records import Document


def read_plain(document: str, data: bytes) -> Document:
    """`data` as a document."""
    decoded = decode(data)
    return Document(
        document=document,
        title=PurePosixPath(document).stem,
        mime="text/plain",
        text=decoded.text,
        lossy=decoded.lossy,
    )
