import pytest

from rag_assets.config import OpenAIEmbedding
from rag_assets.errors import ProviderError, StoreError
from rag_assets.generations import generation_of
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.workbench import Workbench


@pytest.fixture
def paid(bench: Workbench, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """A workbench whose provider counts, two texts a request, at a dollar a million tokens."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    bench.configure(
        embedding=OpenAIEmbedding(
            provider="openai",
            model="fake",
            base_url=fake.base_url,
            max_inputs_per_request=2,
            max_retries=0,
            concurrency=1,
            usd_per_million_tokens=1.0,
        )
    )
    return bench


def prepare(bench: Workbench, **documents: str) -> list[str]:
    names = [f"{name}.md" for name in documents]
    for name, text in documents.items():
        bench.write(f"{name}.md", text)
    bench.read(*names)
    bench.chunk(*names)
    return names


def test_a_text_is_embedded_once_in_whatever_documents_it_stands(paid: Workbench, fake: FakeOpenAI):
    names = prepare(paid, a="same\n\nonly a\n\nsame", b="same\n\nonly b")
    report = paid.embed(*names)
    assert sorted(fake.embedded_texts) == ["only a", "only b", "same"]
    assert {name: figures["texts_embedded"] for name, figures in report.documents.items()} == {"a.md": 2, "b.md": 1}
    assert {name: figures["texts_reused"] for name, figures in report.documents.items()} == {"a.md": 0, "b.md": 1}


def test_what_was_embedded_is_not_embedded_again(paid: Workbench, fake: FakeOpenAI):
    paid.embed(*prepare(paid, a="one\n\ntwo"))
    paid.embed("a.md")
    paid.embed(*prepare(paid, a="one\n\nzero\n\ntwo", b="two"))
    assert sorted(fake.embedded_texts) == ["one", "two", "zero"]


def test_the_bill_is_shared_out_by_document(paid: Workbench):
    report = paid.embed(*prepare(paid, a="x" * 40, b="y" * 80))
    tokens = {name: paid.known[name].tokens_embedded or 0 for name in report.documents}
    assert report.total("tokens_embedded") == 30
    assert report.total("cost_usd") == pytest.approx(30e-6)
    assert sum(tokens.values()) == 30
    assert tokens["a.md"] < tokens["b.md"]
    assert paid.known["a.md"].cost_usd == report.documents["a.md"]["cost_usd"]


def test_a_failure_in_the_middle_costs_the_request_in_flight_and_no_more(paid: Workbench, fake: FakeOpenAI):
    names = prepare(paid, a="one\n\ntwo\n\nthree\n\nfour")
    real = fake.refuse_inputs

    def fail_second(texts: list[str]) -> object:
        if fake.embedded_texts:
            raise ConnectionResetError
        return real(texts)

    fake.refuse_inputs = fail_second  # type: ignore[method-assign, assignment]
    with pytest.raises(ProviderError):
        paid.embed(*names)
    assert len(fake.embedded_texts) == 2
    fake.refuse_inputs = real  # type: ignore[method-assign]
    paid.embed(*names)
    assert sorted(fake.embedded_texts) == ["four", "one", "three", "two"]


def test_a_text_that_is_refused_sets_its_documents_aside_and_the_others_go_on(paid: Workbench, fake: FakeOpenAI):
    names = prepare(paid, a="good\n\npoison", b="fine", c="poison")
    fake.refuse_texts_with("poison")
    report = paid.embed(*names)
    assert set(report.failed) == {"a.md", "c.md"}
    assert set(report.documents) == {"b.md"}
    known = paid.known["a.md"]
    assert (known.status, known.stage, known.retryable, known.attempts) == ("failed", "embed", True, 1)
    assert "content filter" in (known.reason or "")
    assert sorted(fake.embedded_texts) == ["fine", "good"]
    fake.recover()
    paid.materialize("a.md", "c.md")
    assert sorted(fake.embedded_texts) == ["fine", "good", "poison"]
    assert (paid.known["a.md"].status, paid.known["a.md"].attempts) == ("indexed", 0)


def test_a_refused_text_is_counted_at_each_try_of_the_whole_document(paid: Workbench, fake: FakeOpenAI):
    fake.refuse_texts_with("poison")
    paid.write("a.md", "poison")
    for attempts in (1, 2, 3):
        paid.materialize("a.md")
        assert (paid.known["a.md"].stage, paid.known["a.md"].attempts) == ("embed", attempts)
    paid.write("a.md", "another poison")
    paid.materialize("a.md")
    assert paid.known["a.md"].attempts == 1


def test_a_document_without_text_sends_nothing(paid: Workbench, fake: FakeOpenAI):
    report = paid.embed(*prepare(paid, a=" \n "))
    nothing = {"texts_embedded": 0, "texts_reused": 0, "tokens_embedded": 0, "cost_usd": 0.0}
    assert report.documents["a.md"] == {"title": "a", **nothing}
    assert fake.requests == []


def test_a_model_that_changes_its_size_is_refused_before_any_write(paid: Workbench, fake: FakeOpenAI):
    paid.embed(*prepare(paid, a="one"))
    fake.dimensions = 32
    with pytest.raises(StoreError, match=r"returned vectors of 32 dimensions, and .* holds vectors of 64"):
        paid.embed(*prepare(paid, b="two"))
    assert paid.store.vectors(generation_of(paid.corpus).embedding).count() == 1
