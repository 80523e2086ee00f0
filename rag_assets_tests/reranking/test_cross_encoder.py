"""Against a tiny model that counts the words that question and passage share."""

import math
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rag_assets.config import CrossEncoderRerank
from rag_assets.errors import ProviderError
from rag_assets.reranking import cross_encoder
from rag_assets.reranking.cross_encoder import CrossEncoderReranker
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.reranking.tiny_cross_encoder import write_cross_encoder

WORDS = ["cat", "dog", "sleeps", "barks"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cross_encoder(tmp_path / "tiny", WORDS)


def reranker(folder: Path, **keys: object) -> CrossEncoderReranker:
    settings = {"provider": "cross_encoder", "folder": str(folder), "scores": "logit", **keys}
    return CrossEncoderReranker(CrossEncoderRerank.model_validate(settings))


def scores(one: CrossEncoderReranker, question: str, *texts: str) -> list[float]:
    return list(one.rerank(question, [passage(text) for text in texts]).scores)


def test_question_and_passage_are_read_together(folder: Path):
    assert scores(reranker(folder), "cat sleeps", "dog barks", "cat barks", "cat sleeps sleeps") == [0, 1, 3]


def test_scores_are_by_default_between_0_and_1(folder: Path):
    found = scores(reranker(folder, scores="sigmoid"), "cat", "dog", "cat cat")
    assert found == pytest.approx([0.5, 1 / (1 + math.exp(-2))])


def test_a_sigmoid_does_not_overflow(tmp_path: Path):
    folder = write_cross_encoder(tmp_path / "sure", WORDS, factor=-1e6)
    assert scores(reranker(folder, scores="sigmoid"), "cat", "cat") == [0.0]


def test_of_two_classes_the_second_is_the_relevant_one(tmp_path: Path):
    folder = write_cross_encoder(tmp_path / "two", WORDS, classes=2)
    assert scores(reranker(folder), "cat", "cat", "dog") == [2, 0]


def test_a_model_of_more_classes_is_refused(tmp_path: Path):
    folder = write_cross_encoder(tmp_path / "three", WORDS, classes=3)
    with pytest.raises(ProviderError, match="gives 3 numbers for a pair, and a cross-encoder gives one"):
        scores(reranker(folder), "cat", "cat")


def test_a_model_that_wants_something_else_is_refused(tmp_path: Path):
    inputs = ["input_ids", "attention_mask", "token_type_ids", "pixel_values"]
    folder = write_cross_encoder(tmp_path / "image", WORDS, inputs=inputs)
    with pytest.raises(ProviderError, match=r"wants pixel_values as input, and is given attention_mask, input_ids, "):
        scores(reranker(folder), "cat", "cat")


def test_a_long_passage_scores_as_its_best_window(folder: Path):
    """16 tokens hold the question, three marks and 12 words of the passage."""
    one = reranker(folder, max_tokens=16)
    far = " ".join(["dog"] * 30 + ["cat"] * 3 + ["dog"] * 30)
    assert scores(one, "cat", far, "cat cat", "dog " * 100) == [3, 2, 0]


def test_a_long_question_is_cut_and_that_is_told(folder: Path):
    one = reranker(folder, max_tokens=16)
    reranked = one.rerank("dog " * 8 + "cat", [passage("cat"), passage("dog")])
    assert reranked.scores == [0, 8]
    assert [note.split("/")[-1] for note in reranked.notes] == ["model.onnx read the first 8 tokens of the question."]


def test_company_and_threads_do_not_change_a_score(folder: Path):
    texts = ["cat", "dog dog dog dog cat", "", "nothing known", "cat " * 300]
    together = scores(reranker(folder, threads=3), "cat dog", *texts)
    assert together == [scores(reranker(folder, threads=1), "cat dog", text)[0] for text in texts]


def test_lone_surrogates_are_taken(folder: Path):
    assert scores(reranker(folder), "\ud800 cat", "cat \udfff") == [1]


def test_it_stops_itself_at_its_time_limit(folder: Path):
    with pytest.raises(TimeoutError):
        scores(reranker(folder, timeout_seconds=1e-9), "cat", "cat", "dog")


def test_the_identity_is_that_of_the_files_wherever_they_lie(folder: Path, tmp_path: Path):
    before = reranker(folder).identity
    assert reranker(folder.rename(tmp_path / "moved"), threads=2).identity == before
    assert reranker(tmp_path / "moved", max_tokens=99).identity != before
    write_cross_encoder(tmp_path / "moved", WORDS, factor=2)
    assert reranker(tmp_path / "moved").identity != before


def test_a_model_that_is_replaced_is_loaded_anew(folder: Path):
    assert scores(reranker(folder), "cat", "cat") == [1]
    write_cross_encoder(folder, WORDS, factor=2)
    assert scores(reranker(folder), "cat", "cat") == [2]


def test_the_network_may_lie_where_the_hub_has_it(tmp_path: Path):
    folder = write_cross_encoder(tmp_path / "hub", WORDS, file="onnx/model.onnx")
    write_cross_encoder(folder, WORDS, file="onnx/model_int8.onnx", factor=3)
    assert scores(reranker(folder), "cat", "cat") == [1]
    assert scores(reranker(folder, file="onnx/model_int8.onnx"), "cat", "cat") == [3]


def test_what_is_missing_or_broken_is_told(folder: Path):
    with pytest.raises(ProviderError, match=r"other\.onnx is no file; check rerank\.folder .* holds model\.onnx\."):
        reranker(folder, file="other.onnx").load()
    with pytest.raises(ProviderError, match=r"no-such/model\.onnx is no file; .* The folder holds no \.onnx file\."):
        reranker(folder / "no-such").load()
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ProviderError, match=r"model\.onnx cannot be loaded: "):
        reranker(folder).load()
    write_cross_encoder(folder, WORDS, factor=7)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ProviderError, match=r"tokenizer\.json cannot be read: "):
        reranker(folder).load()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ProviderError, match=r"tokenizer\.json cannot be read: No such file.*; check rerank\.folder"):
        reranker(folder).load()


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a download asks for."""

    root: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def _reply(self, *, with_body: bool) -> None:
        self.asked.append(self.path)
        _, _, name = self.path.partition("/acme/tiny/resolve/main/")
        file = self.root / name
        if not name or not file.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound" if name else "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = file.read_bytes()
        self.send_response(200)
        headers: dict[str, Any] = {"ETag": f'"{sha256(data).hexdigest()}"', "X-Repo-Commit": "c" * 40}
        for header, value in {**headers, "Content-Length": len(data)}.items():
            self.send_header(header, str(value))
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the hub holds of `acme/tiny`."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(Hub, "root", tmp_path / "hub", raising=False)
    monkeypatch.setattr(Hub, "asked", [], raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    cross_encoder._download.cache_clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield tmp_path / "hub"
        server.shutdown()
        thread.join()


def from_hub(model: str, **keys: object) -> CrossEncoderReranker:
    settings = {"provider": "cross_encoder", "model": model, "scores": "logit", **keys}
    return CrossEncoderReranker(CrossEncoderRerank.model_validate(settings))


def test_a_model_of_the_hub_is_downloaded_once(hub: Path):
    write_cross_encoder(hub, WORDS, file="onnx/model.onnx")
    (hub / "onnx/model.onnx_data").write_bytes(b"weights")
    one = from_hub("acme/tiny")
    assert scores(one, "cat", "cat cat") == [2]
    assert one.name == "cross_encoder/acme/tiny"
    files = one.identity["files"]
    assert isinstance(files, dict)
    assert set(files) == {"onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"}
    asked = len(Hub.asked)
    cross_encoder._download.cache_clear()  # as in another process
    assert scores(from_hub("acme/tiny"), "cat", "cat") == [1]
    assert len(Hub.asked) == asked


def test_a_model_that_the_hub_has_not_is_told(hub: Path):
    hub.mkdir()
    with pytest.raises(
        ProviderError, match=r"rerank\.model acme/none cannot be had from the hub: \w+: .*rerank\.folder"
    ):
        from_hub("acme/none").load()


def test_a_model_without_a_network_in_onnx_is_told(hub: Path):
    write_cross_encoder(hub, WORDS, file="model.bin")
    with pytest.raises(ProviderError, match=r"has no model\.onnx or onnx/model\.onnx on the hub; .* rerank\.file"):
        from_hub("acme/tiny").load()


def test_without_the_package_of_the_hub_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ProviderError, match=r"acme/other is a name on the hub, .* pip install 'rag-assets\[rerank\]'"):
        from_hub("acme/other").load()
