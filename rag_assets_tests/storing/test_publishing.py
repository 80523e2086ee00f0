import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.config import HashingEmbedding, LocalEmbedding, OpenAIEmbedding, RetentionSettings
from rag_assets.errors import StoreError
from rag_assets.generations import generation_of
from rag_assets.materializing.index import remove_documents
from rag_assets.records import DOCUMENTS, PUBLICATIONS
from rag_assets.storing import publishing
from rag_assets.storing.ledger import change
from rag_assets.storing.publishing import (
    Publication,
    embedding_for,
    latest_publication,
    publication_is_due,
    publications,
    publish,
    rollback,
)
from rag_assets.storing.retention import hold, tagged_publications
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table
from rag_assets_tests.workbench import CORPUS, Workbench

OTHER_MODEL = HashingEmbedding(provider="hashing", dimensions=32)


def index_of(bench: Workbench) -> Table:
    return bench.store.index(CORPUS, generation_of(bench.corpus).id, dimensions=1)


def due(bench: Workbench, *, beside_pending: bool = False) -> bool:
    return publication_is_due(bench.store, bench.corpus, beside_pending=beside_pending)


def test_nothing_is_published_before_there_is_a_document(bench: Workbench):
    assert latest_publication(bench.store, CORPUS) is None
    assert due(bench) is False


def test_what_was_indexed_is_seen_once_it_is_published_and_not_before(bench: Workbench):
    bench.write("a.md", "red apples")
    bench.ingest()
    bench.write("a.md", "green apples")
    bench.update()
    assert bench.texts("apples") == ["red apples"]
    bench.publish()
    assert bench.texts("apples") == ["green apples"]


def test_a_publication_says_what_it_holds(bench: Workbench):
    bench.write("a.md", "one\n\ntwo")
    bench.write("b.md", "three")
    bench.write("empty.md", " \n")
    report = bench.ingest()
    assert report.moved is True
    published = bench.published
    assert report.published == published
    assert (published.version, published.documents, published.chunks, published.run_id) == (1, 2, 3, "run")
    assert published.embedding == HashingEmbedding(provider="hashing", dimensions=64)
    assert published.generation == generation_of(bench.corpus).id


def test_publishing_again_without_a_change_moves_nothing(bench: Workbench):
    bench.write("a.md", "apples")
    first = bench.ingest()
    again = bench.publish()
    assert again.moved is False
    assert again.published == first.published
    assert bench.store.publications(CORPUS).read().num_rows == 1


def test_a_corpus_without_any_text_can_be_published_and_searched(bench: Workbench):
    bench.write("a.md", "")
    report = bench.ingest()
    assert report.published is not None
    assert (report.published.table_version, report.published.documents, report.published.chunks) == (0, 0, 0)
    assert bench.search("anything") == []
    assert due(bench) is False


def test_a_text_that_went_before_it_was_published_leaves_an_index_that_can_be_searched(bench: Workbench):
    bench.write("a.md", "apples")
    bench.update()
    bench.write("a.md", "")
    assert bench.ingest().moved is True
    for mode in ("hybrid", "vector", "text"):
        assert bench.search("apples", mode=mode) == []


# Verification.


def test_missing_rows_are_refused_by_name_and_readers_keep_what_they_have(bench: Workbench):
    bench.write("a.md", "one\n\ntwo")
    bench.write("b.md", "three")
    bench.ingest()
    index = index_of(bench)
    index.replace(["a.md"], index.open().schema.empty_table())
    with pytest.raises(
        StoreError, match=r"what readers see was left as it was: a\.md has 0 rows and 2 chunks\. The next scan"
    ):
        bench.publish()
    assert bench.published.version == 1
    assert bench.texts("one two") == ["one", "two"]
    assert due(bench) is True
    bench.index("a.md")
    assert bench.publish().moved is True


def test_superfluous_rows_are_refused(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    index = index_of(bench)
    rows = index.read()
    Table(index.uri, rows.schema).append(rows)
    with pytest.raises(StoreError, match=r"a\.md has 2 rows and 1 chunks"):
        bench.publish()
    assert bench.published.version == 1


def test_rows_of_an_empty_document_are_refused(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    change(bench.store.documents(CORPUS), {"a.md": {"status": "empty", "chunks": 0}})
    with pytest.raises(StoreError, match=r"a\.md has 1 rows and 0 chunks"):
        bench.publish()


def test_orphans_are_refused(bench: Workbench):
    bench.write("a.md", "one")
    bench.write("b.md", "two")
    bench.ingest()
    bench.store.documents(CORPUS).replace(["b.md"], DOCUMENTS.empty_table())
    with pytest.raises(StoreError, match=r"b\.md has 1 rows and no document"):
        bench.publish()
    assert bench.published.version == 1


def test_a_long_list_of_disagreements_is_cut(bench: Workbench):
    names = [f"{number:02}.md" for number in range(12)]
    for name in names:
        bench.write(name, name)
    bench.ingest()
    index = index_of(bench)
    index.replace(names, index.open().schema.empty_table())
    with pytest.raises(StoreError, match=r"09\.md has 0 rows and 1 chunks …\."):
        bench.publish()


def test_the_last_good_rows_of_a_failed_document_do_not_hold_up_the_others(bench: Workbench):
    bench.write("a.md", "red apples")
    bench.write("b.md", "pears")
    bench.ingest()
    bench.write("a.md", b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
    bench.write("b.md", "plums")
    bench.ingest()
    assert bench.known["a.md"].status == "failed"
    assert bench.texts("apples plums") == ["plums", "red apples"]


def test_a_publication_never_looks_between_the_rows_and_what_is_known_of_them(bench: Workbench):
    """A removal deletes rows first and the document last. A publication of another run that came in between found a
    document without its rows, and failed that run for nothing."""
    bench.write("a.md", "one")
    bench.write("b.md", "two")
    bench.ingest()
    publishers_saw: list[Exception] = []
    under_way = threading.Event()

    class SlowStore(Store):
        def chunks(self, corpus: str) -> Table:
            """Called between the index and the ledger."""
            under_way.set()
            publisher.join(timeout=0.3)
            return super().chunks(corpus)

    def publish_meanwhile() -> None:
        under_way.wait()
        try:
            bench.publish()
        except StoreError as error:
            publishers_saw.append(error)

    publisher = threading.Thread(target=publish_meanwhile)
    publisher.start()
    remove_documents(SlowStore(bench.store.home), bench.corpus, ["b.md"])
    publisher.join()
    assert publishers_saw == []
    assert bench.published.documents == 1


# Generations.


def test_readers_keep_the_old_generation_until_the_new_one_covers_every_document(bench: Workbench):
    bench.write("a.md", "red apples")
    bench.write("b.md", "green apples")
    bench.ingest()
    old = bench.published
    bench.configure(embedding=OTHER_MODEL)
    bench.materialize("a.md")
    report = bench.publish()
    assert report.moved is False
    assert report.waiting is not None
    assert "lacks 1 of 2 documents; readers keep version 1" in report.waiting
    assert (report.published, bench.published) == (old, old)
    assert bench.texts("apples", mode="vector") == ["green apples", "red apples"]
    assert due(bench) is False
    bench.materialize("b.md")
    assert due(bench) is True
    assert bench.publish().moved is True
    assert bench.published.embedding == OTHER_MODEL
    assert bench.texts("apples", mode="vector") == ["green apples", "red apples"]


def test_a_document_that_was_set_aside_does_not_hold_up_a_new_generation(bench: Workbench):
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.ingest()
    bench.configure(embedding=OTHER_MODEL)
    bench.write("b.md", b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
    assert bench.ingest().moved is True
    assert bench.published.embedding == OTHER_MODEL


def test_switching_back_to_a_generation_embeds_nothing(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    first = bench.corpus.embedding
    bench.configure(embedding=OTHER_MODEL)
    bench.ingest()
    bench.configure(embedding=first)
    assert bench.update().pending == ["a.md"]
    assert bench.known["a.md"].texts_embedded == 0
    assert bench.publish().moved is True
    assert (bench.published.version, bench.published.embedding) == (3, first)


def test_switching_back_after_a_document_was_removed_is_published(bench: Workbench):
    """The rows of a removed document stayed in the table of a generation that was neither configured nor published. When
    that one was configured again, they were orphans, and no run could ever publish it."""
    bench.write("a.md", "apples")
    bench.write("gone.md", "pears")
    bench.ingest()
    first = bench.corpus.embedding
    bench.configure(embedding=OTHER_MODEL)
    bench.ingest()
    (bench.folder / "gone.md").unlink()
    bench.ingest()
    bench.configure(embedding=first)
    assert bench.ingest().moved is True
    assert bench.texts("apples pears", mode="vector") == ["apples"]


def test_questions_go_to_where_the_model_of_the_publication_is_now(bench: Workbench):
    """A publication keeps the settings that made it. When the server moved, questions still went to its old address
    until something else was published."""
    made_with = OpenAIEmbedding(provider="openai", model="m", base_url="http://old.example/v1", api_key_env="OLD_KEY")
    moved = made_with.model_copy(update={"base_url": "http://new.example/v1", "api_key_env": "NEW_KEY"})
    bench.write("a.md", "apples")
    bench.ingest()
    published = publishing.Publication(**{**bench.published.__dict__, "embedding": made_with})
    bench.configure(embedding=moved)
    assert embedding_for(bench.corpus, published) == moved
    for other in (LocalEmbedding(), moved.model_copy(update={"model": "other"})):
        bench.configure(embedding=other)
        assert embedding_for(bench.corpus, published) == made_with


# Versions.


def test_a_published_version_survives_compaction_and_clean_up(bench: Workbench):
    bench.write("a.md", "red apples")
    bench.ingest()
    first = bench.published
    for colour in ("green", "blue", "white"):
        bench.write("a.md", f"{colour} apples")
        bench.ingest()
    index = index_of(bench)
    index.compact(more_than_fragments=0)
    index.clean_up(keep_versions_for=timedelta(0))
    assert index.read(["text"], version=first.table_version)["text"].to_pylist() == ["red apples"]
    assert bench.texts("apples") == ["white apples"]


def test_some_publications_are_kept_and_older_ones_are_reclaimed(bench: Workbench):
    bench.configure(retention=RetentionSettings(versions=2))
    versions = []
    for number in range(4):
        bench.write("a.md", f"apples {number}")
        bench.ingest()
        versions.append(bench.published.table_version)
    index = index_of(bench)
    assert sorted(index.open().tags.list()) == ["published-0000000003", "published-0000000004"]
    index.clean_up(keep_versions_for=timedelta(0))
    assert index.read(["text"], version=versions[2])["text"].to_pylist() == ["apples 2"]
    with pytest.raises(StoreError, match="is lost or damaged"):
        index.read(version=versions[1])


def test_fragments_stay_few_however_often_it_is_published(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publishing, "_FRAGMENTS", 2)
    for number in range(5):
        bench.write(f"{number}.md", f"apples {number}")
        bench.ingest()
    for table in (index_of(bench), bench.store.documents(CORPUS), bench.store.chunks(CORPUS)):
        assert table.fragments() <= 3
    assert bench.texts("apples") == ["apples 0", "apples 1", "apples 2", "apples 3", "apples 4"]


def test_a_tag_that_someone_else_made_is_left_alone(bench: Workbench):
    """Any other tag stopped every publication of the corpus: its name was read as a number."""
    bench.write("a.md", "apples")
    bench.ingest()
    index_of(bench).open().tags.create("before-the-audit", 1)
    bench.write("a.md", "pears")
    assert bench.ingest().moved is True
    assert "before-the-audit" in index_of(bench).open().tags.list()


def test_a_publisher_that_died_between_the_tag_and_the_pointer_is_followed_by_the_next(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    bench.write("a.md", "red apples")
    bench.ingest()
    bench.write("a.md", "green apples")
    bench.update()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Table, "append_next", die)
        with pytest.raises(KeyboardInterrupt):
            bench.publish()
    assert "published-0000000002" in index_of(bench).open().tags.list()
    assert bench.texts("apples") == ["red apples"]
    assert due(bench) is True
    bench.write("a.md", "blue apples")
    bench.update()
    assert bench.publish().moved is True
    assert bench.published.version == 2
    tags = index_of(bench).open().tags.list()
    assert tags["published-0000000002"]["version"] == bench.published.table_version
    assert bench.texts("apples") == ["blue apples"]


def test_two_publishers_at_once_make_one_publication(bench: Workbench):
    bench.write("a.md", "apples")
    bench.update()
    threads = [threading.Thread(target=publish, args=(bench.store, bench.corpus), kwargs={"run_id": "r"}) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bench.store.publications(CORPUS).read(["version"])["version"].to_pylist() == [1]


class Unlocked(Store):
    """A store whose locks were lost: in an object store, by who was silent for too long."""

    @contextlib.contextmanager
    def lock(self, name: str, *, timeout_seconds: float = -1) -> Iterator[None]:
        yield


@pytest.fixture
def unlocked(bench: Workbench) -> Workbench:
    """Red apples are published, and green ones are indexed."""
    bench.store = Unlocked(bench.store.home)
    bench.write("a.md", "red apples")
    bench.ingest()
    bench.write("a.md", "green apples")
    bench.update()
    return bench


def held(bench: Workbench) -> dict[int, int]:
    """Which version of the index table is held for which publication."""
    return {version: place for version, (place, _) in tagged_publications(index_of(bench)).items()}


def pointers(bench: Workbench) -> dict[int, int]:
    """Which version of the index table each publication names. None has the number of another."""
    found = publications(bench.store, CORPUS)
    assert len({one.version for one in found}) == len(found)
    return {one.version: one.table_version for one in found}


def test_a_publisher_that_was_overtaken_with_the_same_rows_publishes_nothing(unlocked: Workbench):
    def overtake(*_: Publication) -> None:
        if unlocked.published.version == 1:
            unlocked.publish()

    report = publish(unlocked.store, unlocked.corpus, run_id="slow", approve=overtake)
    assert (report.moved, report.published) == (False, unlocked.published)
    assert (unlocked.published.version, unlocked.published.run_id) == (2, "run")
    assert held(unlocked) == pointers(unlocked)


def test_a_publisher_that_was_overtaken_never_takes_readers_back_to_older_rows(unlocked: Workbench):
    """And the tag of the number belongs to who won it: the slow one had held its own rows under that number."""

    def overtake(*_: Publication) -> None:
        if unlocked.published.version == 1:
            unlocked.write("a.md", "blue apples")
            unlocked.ingest()

    publish(unlocked.store, unlocked.corpus, run_id="slow", approve=overtake)
    assert unlocked.texts("apples") == ["blue apples"]
    assert unlocked.published.run_id == "run"
    assert held(unlocked) == pointers(unlocked)


def test_who_was_overtaken_by_another_generation_leaves_no_tag_behind(unlocked: Workbench):
    """A new generation is configured on another machine, built and published while this one still asks."""

    def overtake(*_: Publication) -> None:
        if unlocked.published.version == 1:
            other = replace(unlocked)
            other.configure(embedding=OTHER_MODEL)
            other.ingest()

    first = unlocked.published.table_version
    publish(unlocked.store, unlocked.corpus, run_id="slow", approve=overtake)
    assert len(pointers(unlocked)) == len(publications(unlocked.store, CORPUS)) > 1
    assert 2 not in held(unlocked)
    assert held(unlocked)[1] == first


def test_publishers_without_a_lock_make_one_publication_of_one_change(unlocked: Workbench):
    seen: list[tuple[int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            published = unlocked.published
            seen.append((published.version, published.table_version))

    reader = threading.Thread(target=watch)
    reader.start()
    for number in range(2):
        unlocked.write("a.md", f"apples {number}")
        unlocked.update()
        start = threading.Barrier(3)
        threads = [
            threading.Thread(target=lambda: (start.wait(), unlocked.publish()))  # noqa: B023 - all end in this round
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ended.set()
    reader.join()
    assert sorted(pointers(unlocked)) == [1, 2, 3]
    assert held(unlocked) == pointers(unlocked)
    assert seen == sorted(seen)
    assert unlocked.texts("apples") == ["apples 1"]


def test_a_person_who_rolls_back_while_a_run_publishes_is_obeyed(unlocked: Workbench):
    unlocked.publish()
    unlocked.write("a.md", "blue apples")
    unlocked.update()

    def roll_back(*_: Publication) -> None:
        if not unlocked.published.is_rollback:
            rollback(unlocked.store, CORPUS, 1)

    report = publish(unlocked.store, unlocked.corpus, run_id="slow", resume=False, approve=roll_back)
    assert report.moved is False
    assert "a person rolled back; readers keep version 3" in str(report.waiting)
    assert unlocked.texts("apples") == ["red apples"]
    assert held(unlocked) == pointers(unlocked)


def test_a_rollback_that_was_overtaken_is_done_all_the_same(unlocked: Workbench, monkeypatch: pytest.MonkeyPatch):
    def hold_and_overtake(*arguments: Any) -> None:
        monkeypatch.setattr(publishing, "hold", hold)
        hold(*arguments)
        unlocked.publish()

    unlocked.publish()
    unlocked.write("a.md", "blue apples")
    unlocked.update()
    monkeypatch.setattr(publishing, "hold", hold_and_overtake)
    assert rollback(unlocked.store, CORPUS, 1).version == 4
    assert unlocked.texts("apples") == ["red apples"]
    assert held(unlocked) == pointers(unlocked)


def test_who_is_overtaken_again_and_again_gives_up_and_says_so(unlocked: Workbench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Table, "append_next", lambda *_, **__: False)
    with pytest.raises(StoreError, match=r"another process published version 2 first, 8 times; run it again"):
        unlocked.publish()
    assert unlocked.published.version == 1


def test_the_pointer_is_the_highest_version_in_whatever_order_rows_lie(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    row = bench.store.publications(CORPUS).read().to_pylist()[0]
    for version in (3, 2):
        bench.store.publications(CORPUS).append(pa.Table.from_pylist([row | {"version": version}], PUBLICATIONS))
    assert bench.published.version == 3


# When a publication is due.


def test_a_publication_is_due_when_a_run_died_after_indexing(bench: Workbench):
    bench.write("a.md", "apples")
    assert due(bench) is False
    bench.read("a.md")
    assert due(bench) is False
    bench.chunk("a.md")
    bench.embed("a.md")
    bench.index("a.md")
    assert due(bench) is True
    bench.publish()
    assert due(bench) is False


def test_a_publication_is_due_when_a_removal_died_before_publishing(bench: Workbench):
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.ingest()
    (bench.folder / "b.md").unlink()
    bench.update()
    assert due(bench) is True
    bench.publish()
    assert due(bench) is False
    assert bench.texts("pears") == []


def test_no_publication_is_due_while_documents_are_on_their_way(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    bench.write("a.md", "pears")
    bench.read("a.md")
    assert due(bench) is False


def test_a_publication_may_be_due_beside_documents_that_are_on_their_way(bench: Workbench):
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.read("b.md")
    assert due(bench, beside_pending=True) is False, "there is nothing to see yet"
    for step in (bench.read, bench.chunk, bench.embed, bench.index):
        step("a.md")
    assert due(bench) is False
    assert due(bench, beside_pending=True) is True
    bench.publish()
    assert due(bench, beside_pending=True) is False
    assert bench.texts("pears") == []
