"""What `chunking` may say, and to which documents it applies."""

import re

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings, load_settings
from rag_assets.errors import ConfigError
from rag_assets.records import Document

RULES = ChunkingSettings.model_validate(
    {
        "max_tokens": 200,
        "by_glob": [
            {"glob": "src/**/*.py", "strategy": "code_function", "max_tokens": 300},
            {"glob": "**/*.py", "strategy": "fixed_size"},
            {"glob": "notes/*", "unit": "characters"},
        ],
    }
)


@pytest.mark.parametrize(
    ("document", "strategy", "limit", "overlap"),
    [
        ("README.md", "auto", 200, 20),
        ("src/a.py", "code_function", 300, 20),
        ("src/deep/A.PY", "code_function", 300, 20),
        ("other/a.py", "fixed_size", 200, 20),
        ("notes/a.md", "auto", 720, 80),
    ],
)
def test_the_first_glob_that_matches_says_how_a_document_is_cut(document, strategy, limit, overlap):
    settings = RULES.of(document)
    assert (settings.strategy, settings.max_tokens, settings.overlap_tokens) == (strategy, limit, overlap)


def test_documents_of_one_corpus_are_cut_as_their_globs_say():
    text = "one two three\n\nfour five six"
    rules = ChunkingSettings.model_validate({"by_glob": [{"glob": "faq/**", "strategy": "paragraph"}]})
    whole, parts = (chunk_document(Document(name, "a", "text/plain", text), rules) for name in ("a.txt", "faq/a.txt"))
    assert [len(whole), len(parts)] == [1, 2]


@pytest.mark.parametrize(
    ("unit", "given", "expected"),
    [
        ("tokens", {}, (180, 20, 60)),
        ("tokens", {"max_tokens": 40}, (40, 10, 13)),
        ("tokens", {"max_tokens": 400}, (400, 20, 133)),
        ("characters", {}, (720, 80, 240)),
        ("characters", {"max_tokens": 100, "child_tokens": 50}, (100, 25, 50)),
    ],
)
def test_defaults_follow_the_unit_and_the_limit(unit, given, expected):
    settings = ChunkingSettings(unit=unit, **given)
    assert (settings.max_tokens, settings.overlap_tokens, settings.child_limit) == expected


def test_a_limit_in_characters_counts_code_points_and_tokens_are_told_all_the_same():
    chunking = ChunkingSettings(strategy="fixed_size", unit="characters", max_tokens=50, overlap_tokens=10)
    chunks = chunk_document(Document("a", "a", "text/plain", "漢字仮名。" * 60), chunking)
    assert max(len(chunk.text) for chunk in chunks) <= 50
    assert all(chunk.tokens > len(chunk.text) for chunk in chunks)


@pytest.mark.parametrize(
    ("chunking", "said"),
    [
        ({"child_tokens": 300}, r"chunking: child_tokens 300 must be at most max_tokens 180"),
        ({"child_tokens": 2}, r"chunking\.child_tokens: 2 is not allowed; .* 8"),
        ({"unit": "words"}, r"chunking\.unit: 'words' is not allowed; .*'tokens' or 'characters'"),
        ({"break_percentile": 80}, r"chunking\.break_percentile: 80 is not allowed; .* 50"),
        ({"by_glob": [{"strategy": "markdown"}]}, r"chunking\.by_glob\.0\.glob: is required"),
        (
            {"by_glob": [{"glob": "a**b"}]},
            r"chunking\.by_glob\.0\.glob: 'a\*\*b' is no glob; \*\* stands alone between slashes, as in docs/\*\*/\*\.md",
        ),
        ({"by_glob": [{"glob": " "}]}, r"chunking\.by_glob\.0\.glob: a blank glob matches nothing; .*"),
        (
            {"by_glob": [{"glob": "*", "strategy": "code"}]},
            r"chunking\.by_glob\.0\.strategy: 'code' is not allowed; .*",
        ),
        (
            {"by_glob": [{"glob": "*", "max_tokens": 30}], "overlap_tokens": 20},
            r"chunking\.by_glob\.0: overlap_tokens 20 must be at most half of max_tokens 30",
        ),
        (
            {"by_glob": [{"glob": "*", "by_glob": []}]},
            r"chunking\.by_glob\.0\.by_glob: unknown key; .*",
        ),
        ({"by_glob": {"glob": "*"}}, r"chunking\.by_glob: .* is not allowed; it is a list.*"),
    ],
)
def test_a_bad_setting_is_told_with_its_key(tmp_path, chunking, said):
    path = tmp_path / "corpora.yaml"
    path.write_text(f"corpora: {{docs: {{source: docs, chunking: {chunking!r}}}}}", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert re.fullmatch(re.escape(f"{path}: corpora.docs.") + said, str(caught.value)), str(caught.value)
