"""The fake speaks the protocol that the `openai` client expects, and refuses what OpenAI refuses."""

from collections.abc import Iterator

import openai
import pytest

from rag_assets_tests.fakes import FakeOpenAI


@pytest.fixture
def client(fake: FakeOpenAI) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=fake.base_url, api_key="k", max_retries=0) as made:
        yield made


def test_floats_and_base64_are_the_same_numbers(client: openai.OpenAI):
    coded = client.embeddings.create(model="m", input="the cat", dimensions=8)
    plain = client.embeddings.create(model="m", input="the cat", dimensions=8, encoding_format="float")
    assert coded.data[0].embedding == pytest.approx(plain.data[0].embedding)


@pytest.mark.parametrize(
    "texts",
    [[], [""], ["ok", " \n"], ["x"] * 2049, ["word " * 9000], ["word " * 6000] * 45],
    ids=["none", "empty", "blank", "too-many", "too-long", "too-much"],
)
def test_what_openai_refuses_is_refused_and_not_counted(client: openai.OpenAI, fake: FakeOpenAI, texts: list[str]):
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="m", input=texts)
    assert fake.embedded_texts == []


def test_a_chat_is_answered_whole_or_in_pieces(client: openai.OpenAI, fake: FakeOpenAI):
    fake.chat_reply = lambda messages: f"You said {messages[-1]['content']}"
    whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello there"}])
    assert whole.choices[0].message.content == "You said hello there"
    assert whole.usage is not None
    assert whole.usage.total_tokens == 7
    with client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "hello there"}],
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert [piece for piece in pieces if piece] == ["You ", "said ", "hello ", "there"]
    assert chunks[-1].usage == whole.usage


def test_a_failure_is_for_the_path_it_was_asked_for(client: openai.OpenAI, fake: FakeOpenAI):
    fake.fail_next(503, path="/chat/completions")
    client.embeddings.create(model="m", input="a")
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
    assert [request.path for request in fake.requests] == ["/v1/embeddings", "/v1/chat/completions"]


def test_a_wrong_key_is_refused_when_there_is_a_right_one(client: openai.OpenAI, fake: FakeOpenAI):
    fake.api_key = "right"
    with pytest.raises(openai.AuthenticationError):
        client.embeddings.create(model="m", input="a")
