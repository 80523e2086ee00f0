"""What the doctor finds in a store that was really broken, and that afterwards all is as if nothing had happened."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from rag_assets.config import OpenAIEmbedding, RayWorkers
from rag_assets.defs.partitions import add_keys, delete_keys
from rag_assets.doctoring import Finding, diagnose
from rag_assets.fingerprints import hash_text
from rag_assets.generations import generation_of
from rag_assets.mending import mend
from rag_assets.storing.agreeing import without_document
from rag_assets.storing.restoring import restore_documents
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

TABLES = ("documents", "chunks", "index", "publications", "vectors")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workbench, FakeOpenAI]]:
    """A store after two publications; `whole` is a copy of it, `backup` one of what the first publication left."""
    root = tmp_path_factory.mktemp("prepared")
    bench = make_workbench(root)
    with FakeOpenAI() as fake:
        bench.configure(embedding=OpenAIEmbedding(provider="openai", base_url=fake.base_url, model="fake"))
        bench.write("a.md", "apples\n\npears")
        bench.write("b.md", "bananas")
        bench.write("empty.md", "")
        bench.write("old.md", "medlars")
        bench.ingest()
        shutil.copytree(bench.store.home, root / "backup")
        bench.write("a.md", "apples\n\nquinces")
        bench.write("c.md", "cherries")
        (bench.folder / "old.md").unlink()
        bench.ingest()
        shutil.copytree(bench.store.home, root / "whole")
        yield bench, fake


@pytest.fixture
def fake(prepared: tuple[Workbench, FakeOpenAI]) -> FakeOpenAI:
    return prepared[1]


@pytest.fixture
def bench(prepared: tuple[Workbench, FakeOpenAI]) -> Workbench:
    """The prepared store, whole again."""
    bench, _ = prepared
    home = Path(bench.store.home)
    shutil.rmtree(home)
    shutil.copytree(home.parent / "whole", home)
    return bench


def folder_of(bench: Workbench, table: str) -> Path:
    generation = generation_of(bench.corpus)
    if table == "vectors":
        return Path(bench.store.vectors(generation.embedding).uri)
    name = f"index_{generation.id}" if table == "index" else table
    return Path(bench.store.corpus_uri(CORPUS)) / f"{name}.lance"


def published_rows(bench: Workbench) -> list[dict[str, Any]]:
    index = bench.store.index(CORPUS, bench.published.generation, dimensions=1)
    rows = index.read(version=bench.published.table_version).to_pylist()
    return sorted(rows, key=lambda row: str(row["chunk_id"]))


def kinds(found: Sequence[Finding]) -> set[str]:
    return {one.kind for one in found}


def repair(bench: Workbench) -> list[Finding]:
    """Mend, look again, and ingest, as `doctor --fix` does. Returns what was found."""
    seen: list[Finding] = []
    for _ in range(3):
        found = diagnose(bench.store, bench.corpus)
        mend(bench.store, bench.corpus, found)
        seen += found
    bench.ingest()
    return seen


def newest(folder: Path) -> Path:
    return max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def index_of(bench: Workbench) -> lance.LanceDataset:
    return lance.dataset(folder_of(bench, "index"))


def point_at(bench: Workbench, **columns: object) -> None:
    """Add a publication like the last one but for `columns`."""
    table = bench.store.publications(CORPUS)
    last = table.read(where="version = 2").to_pylist()[0]
    table.append(pa.Table.from_pylist([last | {"version": 3} | columns], schema=table.schema))


def latest_manifest(table: Path) -> Path:
    return min((table / "_versions").glob("*.manifest"), key=lambda path: path.name)


def truncate_a_file(table: Path) -> None:
    os.truncate(newest(table / "data"), 40)


def delete_a_file(table: Path) -> None:
    newest(table / "data").unlink()


def truncate_the_manifest(table: Path) -> None:
    os.truncate(latest_manifest(table), 20)


def put_a_file_in_its_place(table: Path) -> None:
    shutil.rmtree(table)
    table.write_text("no table")


def restore_an_older_copy(table: Path) -> None:
    home = next(parent for parent in table.parents if parent.name == "home")
    shutil.rmtree(table)
    shutil.copytree(home.parent / "backup" / table.relative_to(home), table)


DAMAGES = [
    *((damage, table) for damage in (truncate_a_file, truncate_the_manifest) for table in TABLES),
    (delete_a_file, "index"),
    (put_a_file_in_its_place, "documents"),
]


def test_nothing_is_wrong_with_a_whole_store_nor_with_an_empty_one(bench: Workbench, tmp_path: Path):
    assert diagnose(bench.store, bench.corpus) == []
    assert diagnose(make_workbench(tmp_path).store, bench.corpus) == []
    bench.write("d.md", "damsons")
    try:
        assert diagnose(bench.store, bench.corpus) == []
    finally:
        (bench.folder / "d.md").unlink()


class TestTables:
    """One table is lost or damaged: it is named, and nothing is embedded to make all as it was."""

    @pytest.fixture(autouse=True)
    def _as_it_was(self, bench: Workbench, fake: FakeOpenAI) -> Iterator[None]:
        before, sent = published_rows(bench), len(fake.embedded_texts)
        yield
        assert fake.embedded_texts[sent:] == []
        assert published_rows(bench) == before
        assert bench.texts("apples quinces") == ["apples", "quinces"]
        assert diagnose(bench.store, bench.corpus) == []

    @pytest.mark.parametrize(
        ("table", "what"),
        [
            ("documents", "table documents is gone, and 3 documents were indexed; it is made again from the source"),
            ("chunks", "table chunks is gone, and 3 documents have chunks; it is made again from the documents"),
            ("index", "table index is gone, and 3 documents have chunks; it is made again from the chunks and"),
            ("publications", "table publications lacks versions that the index keeps: 1, 2; it is made again from"),
            ("vectors", "4 texts have no vector in the vector store; the index has copies of them"),
        ],
    )
    def test_a_table_was_deleted(self, bench: Workbench, table: str, what: str):
        shutil.rmtree(folder_of(bench, table))
        found = repair(bench)
        assert what in found[0].what
        assert (found[0].remedy, found[0].fixable) == ("rag-assets doctor notes --fix", True)

    @pytest.mark.parametrize(("damage", "table"), DAMAGES)
    def test_a_table_has_a_damaged_file(self, bench: Workbench, damage: Callable[[Path], None], table: str):
        folder = folder_of(bench, table)
        damage(folder)
        damaged = repair(bench)[0]
        assert (damaged.kind, damaged.name) == ("table_damaged", table)
        assert damaged.what.startswith(f"table {table} cannot be read (")
        assert len(list(folder.parent.glob(f"{folder.name}.broken-*"))) == 1

    @pytest.mark.parametrize(
        ("table", "expected"),
        [
            ("documents", {"rows_disagree"}),
            ("chunks", {"rows_disagree"}),
            ("index", {"rows_disagree", "pointer_wrong"}),
            ("publications", {"pointer_lost"}),
            ("vectors", {"vectors_lost"}),
        ],
    )
    def test_an_older_copy_of_a_table_was_restored(self, bench: Workbench, table: str, expected: set[str]):
        restore_an_older_copy(folder_of(bench, table))
        assert kinds(repair(bench)) == expected

    def test_an_older_copy_of_all_but_the_vectors_was_restored(self, bench: Workbench):
        """The tables agree with each other: the files that changed since are made again, and that is all."""
        restore_an_older_copy(Path(bench.store.corpus_uri(CORPUS)))
        assert repair(bench) == []

    @pytest.mark.parametrize("table", TABLES)
    def test_the_last_manifest_of_a_table_was_deleted(self, bench: Workbench, table: str):
        latest_manifest(folder_of(bench, table)).unlink()
        assert kinds(repair(bench)) <= {"rows_disagree", "pointer_lost", "pointer_wrong", "vectors_lost"}

    def test_all_tables_but_the_vectors_were_deleted(self, bench: Workbench):
        """Nothing tells of the corpus any more, so that nothing is wrong: it is new."""
        shutil.rmtree(bench.store.corpus_uri(CORPUS))
        assert repair(bench) == []

    def test_vectors_and_documents_were_deleted(self, bench: Workbench):
        shutil.rmtree(folder_of(bench, "documents"))
        shutil.rmtree(folder_of(bench, "vectors"))
        assert kinds(repair(bench)) == {"documents_lost", "vectors_lost"}

    def test_documents_that_a_run_notes_while_they_are_restored_are_there_once(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ):
        shutil.rmtree(folder_of(bench, "documents"))

        def noted_meanwhile(*arguments: Any) -> Any:
            names = without_document(*arguments)
            bench.materialize("a.md")
            return names

        with monkeypatch.context() as patched:
            patched.setattr("rag_assets.storing.restoring.without_document", noted_meanwhile)
            restore_documents(bench.store, bench.corpus)
        names = bench.store.documents(CORPUS).read(["document"])["document"].to_pylist()
        assert sorted(names) == ["a.md", "b.md", "c.md"]
        assert repair(bench) == []

    def test_search_indices_were_deleted(self, bench: Workbench):
        shutil.rmtree(folder_of(bench, "index") / "_indices")
        assert kinds(repair(bench)) == {"search_index_damaged", "not_published"}

    def test_tags_were_deleted(self, bench: Workbench):
        shutil.rmtree(folder_of(bench, "index") / "_refs")
        assert kinds(repair(bench)) == {"pointer_wrong"}

    def test_a_tag_is_half_written(self, bench: Workbench):
        next((folder_of(bench, "index") / "_refs" / "tags").iterdir()).write_text("{")
        assert repair(bench)[0].kind == "table_damaged"

    def test_the_pointer_names_a_version_that_never_was(self, bench: Workbench):
        point_at(bench, table_version=999)
        assert kinds(repair(bench)) == {"pointer_wrong"}

    def test_the_pointer_names_a_model_that_is_none(self, bench: Workbench):
        point_at(bench, embedding="{}")
        assert next((one.kind, one.name) for one in repair(bench)) == ("table_damaged", "publications")


class TestRows:
    """Rows were changed behind the back of the platform."""

    def check(self, bench: Workbench, fake: FakeOpenAI, *what: str) -> None:
        sent = len(fake.embedded_texts)
        assert [one.what for one in repair(bench)] == list(what)
        assert fake.embedded_texts[sent:] == []
        assert [row["text"] for row in sorted(published_rows(bench), key=lambda row: str(row["text"]))] == [
            "apples",
            "bananas",
            "cherries",
            "quinces",
        ]
        assert diagnose(bench.store, bench.corpus) == []

    def test_rows_are_missing(self, bench: Workbench, fake: FakeOpenAI):
        index_of(bench).delete("document IN ('a.md', 'b.md')")
        self.check(bench, fake, "2 documents have no rows in the index: a.md, b.md")

    def test_a_row_is_missing(self, bench: Workbench, fake: FakeOpenAI):
        index_of(bench).delete("text = 'quinces'")
        self.check(bench, fake, "1 document has another number of rows than of chunks in the index: a.md")

    def test_a_row_is_there_twice(self, bench: Workbench, fake: FakeOpenAI):
        table = index_of(bench)
        table.insert(table.to_table(filter="text = 'quinces'"))
        self.check(bench, fake, "1 document has a row more than once in the index: a.md")

    def test_a_document_has_rows_of_two_texts(self, bench: Workbench, fake: FakeOpenAI):
        index_of(bench).update({"document_hash": "'other'"}, where="text = 'quinces'")
        self.check(bench, fake, "1 document has rows of two texts in the index: a.md")

    def test_a_document_has_rows_of_another_text(self, bench: Workbench, fake: FakeOpenAI):
        index_of(bench).update({"document_hash": "'other'"}, where="document = 'b.md'")
        self.check(bench, fake, "1 document has rows of another text in the index: b.md")

    def test_a_document_has_other_chunks_than_were_cut(self, bench: Workbench, fake: FakeOpenAI):
        index_of(bench).update({"chunk_id": "'other'"}, where="document = 'b.md'")
        self.check(bench, fake, "1 document has other chunks in the index than in chunks: b.md")

    def test_rows_have_no_document(self, bench: Workbench, fake: FakeOpenAI):
        lance.dataset(folder_of(bench, "documents")).delete("document = 'b.md'")
        self.check(
            bench,
            fake,
            "1 document has rows in the index and none in documents: b.md",
            "1 document has rows in chunks and none in documents: b.md",
        )

    def test_vectors_are_missing(self, bench: Workbench, fake: FakeOpenAI):
        vectors = lance.dataset(folder_of(bench, "vectors"))
        vectors.delete(f"text_hash = '{hash_text('quinces')}'")
        self.check(bench, fake, "1 texts have no vector in the vector store; the index has copies of them")
        assert bench.store.vectors(generation_of(bench.corpus).embedding).count() == 6


def test_only_vectors_that_are_nowhere_are_embedded_again(bench: Workbench, fake: FakeOpenAI):
    before, sent = published_rows(bench), len(fake.embedded_texts)
    lance.dataset(folder_of(bench, "vectors")).delete(f"text_hash = '{hash_text('quinces')}'")
    index_of(bench).delete("text = 'quinces'")
    assert "1 texts have no vector in the vector store; 1 must be embedded again" in {one.what for one in repair(bench)}
    assert fake.embedded_texts[sent:] == ["quinces"]
    assert published_rows(bench) == before


def test_keys_of_vectors_follow_the_template(tmp_path: Path):
    """With a template the key is not the hash of the chunk's text: all vectors would seem lost."""
    bench = make_workbench(tmp_path)
    bench.configure(embed_template="{title}: {text}")
    bench.write("a.md", "# Fruit\n\napples")
    bench.ingest()
    assert diagnose(bench.store, bench.corpus) == []
    shutil.rmtree(folder_of(bench, "vectors"))
    assert kinds(repair(bench)) == {"vectors_lost"}
    assert diagnose(bench.store, bench.corpus) == []


def test_an_index_made_again_is_published_though_its_version_is_the_one_that_was_lost(bench: Workbench):
    """The pointer names a version by its number. It seemed to be up to date, and nothing kept its rows from clean-up."""
    shutil.rmtree(folder_of(bench, "index"))
    bench.update()
    while index_of(bench).version < bench.published.table_version:
        bench.index("a.md")
    assert index_of(bench).version == bench.published.table_version
    assert kinds(diagnose(bench.store, bench.corpus)) == {"pointer_wrong"}
    assert bench.publish().moved
    assert diagnose(bench.store, bench.corpus) == []


def test_what_was_not_published_is_told_beside_a_pending_document_that_no_run_can_make(bench: Workbench):
    bench.write("b.md", "blueberries")
    bench.read("b.md")
    bench.write("c.md", "currants")
    bench.materialize("c.md")
    within_reach = diagnose(bench.store, bench.corpus)
    (bench.folder / "b.md").unlink()
    gone = diagnose(bench.store, bench.corpus)
    away = bench.folder.rename(bench.folder.with_name("away"))
    bench.folder.mkdir()
    withheld = diagnose(bench.store, bench.corpus)
    bench.folder.rmdir()
    away.rename(bench.folder)
    bench.write("b.md", "bananas")
    bench.write("c.md", "cherries")
    assert within_reach == [], "the run that makes b publishes"
    assert gone == [], "the run that removes b publishes"
    assert [one.kind for one in withheld] == ["not_published"]


def test_an_index_that_was_not_published_is_told(bench: Workbench):
    bench.write("b.md", "bilberries")
    bench.update()
    found = diagnose(bench.store, bench.corpus)
    bench.write("b.md", "bananas")
    assert [(one.kind, one.remedy) for one in found] == [("not_published", "rag-assets ingest notes")]


def test_what_lies_under_a_damaged_table_is_told_with_it(bench: Workbench):
    """A person mended the damage, and learnt only then of rows that had been missing all along."""
    truncate_a_file(folder_of(bench, "chunks"))
    index_of(bench).delete("document = 'b.md'")
    found = diagnose(bench.store, bench.corpus)
    assert [(one.kind, one.name) for one in found] == [("table_damaged", "chunks"), ("rows_disagree", None)]
    assert found[1].what == "1 document has no rows in the index: b.md"
    repair(bench)
    assert diagnose(bench.store, bench.corpus) == []


def test_a_source_that_cannot_be_listed_is_told(bench: Workbench):
    corpus = bench.corpus.model_copy(update={"source": str(bench.folder / "nowhere")})
    found = diagnose(bench.store, corpus)
    assert [(one.kind, one.fixable) for one in found] == [("source_unreachable", False)]


def test_a_cluster_that_does_not_answer_is_told(bench: Workbench):
    ray = RayWorkers(workers=1, address="127.0.0.1:1")
    corpus = bench.corpus.model_copy(update={"embedding": bench.corpus.embedding.model_copy(update={"ray": ray})})
    found = diagnose(bench.store, corpus)
    assert [(one.kind, one.fixable) for one in found] == [("cluster_unreachable", False)]
    assert "embedding.ray" in found[0].what


class TestCommand:
    """`rag-assets doctor`, with Dagster."""

    def three(self, platform: Platform) -> list[dict[str, Any]]:
        platform.configure(max_documents_per_run=2)
        for name in ("apples", "bananas", "cherries"):
            platform.write(f"{name}.md", f"The text of {name}.")
        platform.ingest()
        return platform.rows()

    def test_nothing_is_wrong(self, platform: Platform):
        assert (platform.run("doctor").status, platform.run("doctor").out) == (0, "nothing is wrong\n")
        self.three(platform)
        assert platform.run("doctor", "--json").json == {"healthy": True, "findings": []}
        assert platform.run("doctor", "--fix", "--json").json == {
            "healthy": True,
            "findings": [],
            "left": [],
            "ingests": {},
        }

    @pytest.mark.parametrize("table", ["index", "documents"])
    def test_a_lost_table_is_made_again_in_more_runs_than_one(self, platform: Platform, table: str):
        rows, sent = self.three(platform), platform.embedded
        name = f"index_{platform.status()['generation']}" if table == "index" else table
        shutil.rmtree(platform.home / "corpora" / "notes" / f"{name}.lance")

        found = platform.run("doctor")
        assert found.status == 2
        assert f"notes: table {table} is gone" in found.out
        assert found.out.splitlines()[0].endswith(". To mend it: rag-assets doctor notes --fix")
        mended = platform.run("doctor", "notes", "--fix", "--json")
        assert (mended.status, mended.json["healthy"]) == (0, True)
        report = mended.json["ingests"]["notes"]
        assert (len(report["runs"]), report["texts_embedded"]) == (2, 0)
        assert platform.embedded == sent
        assert platform.rows() == rows
        assert platform.run("doctor").out == "nothing is wrong\n"

    def test_a_lost_dagster_home(self, platform: Platform):
        rows = self.three(platform)
        shutil.rmtree(platform.dagster_home)
        found = platform.run("doctor")
        assert (found.status, "3 documents have no partition" in found.out) == (2, True)
        assert not platform.dagster_home.exists()
        mended = platform.run("doctor", "--fix")
        assert (mended.status, mended.out.splitlines()[-1]) == (0, "nothing else is wrong")
        assert platform.partitions() == ["apples.md", "bananas.md", "cherries.md"]
        assert (platform.dagster_home / "dagster.yaml").exists()
        assert platform.rows() == rows

    def test_partitions_that_differ_from_the_documents(self, platform: Platform):
        self.three(platform)
        with platform.instance() as instance:
            delete_keys(instance, "notes", ["apples.md"])
            add_keys(instance, "notes", ["gone.md"])
        found = platform.run("doctor", "--json").json["findings"]
        assert [one["what"] for one in found] == [
            "1 document has no partition in this Dagster instance",
            "1 partition has no document, such as gone.md",
        ]
        assert platform.run("doctor", "--fix").status == 0
        assert sorted(platform.partitions()) == ["apples.md", "bananas.md", "cherries.md"]

    def test_answers_that_can_be_read_are_kept(self, platform: Platform):
        self.three(platform)
        for _ in range(2):
            platform.ask("What is the text of apples?")
        os.truncate(newest(platform.home / "answers.lance" / "data"), 40)
        found = platform.run("doctor", "--json").json["findings"]
        assert [(one["kind"], one["corpus"], one["remedy"]) for one in found] == [
            ("table_damaged", None, "rag-assets doctor --fix")
        ]
        assert platform.run("doctor", "--fix").status == 0
        assert platform.store.answers().read().num_rows == 1

    @pytest.mark.parametrize("name", ["health", "evaluations"])
    def test_what_was_measured_and_can_be_read_is_kept(self, platform: Platform, name: str):
        self.three(platform)
        table = getattr(platform.store, name)("notes")
        for version in (1, 2):
            table.append(pa.Table.from_pylist([{"corpus": "notes", "index_version": version}], schema=table.schema))
        os.truncate(newest(platform.home / "corpora" / "notes" / f"{name}.lance" / "data"), 40)
        (found,) = platform.run("doctor", "--json").json["findings"]
        assert (found["kind"], found["corpus"]) == ("table_damaged", "notes")
        assert f"table {name} cannot be read" in found["what"]
        assert platform.run("doctor", "--fix").status == 0
        assert table.read()["index_version"].to_pylist() == [1]

    def test_a_question_to_a_damaged_search_index_names_the_doctor(self, platform: Platform):
        self.three(platform)
        for file in platform.home.glob("corpora/notes/index_*.lance/_indices/*/*"):
            os.truncate(file, 10)
        told = platform.run("ask", "What is the text of apples?")
        assert told.status == 1
        assert "cannot be searched" in told.err
        assert "rag-assets doctor --fix" in told.err
        assert platform.run("doctor", "--fix").status == 0
        assert platform.ask("What is the text of apples?")["answered"]

    def test_a_rollback_that_ends_with_the_repair_is_told(self, platform: Platform):
        """Readers saw the newest version again, and nobody was told."""
        self.three(platform)
        platform.write("dates.md", "The text of dates.")
        platform.ingest()
        assert platform.run("rollback", "1").status == 0
        assert len(platform.rows()) == 2
        shutil.rmtree(platform.home / "corpora" / "notes" / "chunks.lance")
        mended = platform.run("doctor", "--fix")
        assert mended.status == 0
        assert len(platform.rows()) == 4
        assert "notes: the rollback to version 1 has ended, readers see the newest version" in mended.err
        assert mended.err.strip().endswith("to go back again: rag-assets rollback --corpus notes 1")

    def test_nothing_is_mended_while_the_source_is_away(self, platform: Platform):
        self.three(platform)
        shutil.rmtree(platform.home / "corpora" / "notes" / "documents.lance")
        platform.corpus.rename(platform.root / "elsewhere")
        outcome = platform.run("doctor", "--fix")
        assert outcome.status == 2
        assert not (platform.home / "corpora" / "notes" / "documents.lance").exists()

    def test_a_home_that_cannot_be_written_to(self, platform: Platform):
        platform.home.write_text("a file")
        outcome = platform.run("doctor")
        assert outcome.status == 2
        assert f"home: {platform.home} cannot be written to: Not a directory. To mend it: " in outcome.out


class TestPurge:
    @pytest.fixture
    def renamed(self, platform: Platform) -> Platform:
        """The corpus has another name now."""
        platform.write("a.md", "The text of apples.")
        platform.ingest()
        path = platform.root / "corpora.yaml"
        path.write_text(path.read_text().replace("notes:", "papers:"))
        return platform

    def test_what_was_left_is_found_and_deleted(self, renamed: Platform):
        assert renamed.partitions() == ["a.md"]
        found = renamed.run("doctor", "--json")
        assert (found.status, found.json["findings"]) == (
            2,
            [
                {
                    "kind": "corpus_not_configured",
                    "corpus": "notes",
                    "what": "tables of corpus notes are kept, and corpora.yaml names no such corpus",
                    "remedy": "rag-assets purge notes, or name it again",
                    "fixable": False,
                }
            ],
        )
        assert renamed.run("purge", "--json").json == {"corpora": ["notes"]}
        refused = renamed.run("purge", "notes")
        assert (refused.status, "say --yes" in refused.err) == (1, True)

        vectors = list((renamed.home / "vectors").iterdir())
        assert renamed.run("purge", "notes", "--yes", "--json").json == {
            "corpus": "notes",
            "purged": str(renamed.home / "corpora" / "notes"),
            "partitions": 1,
        }
        assert not (renamed.home / "corpora" / "notes").exists()
        assert renamed.partitions() == []
        assert list((renamed.home / "vectors").iterdir()) == vectors
        assert renamed.run("purge").out == "every corpus that has tables is configured\n"
        assert renamed.run("doctor").status == 0

    def test_a_corpus_that_is_configured_or_unknown_is_refused(self, platform: Platform):
        configured = platform.run("purge", "notes", "--yes")
        assert (configured.status, "corpus notes is configured; remove it from" in configured.err) == (1, True)
        unknown = platform.run("purge", "../notes", "--yes")
        assert (unknown.status, "there are no tables of a corpus '../notes'" in unknown.err) == (1, True)
