"""PowerPoint presentations: a page a slide, its title a heading, its text lists, its tables and charts tables.

Needs python-pptx, which brings lxml and Pillow: the extra `office`. Speakers' notes stand at the end of their slide.
"""

import io
from collections.abc import Iterable, Iterator

import pptx
from pptx.chart.chart import Chart
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.shapes.picture import Picture
from pptx.slide import Slide
from pptx.text.text import TextFrame

from rag_assets.reading.archives import Bounds
from rag_assets.reading.content import Content, one_line
from rag_assets.reading.markdown_writing import heading, paragraph, table
from rag_assets.reading.office import open_office, properties
from rag_assets.reading.pages import join_pages

_FURNITURE = (PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER)
_BULLETED = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY)


def read(data: bytes) -> Content:
    """`data` as Markdown, with the start of each slide. Its title is the one in its properties, else of its first slide."""
    with open_office(data, Bounds()) as archive:
        named = properties(archive)
    slides = [list(_slide_blocks(slide)) for slide in pptx.Presentation(io.BytesIO(data)).slides]
    text, starts = join_pages(slides)
    title = named.get("title") or next((blocks[0].removeprefix("# ") for blocks in slides if blocks[0]), "")
    metadata = {key: value for key, value in named.items() if key != "title"}
    return Content(text, title=title, metadata={**metadata, "pages": len(slides)}, page_starts=starts)


def _slide_blocks(slide: Slide) -> Iterator[str]:
    """The blocks of a slide, its title first, blank where it has none."""
    shapes = slide.shapes
    title = shapes.title
    yield heading(1, title.text_frame.text) if title is not None and title.has_text_frame else ""
    for shape in _in_reading_order(shape for shape in shapes if title is None or shape.shape_id != title.shape_id):
        yield from _shape_blocks(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {paragraph(notes)}"


def _in_reading_order(shapes: Iterable[BaseShape]) -> list[BaseShape]:
    """From the top down and from left to right; placeholders without a place of their own first, as they are listed."""
    found = list(shapes)
    if len(found) > 1:  # a place is looked up in the layout and its master, which takes longer than the text
        found.sort(key=lambda shape: (shape.top or 0, shape.left or 0))
    return found


def _shape_blocks(shape: BaseShape) -> Iterator[str]:
    if isinstance(shape, GroupShape):
        for inner in _in_reading_order(shape.shapes):
            yield from _shape_blocks(inner)
    elif isinstance(shape, GraphicFrame) and shape.has_table:
        yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
    elif isinstance(shape, GraphicFrame) and shape.has_chart:
        yield from _chart_blocks(shape.chart)
    elif isinstance(shape, Picture):
        yield paragraph(one_line(shape._element._nvXxPr.cNvPr.get("descr") or ""))
    elif shape.has_text_frame:
        kind = shape.placeholder_format.type if shape.is_placeholder else None
        if kind not in _FURNITURE:
            yield _text(shape.text_frame, bulleted=kind in _BULLETED)  # type: ignore[attr-defined]


def _text(frame: TextFrame, *, bulleted: bool) -> str:
    """Paragraphs of a body are list items, as the layout draws them; a single one is prose, as anywhere else."""
    paragraphs = [(part.level, one_line(part.text)) for part in frame.paragraphs]
    paragraphs = [(level, words) for level, words in paragraphs if words]
    is_list = any(level for level, _ in paragraphs) or (bulleted and len(paragraphs) > 1)
    if not is_list:
        return "\n\n".join(paragraph(words) for _, words in paragraphs)
    top = min(level for level, _ in paragraphs)
    return "\n".join(f"{'  ' * (level - top)}- {words}" for level, words in paragraphs)


def _chart_blocks(chart: Chart) -> Iterator[str]:
    if chart.has_title and chart.chart_title.has_text_frame:
        yield paragraph(one_line(chart.chart_title.text_frame.text))
    for plot in chart.plots:
        series = list(plot.series)
        values = [list(each.values) for each in series]
        rows = [["", *(str(each.name or "") for each in series)]]
        for position, category in enumerate(plot.categories):
            rows.append([str(category), *(_number(column, position) for column in values)])
        yield table(rows)


def _number(values: list[float | None], position: int) -> str:
    value = values[position] if position < len(values) else None
    return "" if value is None else f"{value:.15g}"
