"""CSV and its kin: rows become a table, whatever the encoding and the delimiter.

What is no table, such as a line longer than any field may be, stays text.
"""

import csv
import io
from collections import Counter

from rag_assets.reading.content import Content, clean
from rag_assets.reading.decoding import decode
from rag_assets.reading.markdown_writing import join_blocks, table

_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 50


def read(data: bytes) -> Content:
    """`data` as a pipe table whose first row is the header."""
    decoded = decode(data)
    try:
        rows = list(csv.reader(io.StringIO(decoded.text, newline=""), delimiter=_delimiter(decoded.text)))
    except csv.Error:
        return Content(decoded.text, lossy=decoded.lossy)
    return Content(clean(join_blocks([table(rows)])), lossy=decoded.lossy)


def _delimiter(text: str) -> str:
    """The delimiter that stands equally often in most of the first lines, and most often where several do."""
    lines = [line for line in text[:100_000].splitlines()[:_SAMPLE_LINES] if line.strip()]
    best, found = (0, 0), ","
    for delimiter in _DELIMITERS:
        count, lines_with = Counter(line.count(delimiter) for line in lines).most_common(1)[0] if lines else (0, 0)
        if count and (lines_with, count) > best:
            best, found = (lines_with, count), delimiter
    return found
