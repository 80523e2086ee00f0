"""XML as it is written: it is not parsed, so nothing in it is expanded. Only its declared encoding is looked at."""

import re

from rag_assets.reading.content import Content
from rag_assets.reading.decoding import decode

_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})""")


def read(data: bytes) -> Content:
    """`data` as text."""
    decoded = decode(data, declared=declared_encoding(data))
    return Content(decoded.text, lossy=decoded.lossy)


def declared_encoding(data: bytes) -> str | None:
    """What the XML declaration says of the encoding, None where there is none."""
    found = _DECLARED.match(data)
    return found[1].decode("ascii") if found else None
