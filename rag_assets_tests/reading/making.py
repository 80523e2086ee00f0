"""Small files of many formats, made by hand so that a test shows everything that is in them."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONSHIPS = "http://schemas.openxmlformats.org/package/2006/relationships"
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    """A ZIP archive of `parts`."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return target.getvalue()


def docx(body: str, more: Mapping[str, str | bytes] | None = None) -> bytes:
    """A Word document whose body is the XML `body`, with styles for headings and a numbering for two kinds of lists."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name}"/></w:style>'
        for name in ("Title", "heading 1", "heading 2", "Source Code")
    )
    numbering = "".join(
        f'<w:abstractNum w:abstractNumId="{number}">'
        + "".join(f'<w:lvl w:ilvl="{level}"><w:numFmt w:val="{kind}"/></w:lvl>' for level in (0, 1))
        + f'</w:abstractNum><w:num w:numId="{number}"><w:abstractNumId w:val="{number}"/></w:num>'
        for number, kind in ((1, "bullet"), (2, "decimal"))
    )
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"/>',
            "_rels/.rels": f'<Relationships xmlns="{_RELATIONSHIPS}"><Relationship Id="r1" Type="{R}/officeDocument"'
            ' Target="word/document.xml"/></Relationships>',
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{_RELATIONSHIPS}">'
            f'<Relationship Id="s" Type="{R}/styles" Target="styles.xml"/>'
            f'<Relationship Id="n" Type="{R}/numbering" Target="numbering.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{W}" xmlns:m="{M}"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": f'<w:styles xmlns:w="{W}">{styles}</w:styles>',
            "word/numbering.xml": f'<w:numbering xmlns:w="{W}">{numbering}</w:numbering>',
            **(more or {}),
        }
    )


def word(text: str, style: str = "", *, numbered: tuple[int, int] | None = None) -> str:
    """A paragraph of a Word document; `numbered` is the numbering and the level of a list item."""
    inner = f'<w:pStyle w:val="{style}"/>' if style else ""
    if numbered:
        inner += f'<w:numPr><w:ilvl w:val="{numbered[1]}"/><w:numId w:val="{numbered[0]}"/></w:numPr>'
    return f'<w:p><w:pPr>{inner}</w:pPr><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def word_table(rows: Sequence[Sequence[str]]) -> str:
    """A table of a Word document."""
    cells = ("".join(f"<w:tc>{word(text)}</w:tc>" for text in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def core(**named: str) -> str:
    """The properties of an Office file."""
    inner = "".join(f"<dc:{name}>{escape(value)}</dc:{name}>" for name, value in named.items())
    return f'<c:core xmlns:c="urn:core" xmlns:dc="http://purl.org/dc/elements/1.1/">{inner}</c:core>'


def xlsx(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    """A workbook. A string is text, a number a number, None an empty cell, and a tuple (number, 1) a date."""
    names = list(sheets)
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_TYPES}"/>',
        "_rels/.rels": f'<Relationships xmlns="{_RELATIONSHIPS}"><Relationship Id="r1" Type="{R}/officeDocument"'
        ' Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_SHEETS}" xmlns:r="{R}"><sheets>'
        + "".join(f'<sheet name="{escape(name)}" sheetId="{n}" r:id="s{n}"/>' for n, name in enumerate(names, 1))
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_RELATIONSHIPS}">'
        f'<Relationship Id="st" Type="{R}/styles" Target="styles.xml"/>'
        + "".join(
            f'<Relationship Id="s{n}" Type="{R}/worksheet" Target="worksheets/s{n}.xml"/>'
            for n in range(1, len(names) + 1)
        )
        + "</Relationships>",
        "xl/styles.xml": f'<styleSheet xmlns="{_SHEETS}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
        "</styleSheet>",
    }
    for number, rows in enumerate(sheets.values(), 1):
        lines = "".join(
            f'<row r="{r}">{"".join(_cell(r, c, value) for c, value in enumerate(row))}</row>'
            for r, row in enumerate(rows, 1)
        )
        parts[f"xl/worksheets/s{number}.xml"] = (
            f'<worksheet xmlns="{_SHEETS}"><sheetData>{lines}</sheetData></worksheet>'
        )
    return archive(parts)


def _cell(row: int, column: int, value: object) -> str:
    place = f"{chr(65 + column)}{row}"
    match value:
        case None:
            return ""
        case str():
            return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        case bool():
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        case tuple():
            return f'<c r="{place}" s="1"><v>{value[0]}</v></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def epub(chapters: Sequence[str], *, title: str = "A book") -> bytes:
    """A book whose chapters are the XHTML bodies `chapters`."""
    items = "".join(
        f'<item id="c{n}" href="text/c%20{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(chapters))
    )
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OPS/package.opf"/></rootfiles></container>',
            "OPS/package.opf": '<package xmlns="http://www.idpf.org/2007/opf"'
            f' xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>{title}</dc:title>'
            f"<dc:creator>Ann Author</dc:creator></metadata><manifest>{items}</manifest><spine>{order}</spine></package>",
            **{
                f"OPS/text/c {n}.xhtml": '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">'
                f"<head><title/></head><body>{chapter}</body></html>"
                for n, chapter in enumerate(chapters)
            },
        }
    )


Words = tuple[int, int, int, str]
"""Size, left edge, baseline and text of words on a page."""


def pdf(pages: Sequence[Sequence[Words]], *, title: str = "") -> bytes:
    """A PDF in Helvetica; the pages are 600 points wide and 800 high."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    for number, page in enumerate(pages):
        content = "\n".join(
            f"BT /F1 {size} Tf {left} {base} Td ({text}) Tj ET" for size, left, base, text in page
        ).encode("cp1252")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >>"
            f" /Contents {5 + 2 * number} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    objects.append(f"<< /Title ({title}) >>".encode())
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"<< /Size %d /Root 1 0 R /Info %d 0 R >>" % (len(objects) + 1, len(objects))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n%s\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        trailer,
        len(out),
    )


def lines(first: int, *texts: str, size: int = 10, left: int = 50) -> list[Words]:
    """Lines of one paragraph, 12 points apart, the first on the baseline `first`."""
    return [(size, left, first - 12 * number, text) for number, text in enumerate(texts)]
