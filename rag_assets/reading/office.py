"""What Word, Excel and PowerPoint files have in common: the check before anything is parsed, and their properties."""

import re
import zipfile
from dataclasses import replace

from rag_assets.reading.archives import Bounds, open_checked, parse_part, read_part
from rag_assets.reading.content import one_line

_CORE = "docProps/core.xml"
_DC = "{http://purl.org/dc/elements/1.1/}"
_KEYS = {f"{_DC}title": "title", f"{_DC}creator": "author", f"{_DC}subject": "subject"}
# What programs write when nobody gave a title.
_NO_TITLE = re.compile(
    r"(?:untitled|document\d*|presentation\d*|powerpoint[ -]pr\S+|pr[äé]sentation\s.*|slide \d+|microsoft \w+ - .*"
    r"|word document|.*\.(?:docx?|tex|dvi|indd|pptx?|xlsx?|odt))",
    re.IGNORECASE,
)


def open_office(data: bytes, bounds: Bounds) -> zipfile.ZipFile:
    """The parts of an Office file, once they are known to be harmless. Raises `DocumentError` otherwise."""
    return open_checked(data, replace(bounds, document_types=False))


def properties(archive: zipfile.ZipFile) -> dict[str, str]:
    """Title, author and subject of an Office file, as far as it has them."""
    if _CORE not in archive.namelist():
        return {}
    found = {
        _KEYS.get(str(element.tag), ""): one_line(element.text or "")
        for element in parse_part(read_part(archive, _CORE), _CORE)
    }
    return {key: value for key, value in found.items() if key and value and not (key == "title" and is_no_title(value))}


def is_no_title(title: str) -> bool:
    """Whether `title` names nothing: blank, or what a program writes by itself."""
    return not title or _NO_TITLE.fullmatch(title) is not None
