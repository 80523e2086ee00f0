from pathlib import Path

import pytest

from rag_assets.answering import prompts
from rag_assets.answering.prompts import read_prompts
from rag_assets.errors import ConfigError


def test_what_is_filled_in_is_not_filled_in_again():
    filled = read_prompts().fill("question", boundary="b", sources="costs $question", question="Why $sources?")
    assert "costs $question" in filled
    assert filled.endswith("Question: Why $sources?")


def test_the_version_follows_the_wording(monkeypatch):
    before = read_prompts().version
    assert len(before) == 12
    assert before == read_prompts().version
    monkeypatch.setattr(prompts, "_read", lambda name: f"another {name}")
    assert read_prompts().version != before


def test_a_folder_replaces_the_prompts_that_it_holds(tmp_path: Path):
    (tmp_path / "system.md").write_text("Answer for $$5, or say NOT_IN_SOURCES.\n")
    (tmp_path / "notes.txt").write_text("no prompt")
    ours, theirs = read_prompts(), read_prompts(str(tmp_path))
    assert theirs.fill("system") == "Answer for $5, or say NOT_IN_SOURCES."
    assert theirs.texts["question"] == ours.texts["question"]
    assert theirs.version != ours.version
    (tmp_path / "system.md").write_text(ours.texts["system"])
    assert read_prompts(str(tmp_path)).version == ours.version, "what counts is what they say, not where they are"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("system", "Answer.", "must tell the model to reply with NOT_IN_SOURCES"),
        ("system", "NOT_IN_SOURCES $question", r"\$question is no place of this prompt; places are none"),
        ("question", "$boundary $sources", r"\$question is missing; its places are \$boundary, \$question, \$sources"),
        ("question", "$boundary $sources $question $extra", r"\$extra is no place .* is written \$\$"),
        ("question", "$boundary $sources $question costs $5", r"holds a \$ that begins no place"),
        ("rewrite", "$boundary $question", r"\$conversation is missing"),
        ("sytem", "Answer.", "is no prompt that can be replaced; allowed: system.md, question.md, rewrite.md"),
    ],
)
def test_a_prompt_that_cannot_work_is_named_with_its_remedy(tmp_path: Path, name: str, text: str, complaint: str):
    (tmp_path / f"{name}.md").write_text(text)
    with pytest.raises(ConfigError, match=f"{name}.md: {complaint}"):
        read_prompts(str(tmp_path))


def test_a_folder_that_is_not_there_or_holds_none_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nowhere: prompts cannot be read from it \(No such file or directory\)"):
        read_prompts(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"holds no prompt; generation\.prompts names a folder with system\.md"):
        read_prompts(str(tmp_path))
    (tmp_path / "system.md").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="cannot be read from it"):
        read_prompts(str(tmp_path))
