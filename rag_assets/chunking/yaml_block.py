"""Whole keys and list items: for YAML and JSON, such as configuration, manifests and records.

What fits is a chunk as it is. What does not is opened, and its keys are blocks in turn; the keys above are the heading
path. Comments go with what stands below them.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.members import Member, members_of
from rag_assets.chunking.units import Unit, pack_units
from rag_assets.records import Document, Span

VERSION = 1


def split_yaml_blocks(document: Document, limits: Limits) -> Iterator[Span]:
    """Keys and items, packed as `units` says. A long scalar is cut at lines, then sentences, then words."""
    end = len(document.text)
    members = [] if limits.fits(0, end) else members_of(document.text)
    units = [Unit(0, named=False), *_units(limits, members, end, path=(), level=0)]
    return pack_units(limits, units, end)


def _units(limits: Limits, members: Sequence[Member], end: int, *, path: tuple[str, ...], level: int) -> Iterator[Unit]:
    for member, following in pairwise([*members, Member(end)]):
        own = (*path, member.name) if member.name else path
        if limits.fits(member.start, following.start) or not member.members:
            if limits.breaks(member.start):
                yield Unit(member.start, own, level, named=bool(member.name))
            continue
        if member.members[0].start > member.start and limits.breaks(member.start):
            yield Unit(member.start, own, level + 1, named=False)
        yield from _units(limits, member.members, following.start, path=own, level=level + 1)
