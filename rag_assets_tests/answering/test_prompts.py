from rag_assets.answering import prompts


def test_what_is_filled_in_is_not_filled_in_again():
    filled = prompts.prompt("question", boundary="b", sources="costs $question", question="Why $sources?")
    assert "costs $question" in filled
    assert filled.endswith("Question: Why $sources?")


def test_the_version_follows_the_wording(monkeypatch):
    before = prompts.prompt_version()
    assert len(before) == 12
    assert before == prompts.prompt_version()
    monkeypatch.setattr(prompts, "_read", lambda name: f"another {name}")
    assert prompts.prompt_version() != before
