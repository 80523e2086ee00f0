"""Children are searched, parents are read."""

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document

ONE = " ".join(f"Sentence {number} is about bread." for number in range(12))
TWO = " ".join(f"Sentence {number} is about stars." for number in range(12))
TEXT = f"# Bread\n\n{ONE}\n\n# Stars\n\n{TWO}\n"


def cut(text, *, mime="text/markdown", **limits):
    return chunk_document(Document("a.md", "a", mime, text), ChunkingSettings(strategy="parent_child", **limits))


def test_a_section_is_the_parent_of_its_children():
    chunks = cut(TEXT, max_tokens=180, child_tokens=40)
    assert len(chunks) > 4
    assert {chunk.parent.text for chunk in chunks} == {f"# Bread\n\n{ONE}", f"# Stars\n\n{TWO}"}
    assert {chunk.heading_path for chunk in chunks} == {("Bread",), ("Stars",)}
    assert len({chunk.parent_chunk_id for chunk in chunks}) == 2


def test_a_child_is_a_third_of_its_parent_unless_it_is_said():
    assert max(chunk.tokens for chunk in cut(TEXT, max_tokens=90)) <= 30
    assert max(chunk.tokens for chunk in cut(TEXT, max_tokens=90, child_tokens=60)) > 30


def test_children_are_whole_sentences():
    children = [chunk.text for chunk in cut(TEXT, max_tokens=180, child_tokens=40)]
    assert all(child.endswith(("bread.", "stars.")) for child in children)


def test_parents_follow_the_format():
    code = "".join(f"def f{n}(a):\n    b = a * {n}\n    c = b + {n}\n    return a + b + c\n\n\n" for n in range(3))
    chunks = cut(code, mime="text/x-python", max_tokens=60, child_tokens=20)
    assert {chunk.heading_path for chunk in chunks} == {("def f0(a)",), ("def f1(a)",), ("def f2(a)",)}
    assert all(chunk.parent.text.startswith("def f") for chunk in chunks)
