"""Jupyter notebooks: Markdown cells as they are, code cells as fences, and of outputs what is text and short."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rag_assets.errors import DocumentError
from rag_assets.reading.content import Content, clean, one_line
from rag_assets.reading.decoding import decode
from rag_assets.reading.markdown import first_heading
from rag_assets.reading.markdown_writing import fence, join_blocks

MAX_OUTPUT_CHARACTERS = 1_000
"""Longer outputs are logs and dumps: they would outweigh what the author wrote."""


def read(data: bytes) -> Content:
    """`data` as Markdown, titled as its metadata say, else by its first heading."""
    decoded = decode(data)
    try:
        notebook = json.loads(decoded.text)
    except ValueError as error:
        raise DocumentError(f"it is no notebook: not valid JSON ({error}); it is cut short or damaged") from None
    except RecursionError:
        raise DocumentError("it is no notebook: its JSON is nested too deep") from None
    if not isinstance(notebook, dict) or not isinstance(_cells(notebook), list):
        raise DocumentError("it is no notebook: its JSON has no list of cells; rename it to .json to read it as data")
    language = _language(notebook)
    text = clean(join_blocks(block for cell in _cells(notebook) for block in _cell_blocks(cell, language)))
    named = _mapping(notebook, "metadata").get("title")
    return Content(text, title=one_line(str(named)) if named else _first_heading(notebook), lossy=decoded.lossy)


def _first_heading(notebook: Mapping[str, Any]) -> str:
    for cell in _cells(notebook):
        if isinstance(cell, dict) and cell.get("cell_type") == "markdown" and "#" in _text(cell.get("source")):
            found = first_heading(clean(_text(cell.get("source"))))
            if found:
                return found
    return ""


def _cells(notebook: Mapping[str, Any]) -> Any:
    """The cells; notebooks before version 4 keep them in worksheets."""
    sheets = notebook.get("worksheets")
    if "cells" not in notebook and isinstance(sheets, list):
        return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]
    return notebook.get("cells")


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = _mapping(notebook, "metadata")
    named = _mapping(metadata, "language_info").get("name") or _mapping(metadata, "kernelspec").get("language")
    return named if isinstance(named, str) and named.replace("+", "").isalnum() else "python"


def _cell_blocks(cell: object, language: str) -> Iterator[str]:
    if not isinstance(cell, dict):
        return
    source = _text(cell.get("source", cell.get("input")))
    if cell.get("cell_type") != "code":
        yield source.strip("\n").rstrip()
        return
    yield fence(source, language)
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        written = _output(output) if isinstance(output, dict) else ""
        if written.strip() and len(written) <= MAX_OUTPUT_CHARACTERS:
            yield fence(written, "text")


def _output(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _text(output.get("text"))
        case "execute_result" | "display_data" | "pyout":
            return _text(_mapping(output, "data").get("text/plain", output.get("text")))
        case "error" | "pyerr":
            return f"{output.get('ename', '')}: {output.get('evalue', '')}"
    return ""


def _text(source: object) -> str:
    if isinstance(source, str):
        return source
    return "".join(str(line) for line in source) if isinstance(source, Sequence) else ""


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
