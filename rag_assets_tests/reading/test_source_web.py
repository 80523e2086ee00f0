"""Pages of the web, from a website on loopback."""

import gzip
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.documents import read_document
from rag_assets.reading.source import Source, open_source
from rag_assets_tests.reading.website import OLD, Answer, Website
from rag_assets_tests.workbench import Workbench, make_workbench

QUICK = {"timeout_seconds": 2, "max_retries": 1}


@pytest.fixture
def site() -> Iterator[Website]:
    with Website() as site:
        yield site


def opened(source: dict[str, Any], **keys: Any) -> Source:
    quick = {"first_wait_seconds": 0.01, **source}
    return open_source(CorpusSettings.model_validate({"name": "site", "source": quick, **keys}))


def pages(site: Website, *paths: str, **keys: Any) -> Source:
    """A source of the pages at `paths`."""
    return opened({"urls": [site.url + path for path in paths], **QUICK}, **keys)


def mapped(site: Website, **keys: Any) -> Source:
    """A source of the pages of the sitemap."""
    return opened({"sitemap": f"{site.url}/sitemap.xml", **QUICK}, **keys)


def sitemap(site: Website, *paths: str) -> bytes:
    places = "".join(f"<url><loc>\n {site.url}{path} </loc><priority>1</priority></url>" for path in paths)
    xml = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'
    return xml.encode()


def names(source: Source) -> list[str]:
    return list(source.list().entries)


# Which pages.


def test_pages_are_named_by_host_and_path_with_the_query(site: Website):
    for path in ("/b", "/a?x=1", "/a?x=2", "/a/"):
        site.put(path, path)
    source = pages(site, "/b", "/a?x=1", "/a?x=2", "/a/", "/b#part")
    assert names(source) == [f"{site.host}/a/", f"{site.host}/a?x=1", f"{site.host}/a?x=2", f"{site.host}/b"]
    file = source.read(f"{site.host}/a?x=2")
    assert (file.data, file.uri) == (b"/a?x=2", f"{site.url}/a?x=2")


def test_other_scripts_and_blanks_in_an_address_are_escaped(site: Website):
    site.put("/caf%C3%A9%20au%20lait", "x")
    assert names(pages(site, "/café au lait", "/caf%C3%A9 au lait")) == [f"{site.host}/caf%C3%A9%20au%20lait"]


def test_an_address_alone_is_one_page_and_one_that_ends_in_xml_a_sitemap(site: Website):
    site.put("/a", "A")
    site.put("/sitemap.xml", sitemap(site, "/a"))
    for source in (f"{site.url}/a", f"{site.url}/sitemap.xml"):
        assert names(open_source(CorpusSettings(name="site", source=source))) == [f"{site.host}/a"]


def test_a_sitemap_lists_the_pages_and_globs_choose_by_path(site: Website):
    paths = ("/", "/docs/a", "/docs/old/b", "/blog/c")
    site.put("/sitemap.xml", sitemap(site, *paths))
    for path in paths:
        site.put(path, path)
    assert len(names(mapped(site))) == 4
    assert names(mapped(site, include=["docs/**"], exclude=["**/old/**"])) == [f"{site.host}/docs/a"]


def test_an_index_of_sitemaps_is_followed_packed_or_not_and_in_a_circle(site: Website):
    index = "<sitemapindex>{}</sitemapindex>".format(
        "".join(
            f"<sitemap><loc>{site.url}{path}</loc></sitemap>" for path in ("/sitemap.xml", "/one.xml", "/two.xml.gz")
        )
    )
    site.put("/sitemap.xml", index)
    site.put("/one.xml", sitemap(site, "/a"))
    site.put("/two.xml.gz", gzip.compress(sitemap(site, "/b")))
    for path in ("/a", "/b"):
        site.put(path, path)
    assert names(mapped(site)) == [f"{site.host}/a", f"{site.host}/b"]


def test_a_sitemap_names_pages_of_its_own_host_only(site: Website):
    site.put("/a", "A")
    site.put(
        "/sitemap.xml",
        sitemap(site, "/a").replace(b"</urlset>", b"<url><loc>http://other.example/b</loc></url></urlset>"),
    )
    listing = mapped(site).list()
    assert list(listing.entries) == [f"{site.host}/a"]
    assert listing.refused == [("other.example/b", "it is not on 127.0.0.1 as its sitemap is; add it to source.urls")]


def test_what_is_no_address_in_a_sitemap_is_passed_over_with_a_reason(site: Website):
    site.put("/a", "A")
    site.put("/sitemap.xml", sitemap(site, "/a").replace(b"</urlset>", b"<url><loc>/b</loc></url></urlset>"))
    assert [name for name, _ in mapped(site).list().refused] == ["/b"]


BILLION_LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><urlset>&b;</urlset>'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<!DOCTYPE html><html><body>Not found", "it is an HTML page and not a sitemap"),
        (b"<html><body></body></html>", "its root is <html>"),
        (b"just text", "it is not XML (.*), and begins with 'just text'"),
        (b"", "it is not XML"),
        (b'{"urls": []}', "it is not XML"),
        (b"<urlset><url><loc>http://x/</loc></url>", "it is not XML"),
        (BILLION_LAUGHS, "it declares a document type"),
        (BILLION_LAUGHS.decode().encode("utf-16"), "it declares a document type"),
        (b"\x1f\x8bnonsense", "not the gzip file"),
        (gzip.compress(b"a" * 51_000_000), "more than 50,000,000 bytes unpacked"),
    ],
)
def test_what_is_no_sitemap_fails_the_listing(site: Website, body: bytes, said: str):
    site.put("/sitemap.xml", body)
    with pytest.raises(SourceError, match=rf"corpus site: the sitemap .*{said}.*corpora\.site\.source\.sitemap"):
        mapped(site).list()


@pytest.mark.parametrize(("status", "said"), [(404, "404 Not Found"), (500, "500 Internal Server Error"), (403, "403")])
def test_a_sitemap_that_cannot_be_had_fails_the_listing(site: Website, status: int, said: str):
    site.put("/sitemap.xml", status=status)
    with pytest.raises(SourceError, match=rf"the server answers {said}.*Nothing that is indexed was touched"):
        mapped(site).list()


def test_a_sitemap_below_an_index_that_cannot_be_had_fails_the_listing(site: Website):
    site.put("/sitemap.xml", f"<sitemapindex><sitemap><loc>{site.url}/gone.xml</loc></sitemap></sitemapindex>")
    with pytest.raises(SourceError, match=r"gone\.xml cannot be read: the server answers 404"):
        mapped(site).list()


def test_a_page_that_is_not_listed_is_not_read_whatever_the_partition_is_called(site: Website):
    site.put("/a", "A")
    site.put("/secret", "S")
    with pytest.raises(DocumentError, match="not among the pages of the source"):
        pages(site, "/a").read(f"{site.host}/secret")
    assert site.asked == []


# What changed.


def test_a_page_with_an_etag_is_not_fetched_again_until_it_changes(site: Website):
    site.put("/a", "A")
    source = pages(site, "/a")
    before = source.list().entries[f"{site.host}/a"]
    assert source.list().entries[f"{site.host}/a"] == before
    assert site.count("GET", "/a") == 0
    site.put("/a", "B")
    assert source.list().entries[f"{site.host}/a"].revision != before.revision
    assert source.read(f"{site.host}/a").entry.revision == source.list().entries[f"{site.host}/a"].revision


def test_last_modified_tells_a_change_and_when_it_was(site: Website):
    site.put("/a", "A", headers={"Last-Modified": OLD})
    entry = pages(site, "/a").list().entries[f"{site.host}/a"]
    assert entry.revision == "modified:2026-01-01T00:00:00+00:00"
    assert entry.modified_ns == int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e9)
    assert site.count("GET", "/a") == 0


@pytest.mark.parametrize(
    "told",
    [
        "Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Mon, 01 Jan 1601 00:00:00 GMT",
    ],
)
def test_a_last_modified_that_no_clock_can_have_shown_is_none(bench: Workbench, site: Website, told: str):
    """One such page failed the listing of all, or its scan: no table takes such a time."""
    site.put("/a", "text of a", headers={"Last-Modified": told})
    bench.update()
    assert bench.known[f"{site.host}/a"].modified_ns is None
    assert bench.scan().unchanged == 3


def test_a_fresh_last_modified_is_not_trusted_because_it_counts_seconds(site: Website):
    fresh = {"Last-Modified": format_datetime(datetime.now(UTC), usegmt=True)}
    site.put("/a", "A", headers=fresh)
    before = pages(site, "/a").list().entries[f"{site.host}/a"]
    site.put("/a", "B", headers=fresh)
    assert pages(site, "/a").list().entries[f"{site.host}/a"].revision != before.revision


def test_a_page_without_either_is_compared_by_its_content(site: Website):
    site.put("/a", "A", headers={})
    source = pages(site, "/a")
    before = source.list().entries[f"{site.host}/a"]
    assert source.list().entries[f"{site.host}/a"] == before
    assert source.read(f"{site.host}/a").entry.revision == before.revision
    site.put("/a", "B", headers={})
    assert source.list().entries[f"{site.host}/a"].revision != before.revision


@pytest.mark.parametrize("status", [400, 403, 404, 405, 410, 501])
def test_a_server_that_knows_no_head_is_asked_with_get(site: Website, status: int):
    site.put("/a", "A", head=status)
    assert names(pages(site, "/a")) == [f"{site.host}/a"]


# What goes wrong.


@pytest.mark.parametrize("status", [404, 410])
def test_a_page_that_is_gone_is_not_listed(site: Website, status: int):
    site.put("/a", "A")
    site.put("/b", status=status)
    source = pages(site, "/a", "/b")
    listing = source.list()
    assert (list(listing.entries), listing.refused) == ([f"{site.host}/a"], [])
    with pytest.raises(DocumentError, match=f"it is gone: the server answers {status}") as caught:
        source.read(f"{site.host}/b")
    assert caught.value.retryable is True


@pytest.mark.parametrize("status", [401, 403, 418, 429, 500, 502, 503])
def test_a_page_that_cannot_be_had_now_is_not_taken_for_gone(site: Website, status: int):
    site.put("/a", "A")
    site.put("/b", status=status)
    listing = pages(site, "/a", "/b").list()
    [(name, reason)] = listing.refused
    assert name == f"{site.host}/b"
    assert reason.startswith(f"the server answers {status}")
    assert "it is kept as it is" in reason


def test_a_failure_that_passes_is_not_told(site: Website):
    site.pages["/a"] = Answer(status=503, headers={"Retry-After": "0"}, times=1, after=Answer(b"A"))
    assert pages(site, "/a").list().refused == []


def test_a_server_that_asks_to_be_left_alone_for_long_is(site: Website):
    site.put("/a", "A")
    site.put("/b", status=429, headers={"Retry-After": "3600"})
    [(_, reason)] = pages(site, "/a", "/b").list().refused
    assert "429 Too Many Requests and asks to be left alone for 3600 s" in reason
    assert site.count("HEAD", "/b") == 1


def test_the_wait_that_a_server_asks_for_is_kept(site: Website):
    site.pages["/a"] = Answer(status=503, headers={"Retry-After": "1"}, times=1, after=Answer(b"A"))
    started = time.monotonic()
    assert names(pages(site, "/a")) == [f"{site.host}/a"]
    assert time.monotonic() - started >= 1


def test_a_redirect_is_followed_and_a_circle_is_told(site: Website):
    site.put("/a", status=301, headers={"Location": "/b"})
    site.put("/b", "B")
    site.put("/c", status=302, headers={"Location": "/d"})
    site.put("/d", status=302, headers={"Location": "/c"})
    source = pages(site, "/a", "/c")
    listing = source.list()
    assert list(listing.entries) == [f"{site.host}/a"]
    assert listing.refused[0][1].startswith("it redirects more than 10 times, perhaps in a circle")
    assert source.read(f"{site.host}/a").data == b"B"


def test_a_page_that_never_ends_is_given_up_after_the_timeout(site: Website):
    site.put("/a", "A")
    site.put("/slow", b"x", pieces=100, pause_seconds=0.1)
    source = opened({"urls": [f"{site.url}/slow", f"{site.url}/a"], "timeout_seconds": 0.5, "max_retries": 0})
    with pytest.raises(DocumentError, match=r"longer than timeout_seconds 0\.5; it is tried again") as caught:
        source.read(f"{site.host}/slow")
    assert caught.value.retryable is True


def test_a_server_that_does_not_answer_is_told(site: Website):
    site.put("/a", "A")
    site.put("/slow", b"x", headers={}, pause_seconds=1.5)
    source = opened({"urls": [f"{site.url}/slow", f"{site.url}/a"], "timeout_seconds": 0.5, "max_retries": 0})
    [(_, reason)] = source.list().refused
    assert reason.startswith("no answer within timeout_seconds 0.5")


@pytest.mark.parametrize("announced", [None, 5_000])
def test_a_huge_page_is_set_aside_without_being_read_to_its_end(site: Website, announced: int | None):
    headers = {} if announced else {"Content-Encoding": "gzip"}
    body = b"x" * 5_000 if announced else gzip.compress(b"x" * 5_000)
    site.put("/a", body, headers=headers)
    source = pages(site, "/a", max_bytes=1_000)
    assert names(source) == [f"{site.host}/a"]
    with pytest.raises(DocumentError, match=r"5,000 bytes, more than max_bytes 1,000 allows") as caught:
        source.read(f"{site.host}/a")
    assert caught.value.retryable is False


def test_half_a_page_is_no_page(site: Website):
    site.put("/a", "half", announced=8)
    site.pages["/a"].headers = {"ETag": '"1"', "Connection": "close"}
    with pytest.raises(DocumentError, match="the connection failed"):
        pages(site, "/a").read(f"{site.host}/a")


def test_a_server_that_is_down_fails_the_listing():
    with Website() as site:
        source = pages(site, "/a", "/b")
    with pytest.raises(SourceError, match=r"none of the 2 pages .* can be had: .*the connection failed"):
        source.list()


def test_a_host_that_only_fails_is_left_alone_and_its_pages_are_kept(site: Website):
    paths = [f"/{number}" for number in range(40)]
    for path in paths:
        site.put(path, status=500)
    with Website() as other:
        other.put("/a", "A")
        urls = [*(site.url.replace("127.0.0.1", "localhost") + path for path in paths), f"{other.url}/a"]
        source = opened({"urls": urls, "max_retries": 0, "concurrency": 2})
        listing = source.list()
    assert len(listing.entries) == 1
    assert len(listing.refused) == 40
    assert "failed 5 times in a row, and is left alone for now" in listing.refused[-1][1]
    assert len(site.asked) <= 6


def test_it_says_who_it_is_and_asks_for_a_few_pages_at_a_time(site: Website):
    paths = [f"/{number}" for number in range(12)]
    for path in paths:
        site.put(path, path, headers={}, pause_seconds=0.05)
    source = opened(
        {
            "urls": [site.url + path for path in paths],
            "concurrency": 3,
            "user_agent": "notes-bot (me@x.example)",
        }
    )
    assert len(names(source)) == 12
    assert site.agents == {"notes-bot (me@x.example)"}
    assert site.most_at_once <= 3


# Through scan, materialize and delete.


@pytest.fixture
def bench(site: Website, tmp_path: Path) -> Workbench:
    for path in ("/a", "/b", "/c"):
        site.put(path, f"text of {path[1:]}", headers={"ETag": f'"{path}"', "Last-Modified": OLD})
    bench = make_workbench(tmp_path)
    urls = [f"{site.url}/{name}" for name in "abc"]
    bench.corpus = CorpusSettings.model_validate(
        {
            **bench.corpus.model_dump(exclude={"source", "include"}),
            "source": {"urls": urls, "max_retries": 0, "timeout_seconds": 2},
        }
    )
    return bench


def test_an_unchanged_site_is_not_read_again(bench: Workbench, site: Website):
    assert len(bench.update(settle=timedelta(seconds=2)).added) == 3
    site.asked.clear()
    found = bench.scan()
    assert (found.unchanged, found.pending) == (3, [])
    assert {method for method, _ in site.asked} == {"HEAD"}


def test_a_new_etag_over_the_same_bytes_makes_nothing_again_and_is_noted(bench: Workbench, site: Website):
    bench.update()
    site.put("/a", "text of a", headers={"ETag": '"new"'})
    found = bench.scan()
    assert (found.pending, list(found.touched)) == ([], [f"{site.host}/a"])
    assert bench.known[f"{site.host}/a"].revision == 'etag:"new"'
    assert bench.scan().touched == {}


def test_a_page_of_the_same_size_with_other_bytes_is_changed(bench: Workbench, site: Website):
    bench.ingest()
    site.put("/a", "TEXT of a", headers={"ETag": '"new"', "Last-Modified": OLD})
    assert bench.update().changed == [f"{site.host}/a"]


def test_a_page_that_fails_keeps_its_rows_and_one_that_is_gone_loses_them(bench: Workbench, site: Website):
    bench.ingest()
    site.put("/a", status=500)
    site.put("/b", status=410)
    found = bench.update()
    assert (found.removed, found.withheld) == ([f"{site.host}/b"], None)
    assert [name for name, _ in found.refused] == [f"{site.host}/a"]
    assert sorted(bench.known) == [f"{site.host}/a", f"{site.host}/c"]
    site.put("/a", "text of a", headers={"ETag": '"/a"'})
    assert bench.update().pending == []


def test_a_site_that_is_down_or_lost_all_pages_loses_no_row(bench: Workbench, site: Website):
    bench.ingest()
    for path in ("/a", "/b", "/c"):
        site.put(path, status=503)
    with pytest.raises(SourceError, match="none of the 3 pages"):
        bench.update(confirm_deletions=True)
    for path in ("/a", "/b", "/c"):
        site.put(path, status=404)
    found = bench.update()
    assert (found.removed, found.withheld) == ([], "the source lists no document, and 3 are known")
    assert len(bench.known) == 3


def test_a_page_that_fails_between_listing_and_reading_is_set_aside_and_tried_again(bench: Workbench, site: Website):
    bench.ingest()
    site.put("/a", "other", headers={"ETag": '"new"'})
    found = bench.scan()
    site.put("/a", status=500)
    bench.materialize(*found.pending)
    assert bench.known[f"{site.host}/a"].status == "failed"
    assert "500 Internal Server Error" in (bench.known[f"{site.host}/a"].reason or "")
    site.put("/a", "other", headers={"ETag": '"new"'})
    bench.ingest()
    assert bench.known[f"{site.host}/a"].status == "indexed"


def test_a_huge_page_is_set_aside_once_and_then_waits(bench: Workbench, site: Website):
    bench.configure(max_bytes=1_000)
    site.put("/a", b"x" * 2_000)
    bench.update()
    assert "more than max_bytes 1,000" in (bench.known[f"{site.host}/a"].reason or "")
    assert bench.scan().pending == []
    bench.configure(max_bytes=3_000)
    assert bench.scan().pending == [f"{site.host}/a"]


# What the server says of a page.


@pytest.mark.parametrize(
    ("path", "content_type", "body", "mime", "text"),
    [
        ("/terms", "text/markdown; charset=utf-8", b"# Terms", "text/markdown", "# Terms"),
        ("/terms", "text/html", b"<h1>Terms</h1><p>Pay.", "text/html", "# Terms\n\nPay.\n"),
        ("/index.php", "text/html", b"<!doctype html><h1>Terms</h1>", "text/html", "# Terms\n"),
        ("/blob/a.md", "text/html", b"<!doctype html><h1>Terms</h1>", "text/html", "# Terms\n"),
        ("/raw/a.md", "text/plain", b"# Terms", "text/markdown", "# Terms"),
        ("/raw/a.md", "application/octet-stream", b"# Terms", "text/markdown", "# Terms"),
        ("/a", "TEXT/HTML; Charset=ISO-8859-2", b"<p>\xa3\xf3d\xbc", "text/html", "Łódź\n"),
        ("/a", "text/html; charset=iso-8859-1", "<p>Łódź".encode(), "text/html", "Łódź\n"),
        ("/a", "text/plain; charset=nonsense", b"Terms", "text/plain", "Terms"),
        ("/a", "application/x-yaml", b"a: 1", "application/yaml", "a: 1"),
        ("/a", "; ;=", b"Terms", "text/plain", "Terms"),
    ],
)
def test_what_a_server_says_of_a_page_decides_where_its_bytes_do_not(
    site: Website, path: str, content_type: str, body: bytes, mime: str, text: str
):
    """A page at /index.php was read as a program, and one without an ending as plain text."""
    site.put(path, body, headers={"ETag": '"1"', "Content-Type": content_type})
    (name,) = names(source := pages(site, path))
    file = source.read(name)
    document = read_document(name, file.data, file.content_type)
    assert (document.mime, document.text) == (mime, text)


def test_a_host_is_no_ending():
    """The first page of docs.rs was read as a program in Rust."""
    assert read_document("docs.rs/", b"Words of a page.").mime == "text/plain"
    assert read_document("docs.rs/", b"<!doctype html><p>Words").mime == "text/html"
