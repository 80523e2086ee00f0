"""What the embedder sees may differ from what readers see."""

from rag_assets.config import ChunkingSettings
from rag_assets.embedding.providers import make_provider
from rag_assets.estimating import estimate
from rag_assets.generations import generation_of
from rag_assets.materializing.embeddings import embed_documents
from rag_assets.reading.source import open_source
from rag_assets_tests.workbench import Workbench

GUIDE = "# Guide\n\nA marmot sleeps.\n\n## Deep\n\nAn eagle flies.\n"


class Listening:
    """A provider that notes what it is sent."""

    def __init__(self, provider):
        self._provider = provider
        self.seen = []

    def __getattr__(self, name):
        return getattr(self._provider, name)

    def embed(self, texts, kind):
        self.seen += texts
        return self._provider.embed(texts, kind)


def sent(bench: Workbench, *documents: str) -> list[str]:
    """What is sent to embed `documents`."""
    bench.read(*documents)
    bench.chunk(*documents)
    provider = Listening(make_provider(bench.corpus.embedding))
    embed_documents(bench.store, bench.corpus, provider, documents)
    bench.index(*documents)
    return sorted(provider.seen)


def test_the_embedder_sees_the_template_and_readers_the_text(bench: Workbench):
    bench.configure(embed_template="{title} > {heading_path}\n{text}")
    bench.write("a.md", GUIDE)
    assert sent(bench, "a.md") == [
        "Guide > Guide\n# Guide\n\nA marmot sleeps.",
        "Guide > Guide > Deep\n## Deep\n\nAn eagle flies.",
    ]
    bench.publish()
    assert bench.texts("marmot") == ["# Guide\n\nA marmot sleeps."]
    assert bench.texts("Guide > Guide\n# Guide\n\nA marmot sleeps.", mode="vector")[0] == "# Guide\n\nA marmot sleeps."


def test_a_rename_embeds_nothing_unless_the_title_is_the_name_of_the_file(bench: Workbench):
    bench.configure(embed_template="{title}: {text}")
    for name, content in (("a.md", GUIDE), ("a.txt", "Plain words.")):
        bench.write(name, content)
    assert len(sent(bench, "a.md", "a.txt")) == 3
    for name, content in (("b.md", GUIDE), ("b.txt", "Plain words.")):
        bench.write(name, content)
    assert sent(bench, "b.md", "b.txt") == ["b: Plain words."]


def test_another_title_embeds_the_chunks_that_show_it(bench: Workbench):
    bench.configure(embed_template="{title}: {text}")
    bench.write("a.md", "---\ntitle: Old\n---\nOne.\n\nTwo.\n")
    assert sent(bench, "a.md") == ["Old: One.", "Old: Two."]
    bench.write("a.md", "---\ntitle: New\n---\nOne.\n\nTwo.\n")
    assert sent(bench, "a.md") == ["New: One.", "New: Two."]


def test_a_template_is_a_generation_of_its_own_with_the_same_table_of_vectors(bench: Workbench):
    plain = generation_of(bench.corpus)
    bench.configure(embed_template="{text}")
    assert generation_of(bench.corpus).id != plain.id
    assert generation_of(bench.corpus).embedding == plain.embedding


def test_a_template_that_changes_nothing_embeds_nothing(bench: Workbench):
    bench.write("a.md", GUIDE)
    assert len(sent(bench, "a.md")) == 2
    bench.configure(embed_template="{text}")
    assert sent(bench, "a.md") == []


def test_an_estimate_counts_what_the_template_adds(bench: Workbench):
    bench.configure(chunking=ChunkingSettings(strategy="paragraph"))
    bench.write("a.md", "# T\n\none two three\n")
    source = open_source(bench.corpus)
    plain = estimate(bench.store, bench.corpus, source, bench.provider, ["a.md"])
    bench.configure(embed_template="{title} {title} {title} {text}")
    longer = estimate(bench.store, bench.corpus, source, bench.provider, ["a.md"])
    assert (plain.texts_embedded, longer.texts_embedded) == (1, 1)
    assert longer.tokens == plain.tokens + 3
