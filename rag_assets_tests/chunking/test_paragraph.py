"""One paragraph a chunk."""

from itertools import pairwise

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document


def cut(text, *, max_tokens=180):
    chunking = ChunkingSettings(strategy="paragraph", max_tokens=max_tokens, overlap_tokens=4)
    return chunk_document(Document("a.md", "a", "text/markdown", text), chunking)


def test_blank_lines_separate_chunks():
    text = "One\nline two\n\n\n  \t\nTwo\n\n# Head\nThree\n"
    assert [chunk.text for chunk in cut(text)] == ["One\nline two", "Two", "# Head\nThree"]


def test_a_fence_is_whole_with_the_lines_that_touch_it():
    text = "Before:\n```\na\n\nb\n```\nafter\n\n1. item\n\n   ~~~\n   c\n\n   d\n   ~~~\n\nlast"
    assert [chunk.text for chunk in cut(text)] == [
        "Before:\n```\na\n\nb\n```\nafter",
        "1. item",
        "~~~\n   c\n\n   d\n   ~~~",
        "last",
    ]


def test_a_paragraph_knows_the_headings_above_it():
    chunks = cut("Zero\n\n# A\n\nOne\n\n## B\n\nTwo\n\nThree")
    assert [chunk.heading_path for chunk in chunks] == [(), ("A",), ("A", "B"), ("A", "B")]


def test_a_heading_goes_with_the_paragraph_below_it():
    chunks = cut("# A\n\n## B\n\nOne\n\nTwo\n# C\nThree\n\n# End")
    assert [chunk.text for chunk in chunks] == ["# A\n\n## B\n\nOne", "Two\n# C\nThree", "# End"]
    assert [chunk.heading_path for chunk in chunks] == [("A", "B"), ("A", "B"), ("End",)]


def test_a_long_paragraph_is_cut_between_sentences_without_overlap():
    chunks = cut(" ".join(f"Sentence number {number} ends here." for number in range(30)), max_tokens=40)
    assert len(chunks) > 3
    assert all(chunk.text.startswith("Sentence") and chunk.text.endswith("here.") for chunk in chunks)
    assert all(before.end_char < after.start_char for before, after in pairwise(chunks))
