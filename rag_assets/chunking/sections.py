"""The sections of a document: a heading, what stands under it, and the headings above."""

from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.reading.blocks import Block


@dataclass(frozen=True)
class Section:
    """`blocks` from one heading to the next. `path` is the titles of the headings above, and its own, outermost first.

    What stands before the first heading is a section of level 0 with an empty path.
    """

    path: tuple[str, ...]
    level: int
    blocks: tuple[Block, ...]
    start: int
    end: int

    @property
    def has_body(self) -> bool:
        """Whether anything but headings and rules is in it."""
        return any(block.kind not in ("heading", "rule") for block in self.blocks)


def to_sections(blocks: Sequence[Block], end: int) -> Sequence[Section]:
    """`blocks` as sections, in order. Together they cover the text from 0 to `end`."""
    groups: list[list[Block]] = [[]]
    for block in blocks:
        if block.kind == "heading":
            groups.append([])
        groups[-1].append(block)
    groups = [group for group in groups if group] or [[]]
    starts = [0, *(group[0].start for group in groups[1:]), end]
    sections = []
    above: list[tuple[int, str]] = []
    for index, group in enumerate(groups):
        level = group[0].level if group else 0
        if level:
            above = [*((depth, title) for depth, title in above if depth < level), (level, group[0].title)]
        path = tuple(title for _, title in above if title)
        sections.append(Section(path, level, tuple(group), starts[index], starts[index + 1]))
    return sections
