"""The specification again, with the home in a bucket."""

from pathlib import Path

import pytest

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.homes import files_below
from rag_assets_tests.platform import Platform
from rag_assets_tests.reading.bucket import S3Server
from rag_assets_tests.test_folder_to_answer import (  # noqa: F401
    Town,
    test_a_bad_document_is_set_aside_in_a_batch_and_fails_alone_when_it_is_retried,
    test_a_folder_becomes_answers_and_stays_true_while_it_changes,
    test_a_tick_asks_for_a_bounded_number_of_documents,
    test_an_unpartitioned_check_lists_what_is_set_aside,
    test_scattered_changes_become_one_run,
    town,
)


@pytest.fixture
def platform(tmp_path: Path, fake: FakeOpenAI, bucket_home: str) -> Platform:
    """A platform whose tables are in a bucket of its own."""
    return Platform(tmp_path, fake, home_uri=bucket_home)


def test_the_tables_are_in_the_bucket(town: Town, bucket_home: str):  # noqa: F811
    town.platform.write("a.md", "The lighthouse keeper is Ada.")
    town.platform.ingest()
    tables = {path.split(".lance/")[0] for path in files_below(bucket_home) if ".lance/" in path}
    assert {"corpora/notes/documents", "corpora/notes/chunks", "corpora/notes/publications", "spend"} <= tables
    assert not town.platform.home.exists()


def test_documents_and_tables_may_both_lie_in_buckets(platform: Platform, bucket_home: str, s3_server: S3Server):
    bucket = s3_server.bucket(f"sources-of-{bucket_home.split('/')[2]}")
    platform.configure(source=f"s3://{bucket.name}/docs")
    bucket.put("docs/keeper.md", "The lighthouse keeper is Ada.")
    bucket.put("docs/boat.md", "The boat is blue.")
    report = platform.ingest()
    assert (report["added"], report["failed"]) == (2, [])
    answer = platform.ask("Who is the lighthouse keeper?")
    assert answer["citations"][0]["source_uri"] == f"s3://{bucket.name}/docs/keeper.md"
    bucket.put("docs/keeper.md", "The lighthouse keeper is Grace.")
    bucket.delete("docs/boat.md")
    report = platform.ingest()
    assert (report["changed"], report["removed"]) == (1, 1)
    assert [row["text"] for row in platform.rows()] == ["The lighthouse keeper is Grace."]
