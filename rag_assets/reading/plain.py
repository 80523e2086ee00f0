"""Text that is kept as it is: notes, logs, source code, settings and data. What it means is the chunker's business."""

from rag_assets.reading.content import Content
from rag_assets.reading.decoding import decode


def read(data: bytes) -> Content:
    """`data` as text."""
    decoded = decode(data)
    return Content(decoded.text, lossy=decoded.lossy)
