"""Pages of the web, those that the settings list and those of a sitemap. Each page is a document, named by host and path.

How a page is fetched is `fetching.py`. Nothing is crawled: a page that is not listed is not read, whatever links to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from rag_assets.config import CorpusSettings, WebSettings
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.source import Entry, Listing, SourceFile
from rag_assets.reading.sources.addresses import canonical_url, document_of_url, host_of_url, path_of_url
from rag_assets.reading.sources.fetching import Fetcher, Page, PageError, PageGoneError, PageTooLargeError
from rag_assets.reading.sources.naming import too_large, wanted
from rag_assets.reading.sources.sitemap import MAX_BYTES, Sitemap, parse_sitemap

_MAX_SITEMAPS = 1_000
_UNTOUCHED = "Nothing that is indexed was touched"


class WebSource:
    """The pages of `settings`. Globs are compared with a page's path; without `include` every listed page belongs to the
    corpus, since few pages have an ending."""

    def __init__(self, corpus: CorpusSettings, settings: WebSettings) -> None:
        self._name = corpus.name
        self._settings = settings
        include = corpus.include if "include" in corpus.model_fields_set else ["**"]
        self._wanted = wanted(include, corpus.exclude)
        self._max_bytes = corpus.max_bytes
        self._fetcher = Fetcher(settings)
        self._pages: Mapping[str, str] | None = None
        self._refused: Sequence[tuple[str, str]] = ()

    def list(self) -> Listing:
        """See `Source.list`. Pages that cannot be had now are refused with a reason, and so are not taken for gone."""
        self._pages = None
        self._fetcher = Fetcher(self._settings)  # which has given up no host
        pages = self._listed()
        entries: dict[str, Entry] = {}
        refused: list[tuple[str, str]] = []
        with ThreadPoolExecutor(self._settings.concurrency) as pool:
            for name, seen in zip(pages, pool.map(self._look, pages.values()), strict=True):
                if isinstance(seen, Page):
                    entries[name] = Entry(name, None, _nanoseconds(seen.modified), seen.revision)
                elif seen is not None:
                    refused.append((name, seen))
        if pages and len(refused) == len(pages):
            raise SourceError(
                f"corpus {self._name}: none of the {len(pages):,} pages of corpora.{self._name}.source can be had:"
                f" {refused[0][0]}: {refused[0][1]}; see whether the server can be reached. {_UNTOUCHED}"
            )
        return Listing(entries=entries, refused=[*refused, *self._refused])

    def read(self, document: str) -> SourceFile:
        """See `Source.read`."""
        url = self._listed().get(document)
        if url is None:
            raise DocumentError("it is not among the pages of the source; the next scan removes it", retryable=True)
        read_at = datetime.now(UTC)
        try:
            page = self._fetcher.get(url, max_bytes=self._max_bytes)
        except PageGoneError as error:
            raise DocumentError(f"it is gone: {error}; the next scan removes it", retryable=True) from None
        except PageTooLargeError as error:
            raise too_large(error.size, self._max_bytes) from None
        except PageError as error:
            raise DocumentError(f"{url} cannot be had: {error}; it is tried again", retryable=True) from None
        data = page.data or b""
        return SourceFile(
            entry=Entry(document, len(data), _nanoseconds(page.modified), page.revision),
            data=data,
            uri=url,
            read_at=read_at,
            content_type=page.content_type,
        )

    def _look(self, url: str) -> Page | str | None:
        """What is told of a page now, the reason why nothing is, or None for a page that is gone."""
        try:
            return self._fetcher.look(url, max_bytes=self._max_bytes)
        except PageGoneError:
            return None
        except PageTooLargeError:  # the reader of documents sets it aside, with its size
            return Page(revision=None, modified=None)
        except PageError as error:
            return f"{error}; it is kept as it is, and looked at again by the next scan"

    def _listed(self) -> Mapping[str, str]:
        """Document → address of every page of the source, by name. `https` is taken where a page is listed twice."""
        if self._pages is None:
            urls = [*self._settings.urls, *self._in_sitemap()]
            urls = sorted((url for url in urls if path_of_url(url) in self._wanted), key=lambda url: url[:5] == "https")
            pages = {document_of_url(url): url for url in urls}
            self._pages = dict(sorted(pages.items()))
        return self._pages

    def _in_sitemap(self) -> Iterator[str]:
        """The pages of the sitemap and of those that it lists. Pages of another host are not the sitemap's to name."""
        if self._settings.sitemap is None:
            return
        host = host_of_url(self._settings.sitemap)
        refused: dict[str, str] = {}
        waiting, seen = [self._settings.sitemap], {self._settings.sitemap}
        while waiting:
            url = waiting.pop()
            sitemap = self._sitemap(url)
            for page in _canonical(sitemap.pages, refused):
                if host_of_url(page) == host:
                    yield page
                elif path_of_url(page) in self._wanted:
                    refused[document_of_url(page)] = f"it is not on {host} as its sitemap is; add it to source.urls"
            more = [other for other in _canonical(sitemap.sitemaps, refused) if other not in seen]
            seen.update(more)
            waiting += more
            if len(seen) > _MAX_SITEMAPS:
                raise self._problem(url, f"there are more than {_MAX_SITEMAPS:,} sitemaps below it")
        self._refused = sorted(refused.items())

    def _sitemap(self, url: str) -> Sitemap:
        try:
            return parse_sitemap(self._fetcher.get(url, max_bytes=MAX_BYTES).data or b"")
        except (PageError, ValueError) as error:
            raise self._problem(url, str(error)) from None

    def _problem(self, url: str, reason: str) -> SourceError:
        return SourceError(
            f"corpus {self._name}: the sitemap {url} cannot be read: {reason}; correct"
            f" corpora.{self._name}.source.sitemap, or list the pages under urls. {_UNTOUCHED}"
        )


def _canonical(addresses: Sequence[str], refused: dict[str, str]) -> Iterator[str]:
    """`addresses` as they are compared; what is none is noted in `refused`."""
    for address in addresses:
        try:
            yield canonical_url(address)
        except ValueError as error:
            refused[address] = f"the sitemap lists it, and {error}"


def _nanoseconds(moment: datetime | None) -> int | None:
    return int(moment.timestamp() * 1e9) if moment else None
