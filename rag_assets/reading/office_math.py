"""Equations of Word documents as a line of text: `(a+b)/2`, `x^2`, `∑_i=1^n`. Mammoth leaves them out.

The notation is Office Math (OMML, ECMA-376 part 1, chapter 22.1).
"""

from xml.etree.ElementTree import Element, SubElement, tostring

from rag_assets.reading.archives import parse_part

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MATH = (f"{_M}oMath", f"{_M}oMathPara")


def with_math_as_text(document_xml: bytes) -> bytes:
    """The main part of a Word document in which equations are runs of text."""
    root = parse_part(document_xml, "word/document.xml")
    for parent in list(root.iter()):
        for position, child in enumerate(parent):
            if child.tag in _MATH:
                parent[position] = _run(_linear(child), child.tail)
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _run(text: str, tail: str | None) -> Element:
    run = Element(f"{_W}r")
    run.tail = tail
    SubElement(run, f"{_W}t").text = text
    return run


def _linear(element: Element) -> str:
    match str(element.tag).removeprefix(_M):
        case "t":
            return (element.text or "").replace("\u2061", "")  # invisible: "function application"
        case "f":
            return f"{_grouped(element, 'num')}/{_grouped(element, 'den')}"
        case "sSup":
            return f"{_part(element, 'e')}^{_grouped(element, 'sup')}"
        case "sSub":
            return f"{_part(element, 'e')}_{_grouped(element, 'sub')}"
        case "sSubSup":
            return f"{_part(element, 'e')}_{_grouped(element, 'sub')}^{_grouped(element, 'sup')}"
        case "rad":
            return f"{_part(element, 'deg')}√{_grouped(element, 'e')}"
        case "nary":
            limits = "".join(
                f"{mark}{_grouped(element, name)}"
                for mark, name in (("_", "sub"), ("^", "sup"))
                if _part(element, name)
            )
            return f"{_property(element, 'naryPr', 'chr', '∫')}{limits} {_part(element, 'e')}"
        case "d":
            inner = ", ".join(_linear(part) for part in element.findall(f"{_M}e"))
            return f"{_property(element, 'dPr', 'begChr', '(')}{inner}{_property(element, 'dPr', 'endChr', ')')}"
        case "func":
            return f"{_part(element, 'fName')} {_part(element, 'e')}"
        case "mr":
            return ", ".join(_linear(part) for part in element.findall(f"{_M}e")) + "; "
    return "".join(map(_linear, element))


def _part(element: Element, name: str) -> str:
    found = element.find(f"{_M}{name}")
    return "" if found is None else _linear(found).strip()


def _grouped(element: Element, name: str) -> str:
    text = _part(element, name)
    return text if len(text) < 2 or text.isalnum() else f"({text})"


def _property(element: Element, group: str, name: str, otherwise: str) -> str:
    found = element.find(f"{_M}{group}/{_M}{name}")
    return otherwise if found is None else found.get(f"{_M}val", otherwise)
