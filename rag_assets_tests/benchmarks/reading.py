"""How fast each format is read, beside the library that parses it, alone and in the same run.

The library alone is asked for the same words: the pages in reading order, all cells, all shapes of all slides. Headings,
lists, the notation of tables, where pages start and the checks against hostile files are ours, and cost what is left.
"""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from email import policy
from email.parser import BytesParser
from functools import partial
from pathlib import Path

import mammoth
import pptx
import pypdfium2
import python_calamine
from docutils.core import publish_parts
from pptx.shapes.autoshape import Shape
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.slide import Slide
from selectolax.lexbor import LexborHTMLParser

from rag_assets.errors import DocumentError
from rag_assets.reading.documents import read_document
from rag_assets_tests.benchmarks.format_files import made_by_people, made_up
from rag_assets_tests.benchmarks.measuring import cpu_seconds, medians_in_turn
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size

_GOAL = 0.8


@dataclass(frozen=True)
class Library:
    """What a library is asked for. Without `comparable` it does no more than decode or split, and there is no goal."""

    what: str
    read: Callable[[bytes], object]
    comparable: bool = True


def run(size: Size, folder: Path) -> Report:
    copies, repeats = (2, 1) if size == "tiny" else (100, 7)
    figures = []
    for name, data in made_up(copies).items():
        if name.partition(".")[2] in LIBRARIES:
            figures.append(_figure(name, [(name, data)], repeats))
    for ending in ("pdf", "docx", "pptx", "xlsx", "html") if size == "full" else ():
        files = [(name, data) for name, data in made_by_people(f".{ending}") if _is_readable(name, data)]
        if files:
            figures.append(_figure(f"{len(files)} real .{ending}", files, repeats, ending=ending))
    return Report(
        name="reading",
        title="Reading, in MB of file a second of CPU",
        figures=figures,
        notes=[
            f"a.*: files of {copies} sections, pages or slides; real: shared/corpora/formats. Median of {repeats}, in turn.",
            f"Goal: {_GOAL:.0%} of the library alone. None where it does no more than decode or split.",
        ],
    )


def _figure(what: str, files: list[tuple[str, bytes]], repeats: int, *, ending: str = "") -> Figure:
    library = LIBRARIES[ending or what.rpartition(".")[2]]

    def ours() -> None:
        for name, data in files:
            read_document(name, data)

    def theirs() -> None:
        for _, data in files:
            library.read(data)

    size = sum(len(data) for _, data in files) / 1e6
    seconds = medians_in_turn(repeats, partial(cpu_seconds, ours), partial(cpu_seconds, theirs))
    rate, raw = (size / max(each, 1e-9) for each in seconds)
    goal = Goal("at least", round(_GOAL * raw, 3)) if library.comparable else None
    return Figure(what, rate, "MB/s", Baseline(library.what, raw), goal)


def _is_readable(name: str, data: bytes) -> bool:
    try:
        read_document(name, data)
    except DocumentError:
        return False
    return True


def _pdf(data: bytes) -> object:
    with pypdfium2.PdfDocument(data) as document:
        return [page.get_textpage().get_text_range() for page in document]


def _docx(data: bytes) -> object:
    return mammoth.convert_to_html(io.BytesIO(data)).value


def _pptx(data: bytes) -> object:
    return [list(_slide(slide)) for slide in pptx.Presentation(io.BytesIO(data)).slides]


def _slide(slide: Slide) -> Iterator[str]:
    for shape in _in_order(slide.shapes):
        yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        yield slide.notes_slide.notes_text_frame.text


def _in_order(shapes: Iterable[BaseShape]) -> list[BaseShape]:
    return sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0))


def _shape(shape: BaseShape) -> Iterator[str]:
    if isinstance(shape, GroupShape):
        for inner in _in_order(shape.shapes):
            yield from _shape(inner)
    elif isinstance(shape, GraphicFrame) and shape.has_table:
        for row in shape.table.rows:
            yield "\t".join(cell.text for cell in row.cells)
    elif isinstance(shape, GraphicFrame) and shape.has_chart:
        for plot in shape.chart.plots:
            yield "\t".join(map(str, plot.categories))
            for series in plot.series:
                yield "\t".join([str(series.name), *map(str, series.values)])
    elif isinstance(shape, Shape):
        for part in shape.text_frame.paragraphs:
            yield f"{part.level} {part.text}"


def _xlsx(data: bytes) -> object:
    workbook = python_calamine.load_workbook(io.BytesIO(data))
    return [_lines(workbook.get_sheet_by_name(name).to_python()) for name in workbook.sheet_names]


def _csv(data: bytes) -> object:
    return _lines(csv.reader(io.StringIO(data.decode())))


def _lines(rows: Iterable[Iterable[object]]) -> str:
    return "\n".join("\t".join(map(str, row)) for row in rows)


def _html(data: bytes) -> object:
    root = LexborHTMLParser(data.decode()).root
    return root and [(node.tag, node.text_content) for node in root.traverse(include_text=True)]


def _epub(data: bytes) -> object:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [_html(archive.read(name)) for name in archive.namelist() if name.endswith(".xhtml")]


def _rst(data: bytes) -> object:
    return publish_parts(data.decode(), writer="html5")["html_body"]


def _eml(data: bytes) -> object:
    return BytesParser(policy=policy.default).parsebytes(data).get_content()


LIBRARIES: Mapping[str, Library] = {
    "pdf": Library("PDFium, pages as text", _pdf),
    "docx": Library("Mammoth, as HTML", _docx),
    "pptx": Library("python-pptx, shapes in order as text", _pptx),
    "xlsx": Library("Calamine, cells as text", _xlsx),
    "rst": Library("docutils, as HTML", _rst),
    "html": Library("selectolax, tags and words", _html),
    "epub": Library("zipfile and selectolax, tags and words", _epub),
    "csv": Library("csv, cells as text", _csv),
    "ipynb": Library("json", json.loads, comparable=False),
    "eml": Library("email", _eml, comparable=False),
    "txt": Library("bytes.decode", bytes.decode, comparable=False),
}
