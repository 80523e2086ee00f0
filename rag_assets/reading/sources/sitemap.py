"""Sitemaps as sitemaps.org describes them: which pages or further sitemaps the bytes of one list."""

import xml.etree.ElementTree as ET
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BYTES = 50_000_000  # the limit of the protocol, unpacked


@dataclass(frozen=True)
class Sitemap:
    """The addresses in a sitemap: of `pages`, or of `sitemaps` where it is an index of others."""

    pages: Sequence[str] = ()
    sitemaps: Sequence[str] = ()


def parse_sitemap(data: bytes) -> Sitemap:
    """What the sitemap `data`, packed with gzip or not, lists. Raises `ValueError` that says what it is instead."""
    try:
        root = ET.fromstring(_unpacked(data), ET.XMLParser(target=_NoDoctype()))  # noqa: S314  # see _NoDoctype
    except ET.ParseError as error:
        shown = data.lstrip()[:40].decode("utf-8", "replace")
        raise ValueError(f"it is not XML ({error}), and begins with {shown!r}") from None
    kind = _local(root.tag)
    if kind not in ("urlset", "sitemapindex"):
        raise ValueError(f"it is XML, but its root is <{kind}>, and not <urlset> or <sitemapindex>")
    wanted = "url" if kind == "urlset" else "sitemap"
    found = [
        (place.text or "").strip()
        for entry in root
        if _local(entry.tag) == wanted
        for place in entry
        if _local(place.tag) == "loc"
    ]
    addresses = [address for address in found if address]
    return Sitemap(pages=addresses) if kind == "urlset" else Sitemap(sitemaps=addresses)


class _NoDoctype(ET.TreeBuilder):
    """Refuses documents that declare a type, before any entity is declared: they can blow up, and no sitemap needs one."""

    def doctype(self, name: str, *_: str | None) -> None:
        """Called by the parser where a type is declared."""
        if name.lower() == "html":
            raise ValueError("it is an HTML page and not a sitemap")
        raise ValueError("it declares a document type, which no sitemap does")


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacking.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it is not the gzip file that it begins as: {error}") from None
    if len(unpacked) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes unpacked")
    return unpacked


def _local(tag: object) -> str:
    """A tag without its namespace. Comments and instructions have none."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
