from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from rag_assets.config import CorpusSettings, RetentionSettings
from rag_assets.fingerprints import hash_text
from rag_assets.generations import generation_of
from rag_assets.storing.unneeded_vectors import ForgottenVectors, forget_unneeded_vectors
from rag_assets_tests.workbench import CORPUS, Workbench

NOW = datetime.now(UTC)


def forget(bench: Workbench, *, days: float, corpora: dict[str, CorpusSettings] | None = None) -> ForgottenVectors:
    """What maintenance does so many days from now."""
    corpora = {CORPUS: bench.corpus} if corpora is None else corpora
    embedding = generation_of(bench.corpus).embedding
    return forget_unneeded_vectors(bench.store, corpora, embedding, now=NOW + timedelta(days=days))


def has(bench: Workbench, *texts: str) -> list[bool]:
    known = bench.store.vectors(generation_of(bench.corpus).embedding).known([hash_text(text) for text in texts])
    return [hash_text(text) in known for text in texts]


@pytest.fixture
def removed(bench: Workbench) -> Workbench:
    """`a.md` is there, `b.md` was and is gone, from all kept versions too."""
    bench.configure(retention=RetentionSettings(versions=1, vectors_days=90))
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.ingest()
    (bench.folder / "b.md").unlink()
    bench.ingest()
    return bench


def test_a_vector_goes_when_nothing_has_needed_it_for_long(removed: Workbench):
    assert forget(removed, days=0) == ForgottenVectors(deleted=0, unneeded=1)
    assert forget(removed, days=89) == ForgottenVectors(deleted=0, unneeded=1)
    assert has(removed, "apples", "pears") == [True, True]
    assert forget(removed, days=90) == ForgottenVectors(deleted=1, unneeded=0)
    assert has(removed, "apples", "pears") == [True, False]
    assert forget(removed, days=200) == ForgottenVectors(deleted=0, unneeded=0)


def test_how_old_a_vector_is_does_not_matter(removed: Workbench):
    """The first look is a thousand days after it was embedded; the days count from there."""
    assert forget(removed, days=1000) == ForgottenVectors(deleted=0, unneeded=1)
    assert forget(removed, days=1089) == ForgottenVectors(deleted=0, unneeded=1)
    assert has(removed, "pears") == [True]


def test_a_text_that_came_back_meanwhile_starts_anew_when_it_goes_again(removed: Workbench):
    forget(removed, days=0)
    removed.write("c.md", "pears")
    removed.ingest()
    assert removed.known["c.md"].texts_embedded == 0
    assert forget(removed, days=80) == ForgottenVectors(deleted=0, unneeded=0)
    (removed.folder / "c.md").unlink()
    removed.ingest()
    assert forget(removed, days=100) == ForgottenVectors(deleted=0, unneeded=1)
    assert has(removed, "pears") == [True]


def test_a_text_that_came_back_at_the_last_moment_stays(removed: Workbench):
    forget(removed, days=0)
    removed.write("c.md", "pears")
    removed.ingest()
    assert forget(removed, days=91) == ForgottenVectors(deleted=0, unneeded=0)
    assert has(removed, "pears") == [True]


def test_a_version_that_is_kept_needs_its_vectors(bench: Workbench):
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.ingest()
    (bench.folder / "b.md").unlink()
    bench.ingest()
    assert forget(bench, days=0) == ForgottenVectors(deleted=0, unneeded=0)


def test_another_corpus_needs_them_configured_or_not(removed: Workbench):
    other = replace(
        removed, corpus=removed.corpus.model_copy(update={"name": "other"}), folder=removed.folder / "other"
    )
    other.configure(source=str(other.folder))
    other.write("x.md", "pears")
    found = other.scan()
    other.materialize(*found.pending)
    assert forget(removed, days=0, corpora={CORPUS: removed.corpus, "other": other.corpus}).unneeded == 0
    assert forget(removed, days=0).unneeded == 0
    assert has(removed, "pears") == [True]


def test_what_the_template_made_is_needed_and_what_an_earlier_one_made_is_not(bench: Workbench):
    bench.configure(embed_template="about {title}: {text}", retention=RetentionSettings(versions=1))
    bench.write("a.md", "# Fruit\n\napples")
    bench.ingest()
    assert forget(bench, days=0) == ForgottenVectors(deleted=0, unneeded=0)
    count = bench.store.vectors(generation_of(bench.corpus).embedding).count()
    bench.configure(embed_template="{title} - {text}")
    bench.ingest()
    forgotten = forget(bench, days=0)
    assert (forgotten.deleted, forgotten.unneeded) == (0, count)


def test_where_the_keys_of_a_corpus_cannot_be_told_every_vector_stays(removed: Workbench):
    """A corpus that is not configured any more may have had a template."""
    other = replace(
        removed, corpus=removed.corpus.model_copy(update={"name": "other"}), folder=removed.folder / "other"
    )
    other.configure(source=str(other.folder), embed_template="about {title}: {text}")
    other.write("x.md", "plums")
    found = other.scan()
    other.materialize(*found.pending)
    forget(removed, days=0, corpora={CORPUS: removed.corpus, "other": other.corpus})
    left = forget(removed, days=400)
    assert left.deleted == 0
    assert left.kept_because is not None
    assert "corpus other is not configured" in left.kept_because
    assert "rag-assets purge other" in left.kept_because


def test_null_keeps_all_for_ever_and_the_longest_of_all_corpora_counts(removed: Workbench):
    never = removed.corpus.model_copy(update={"name": "never", "retention": RetentionSettings(vectors_days=None)})
    longer = removed.corpus.model_copy(update={"name": "longer", "retention": RetentionSettings(vectors_days=500)})
    both = {CORPUS: removed.corpus, "never": never}
    assert forget(removed, days=9, corpora=both) == ForgottenVectors(kept_because="retention.vectors_days is null")
    both = {CORPUS: removed.corpus, "longer": longer}
    forget(removed, days=0, corpora=both)
    assert forget(removed, days=499, corpora=both) == ForgottenVectors(deleted=0, unneeded=1)
    assert forget(removed, days=500, corpora=both) == ForgottenVectors(deleted=1, unneeded=0)


def test_the_whole_folder_of_a_corpus_gone_deletes_nothing(removed: Workbench):
    """Somebody deletes the derived tables, as the manual says they may: what was paid for stays."""
    forget(removed, days=0)
    for table in (
        removed.store.chunks(CORPUS),
        removed.store.index(CORPUS, removed.published.generation, dimensions=1),
    ):
        table.drop()
    assert forget(removed, days=1) == ForgottenVectors(deleted=0, unneeded=2)
    assert has(removed, "apples", "pears") == [True, True]


def test_of_many_vectors_each_is_needed_or_not(bench: Workbench):
    texts = [f"Text number {number}." for number in range(40)]
    bench.write("a.md", "\n\n".join(texts))
    bench.ingest()
    others = [f"Another text {number}." for number in range(60)]
    vectors = bench.store.vectors(generation_of(bench.corpus).embedding)
    vectors.append([hash_text(text) for text in others], np.ones((60, 64), dtype=np.float32), [1] * 60)
    assert forget(bench, days=0).unneeded == 60
    assert forget(bench, days=91).deleted == 60
    assert has(bench, *texts, *others) == [True] * 40 + [False] * 60


def test_where_nothing_is_needed_every_vector_waits(bench: Workbench):
    vectors = bench.store.vectors(generation_of(bench.corpus).embedding)
    vectors.append([hash_text("apples")], np.ones((1, 64), dtype=np.float32), [1])
    assert forget(bench, days=0) == ForgottenVectors(deleted=0, unneeded=1)
