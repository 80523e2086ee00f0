"""reStructuredText: docutils makes HTML of it, and that becomes Markdown.

Nothing is included from other files and no raw HTML passes. Directives and roles that only Sphinx knows keep their
content instead of being reported as errors. A paragraph of monstrous length leaves the file plain text.
"""

import re
from collections import defaultdict
from typing import Any, ClassVar

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en

from rag_assets.reading.content import Content, clean, names, one_line
from rag_assets.reading.decoding import decode
from rag_assets.reading.html_markdown import fragment_blocks
from rag_assets.reading.markdown_writing import join_blocks

_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5,
    "halt_level": 5,
    "syntax_highlight": "none",
    "math_output": "LaTeX",
    "toc_backlinks": False,
    "smart_quotes": False,
    "line_length_limit": 10_000_000,
    "embed_stylesheet": False,
    "stylesheet_path": None,
    "initial_header_level": 2,
}
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_MAX_PARAGRAPH = 20_000
_MAX_MARKS = 1_000
_DIRECTIVE = re.compile(r"^\s*\.\. (?:\|[^|\n]+\| )?([A-Za-z][\w:.+-]*)::", re.MULTILINE)
_ROLE = re.compile(r"(?<![\w`]):([A-Za-z][\w:.+-]*):`|`:([A-Za-z][\w:.+-]*):")
# How the writer marks inline code, and in it what must not be broken.
_UNBROKEN = re.compile(r'<span class="pre">([^<]*)</span>')
_LITERAL_SPAN = re.compile(r'<span class="docutils literal">([^<]*)</span>')
_TARGET = re.compile(r"^(.*?)\s*<[^<>]*>$", re.DOTALL)
# They stand for what is made elsewhere: lists of pages, the documentation in code, other files.
_EMPTY = names(
    """
    toctree automodule autoclass autofunction automethod autodata autoattribute autosummary literalinclude index
    highlight currentmodule module py:module py:currentmodule tabularcolumns sectionauthor codeauthor
    """
)
_LITERAL = names("sourcecode code-block ipython prompt productionlist doctest testcode")
_VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_PROSE_ROLES = names("ref doc term any guilabel menuselection abbr numref dfn")


class _Unknown(Directive):
    """A directive of somebody else's: its argument is a paragraph, its content is what it says."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[Any] = defaultdict(lambda: directives.unchanged)

    def run(self) -> list[nodes.Node]:
        """The nodes that stand in its place."""
        if self.name in _EMPTY:
            return []
        if self.name in _LITERAL:
            block = nodes.literal_block("", "\n".join(self.content), classes=["code", *self.arguments[:1]])
            return [block]
        around = nodes.container()
        if self.arguments:
            words, _ = self.state.inline_text(" ".join(self.arguments[0].split()), self.lineno)
            before = [nodes.Text(f"{_VERSIONS[self.name]} ")] if self.name in _VERSIONS else []
            around += nodes.paragraph("", "", *before, *words)
        self.state.nested_parse(self.content, self.content_offset, around)
        return [around]


def read(data: bytes) -> Content:
    """`data` as Markdown, titled by its first heading."""
    decoded = decode(data)
    if any(map(_is_monstrous, _PARAGRAPHS.split(decoded.text))):
        return Content(decoded.text, lossy=decoded.lossy)
    _learn(decoded.text)
    parts = publish_parts(decoded.text, writer="html5", settings_overrides=_SETTINGS)
    html = _LITERAL_SPAN.sub(r"<code>\1</code>", _UNBROKEN.sub(r"\1", parts["html_body"]))
    return Content(
        clean(join_blocks(fragment_blocks(html))),
        title=one_line(_plain(parts["title"])),
        lossy=decoded.lossy,
    )


def _is_monstrous(paragraph: str) -> bool:
    """Whether a paragraph (tables apart) is so long that docutils would look for the ends of its markup for minutes."""
    if len(paragraph) < _MAX_MARKS:
        return False
    prose = "\n".join(line for line in paragraph.split("\n") if not line.lstrip().startswith(("|", "+", "=")))
    return len(prose) > _MAX_PARAGRAPH or sum(map(prose.count, "*`_|")) > _MAX_MARKS


def _plain(html: str) -> str:
    return " ".join(fragment_blocks(html))


def _learn(text: str) -> None:
    """Make docutils accept the directives and roles in `text` that it does not know."""
    for name in _LITERAL:
        directives.register_directive(name, _Unknown)
    known = set(en.directives)
    for name in set(_DIRECTIVE.findall(text)):
        if name.lower() not in known:
            directives.register_directive(name.lower(), _Unknown)
    for name in {first or second for first, second in _ROLE.findall(text)}:
        if name.lower() not in en.roles:
            roles.register_local_role(name.lower(), _role)  # type: ignore[arg-type]  # the stubs ask for references


def _role(name: str, rawtext: str, text: str, *_: object) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """The words of a role: of `title <target>` the title; prose for references, code for everything else."""
    words = nodes.unescape(text)
    titled = _TARGET.match(words)
    shown = (titled[1] if titled else words).removeprefix("~").removeprefix("!")
    kind = nodes.inline if name.rpartition(":")[2] in _PROSE_ROLES else nodes.literal
    return [kind(rawtext, shown)], []
