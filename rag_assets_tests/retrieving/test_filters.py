"""What people write after `--filter`, and which passages it leaves."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.config import ChunkingSettings, RetrievalSettings
from rag_assets.errors import QuestionError
from rag_assets.globs import matcher
from rag_assets.retrieving.conditions import UnknownFieldError, condition_of
from rag_assets.retrieving.filters import parse_filters
from rag_assets.retrieving.search import Mode
from rag_assets_tests.workbench import Workbench, make_workbench

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")

GUIDE = """---
author: Ann
tags: [Python, api]
version: 3
date: 2024-05-01
---
# Installation

install apples

# Use

use apples
"""
API = """---
author: [Bob, Ann]
tags: python
version: "10"
date: 2023-11-30
draft: true
author_note: it's "quoted"
modified: 1999-01-01
---
# Über uns

apples over http
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """Two documents with front matter, three without, and 120 that are better answers to everything."""
    bench = make_workbench(tmp_path_factory.mktemp("library"))
    dates = {"guide/start.md": (2024, 12, 31), "api/http.md": (2025, 1, 1), "it's.txt": (2025, 2, 1)}
    bench.write("guide/start.md", GUIDE)
    bench.write("api/http.md", API)
    bench.write("it's.txt", "apples in plain text")
    bench.write("guide/deep/Ärger [1].md", "apples far down")
    for number in range(120):
        bench.write(f"trees/{number:03}.md", "apples apples")
    for name, date in dates.items():
        moment = datetime(*date, 12, tzinfo=UTC).timestamp()
        os.utime(bench.folder / name, (moment, moment))
    bench.ingest()
    return bench


NAMES = {"start": "guide/start.md", "http": "api/http.md", "its": "it's.txt", "deep": "guide/deep/Ärger [1].md"}


def found(library: Workbench, *filters: str, mode: Mode = "hybrid") -> set[str]:
    """Short names of the documents that are left, of those that are no trees."""
    short = {document: name for name, document in NAMES.items()}
    passages = library.search("apples", mode=mode, top_k=1_000, filters=filters)
    return {short.get(one.document, "trees") for one in passages} - {"trees"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        # Where a document is, and what it is.
        (["document=api/http.md"], "http"),
        (["document=API/HTTP.md"], ""),
        (["document!=api/http.md", "path!=trees/**"], "start its deep"),
        (["path=guide/**"], "start deep"),
        (["path=guide/"], "start deep"),
        (["path=GUIDE/*"], "start"),
        (["path=**/*.md", "path!=trees/*"], "start http deep"),
        (["path=**/Ärger*"], "deep"),
        (["path=it's.txt"], "its"),
        (["mime=text/plain"], "its"),
        (["mime=TEXT/*", "mime!=text/markdown"], "its"),
        (["title=INSTALLATION"], "start"),
        (["heading=use"], "start"),
        (["heading=ÜBER UNS"], "http"),
        (["heading=Über"], ""),
        # Front matter.
        (["author=Ann"], "start http"),
        (["author=ann", "author=bob"], "http"),
        (["Author=BOB"], "http"),
        (["author!=Bob", "path!=trees/**"], "start its deep"),
        (["tags=python"], "start http"),
        (["tag=api"], "start"),
        (["tag!=api", "version>0"], "http"),
        (["version=3"], "start"),
        (["version=3.0"], "start"),
        (["version>3"], "http"),
        (["version>=3"], "start http"),
        (["version<10"], "start"),
        (["version!=3", "tags=python"], "http"),
        (["date>=2024-01-01"], "start"),
        (["date>=2024"], "start"),
        (["date<2024"], "http"),
        (["date=2024-05"], "start"),
        (["date<=2024-05-01"], "start http"),
        (["date>2024-05"], ""),
        (["draft=true"], "http"),
        (["draft!=true", "tags=python"], "start"),
        (["author>b"], "http"),
        (['author_note=it\'s "quoted"'], "http"),
        (["author='Ann'"], "start http"),
        (['author = "bob"'], "http"),
        # When the file was written.
        (["modified>=2025-01-01"], "http its deep"),
        (["modified>2025-01-01"], "its deep"),
        (["modified<2025"], "start"),
        (["modified<=2024-12-31"], "start"),
        (["modified=2025-01"], "http"),
        (["modified=2025-01-01T12:00:00Z"], "http"),
        (["modified=2025-01-01 14:00:00+02:00"], "http"),
        (["modified<2025-01-01T12:00:00"], "start"),
        (["modified!=2025-01-01", "modified<2026", "path!=trees/**"], "start its"),
        (["metadata.modified=1999-01-01"], "http"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_filter_leaves_the_documents_that_meet_it(library: Workbench, filters: list[str], expected: str):
    assert found(library, *filters) == set(expected.split())


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_holds_before_anything_is_ranked(library: Workbench, mode: Mode):
    """The hundred best for this question are trees: a filter behind the ranking finds nothing."""
    best = library.search("apples apples", mode=mode, top_k=100)
    assert {one.document.split("/")[0] for one in best} == {"trees"}
    assert found(library, "tag=api", mode=mode) == {"start"}
    assert found(library, "path=it's.txt", "mime=text/plain", mode=mode) == {"its"}


def test_a_heading_is_that_of_the_passage_and_not_of_its_document(library: Workbench):
    texts = [one.text for one in library.search("apples", filters=["heading=Use"])]
    assert texts
    assert all("install" not in text for text in texts)


@pytest.mark.parametrize(
    "heading", ["# Use it (*now*)", "### USE it  (*now*) ##", "Use it (*now*)\n====", "Use it (*now*)\n---"]
)
def test_a_heading_that_stands_in_a_chunk_counts_as_one_above_it(bench: Workbench, heading: str):
    """Short sections share a chunk, below the headings that they have in common: `heading=Use` found nothing there."""
    bench.configure(chunking=ChunkingSettings(strategy="markdown"))
    bench.write("a.md", f"# Installation\n\nUse apples.\n\n{heading}\n\nNot to use it.\n")
    bench.write("b.md", "Use it (*now*)\n\n#Use it (*now*)\n\n# Use it\n")
    bench.ingest()
    assert {title for one in bench.search("apples") for title in one.heading_path} <= {"Installation"}
    for value in ("Use it (*now*)", "Installation"):
        assert {one.document for one in bench.search("apples", filters=[f"heading={value}"])} == {"a.md"}
    assert {one.document for one in bench.search("apples", filters=["heading!=use it (*now*)"])} == {"b.md"}


def test_a_condition_and_filters_all_hold(library: Workbench):
    def documents(where: str) -> set[str]:
        return {one.document for one in library.search("apples", where=where, filters=["author=Ann"])}

    assert documents("document LIKE 'api/%'") == {"api/http.md"}
    assert documents("document LIKE 'api/%' OR true") == {"api/http.md", "guide/start.md"}
    with pytest.raises(QuestionError, match="the condition 'colour = 1' cannot be applied"):
        documents("colour = 1")


@pytest.mark.parametrize("value", ["') OR true --", "' OR '1'='1", "\\", "it''s", "%", "]", "x\n", "\x00;", "a\x1fb"])
@pytest.mark.parametrize("field", ["document", "path", "mime", "title", "heading", "author", "author!"])
def test_no_value_is_sql(library: Workbench, field: str, value: str):
    left = found(library, f"{field}={value}")
    assert left == (set(NAMES) if field == "author!" else set())


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    glob=st.lists(
        st.one_of(
            st.sampled_from(
                ["*", "?", "**/", "/", "[a-z]", "[!a]", "[+-9]", "[", "]", "guide", "deep", "Ä", ".md", "[1]"]
            ),
            st.characters(exclude_categories=["Cs", "Cc"]),
        ),
        min_size=1,
        max_size=6,
    ).map("".join)
)
def test_a_path_is_matched_as_include_matches_it(library: Workbench, glob: str):
    """Lance has regular expressions of another dialect."""
    try:
        wanted = parse_filters([f'path="{glob}"'])[0].value
    except QuestionError:
        return
    pattern = matcher([f"{wanted}**" if wanted.endswith("/") else wanted])
    assert found(library, f'path="{glob}"') == {name for name, document in NAMES.items() if pattern.match(document)}


# What cannot be.


@pytest.mark.parametrize(
    "text", ["", "author", "=Ann", "author=", "author= ", "author ~ Ann", "author=>Ann", "version=<3", "a<>b"]
)
def test_a_filter_that_cannot_be_read_is_told_with_examples(text: str):
    with pytest.raises(QuestionError) as caught:
        parse_filters(["path=guide/**", text])
    assert str(caught.value) == (
        f"the filter {text!r} cannot be read; it is a field, one of = != >= <= > <, and a value, such as:"
        " path=guide/** or author=Ann or date>=2024-01-01"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("path>guide", "path has no order; compare it with = or !="),
        ("heading<=Use", "heading has no order"),
        ("path=guide/**.md", "'guide/**.md' is no glob; ** stands alone between slashes"),
        ("modified>=yesterday", "'yesterday' is no date; write it such as: modified>=2025-01-31"),
        ("modified=2025-13", "'2025-13' is no date"),
        ("modified=9999", "'9999' is no date"),
    ],
)
def test_a_filter_that_means_nothing_is_told(text: str, told: str):
    with pytest.raises(QuestionError, match=re.escape(told)):
        parse_filters([text])


@pytest.mark.parametrize("text", ["autor=Ann", "autor!=Ann", "AUTOR>a", "metadata.autor=Ann"])
def test_a_field_that_no_document_has_is_told_with_those_that_are(library: Workbench, text: str):
    with pytest.raises(UnknownFieldError) as caught:
        library.search("apples", filters=[text])
    assert str(caught.value) == (
        f"the filter {text!r} cannot be applied: no document of corpus notes has the field 'autor'; did you mean"
        " 'author'? Front matter has: author, author_note, date, draft, modified, tags, version; every document has:"
        " document, path, mime, title, heading, modified"
    )


def test_a_corpus_without_front_matter_says_so(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    with pytest.raises(UnknownFieldError, match="front matter has: no field; every document has: document, path"):
        bench.search("apples", filters=["colour=red"])


def test_a_filter_that_nothing_meets_finds_nothing(library: Workbench):
    for mode in MODES:
        assert library.search("apples", mode=mode, filters=["author=Zoe"]) == []


# The filters of a corpus.


def test_filters_of_the_corpus_hold_unless_the_question_has_one_on_the_field(library: Workbench):
    before = library.corpus
    try:
        library.configure(retrieval=RetrievalSettings(filters=["draft!=true", "path!=trees/**"]))
        assert found(library) == {"start", "its", "deep"}
        assert found(library, "author=ann") == {"start"}
        assert found(library, "draft=true") == {"http"}
        library.configure(retrieval=RetrievalSettings(filters=["secret!=true"]))
        assert len(found(library)) == 4, "what excludes nothing needs no field"
        library.configure(retrieval=RetrievalSettings(filters=["secret=false"]))
        with pytest.raises(UnknownFieldError, match="secret=false"):
            found(library)
    finally:
        library.corpus = before


# How it comes into the index.


def test_another_front_matter_reaches_the_index_without_an_embedding(bench: Workbench):
    bench.write("a.md", "---\nauthor: Ann\n---\napples")
    bench.ingest()
    bench.write("a.md", "---\nauthor: Bob\n---\napples")
    bench.ingest()
    assert bench.known["a.md"].texts_embedded == 0
    assert [one.document for one in bench.search("apples", filters=["author=bob"])] == ["a.md"]
    assert bench.search("apples", filters=["author!=bob"]) == []


def test_front_matter_of_rows_that_came_later_counts_as_well(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    bench.write("b.md", "---\nauthor: Ann\n---\napples")
    bench.ingest()
    assert [one.document for one in bench.search("apples", filters=["author=Ann"])] == ["b.md"]
    assert [one.document for one in bench.search("apples", filters=["author!=Ann"])] == ["a.md"]


@pytest.mark.parametrize(("column", "text"), [("metadata", "author=Ann"), ("modified", "modified>2020")])
def test_an_index_of_an_earlier_version_says_what_to_do(tmp_path: Path, column: str, text: str):
    dataset = lance.write_dataset(pa.table({"document": ["a.md"], "ordinal": [0]}), tmp_path / "old.lance")
    with pytest.raises(QuestionError, match=f"has no {column}; run: rag-assets ingest notes"):
        condition_of(dataset, "notes", where=None, filters=parse_filters([text]), defaults=())
