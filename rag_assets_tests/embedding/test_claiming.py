import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from rag_assets.config import HashingEmbedding
from rag_assets.embedding.batching import EmbeddingOutcome, embed_all
from rag_assets.embedding.claiming import MachineClaims
from rag_assets.embedding.hashing import HashingProvider
from rag_assets.embedding.provider import Embedded, Kind, RequestLimits, TextRefused, Vectors
from rag_assets.errors import ProviderError


def nothing_known(keys: Collection[str]) -> Collection[str]:
    return ()


def test_a_text_is_claimed_by_one_at_a_time(tmp_path: Path):
    with (
        MachineClaims("t", nothing_known, folder=tmp_path) as one,
        MachineClaims("t", nothing_known, folder=tmp_path) as other,
        MachineClaims("u", nothing_known, folder=tmp_path) as stranger,
    ):
        assert one.claim(["a", "b"]).mine == {"a", "b"}
        assert other.claim(["b", "c"]).mine == {"c"}
        assert one.claim(["a", "b"]).mine == {"a", "b"}
        assert stranger.claim(["a"]).mine == {"a"}
        one.release(["b"])
        assert other.claim(["a", "b"]).mine == {"b"}


def test_who_ends_leaves_no_claim(tmp_path: Path):
    with MachineClaims("t", nothing_known, folder=tmp_path) as one:
        one.claim(["a"])
    with MachineClaims("t", nothing_known, folder=tmp_path) as other:
        assert other.claim(["a"]).mine == {"a"}
    assert list(tmp_path.glob("*.lock")) == []


def test_claims_of_a_process_that_was_killed_are_void(tmp_path: Path):
    code = (
        "import sys, time; from pathlib import Path; from rag_assets.embedding.claiming import MachineClaims\n"
        "with MachineClaims('t', lambda keys: (), folder=Path(sys.argv[1])) as claims:\n"
        "    claims.claim(['a']); print('claimed', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "claimed\n"
    with MachineClaims("t", nothing_known, folder=tmp_path) as claims:
        assert claims.claim(["a"]).mine == set()
        holder.kill()
        holder.communicate()
        assert claims.claim(["a"]).mine == {"a"}


def test_what_another_has_finished_is_known(tmp_path: Path):
    done = {"a"}

    def known(keys: Collection[str]) -> Collection[str]:
        return done & set(keys)

    with MachineClaims("t", known, folder=tmp_path) as one:
        assert one.claim(["z"]).known == set()
        with MachineClaims("t", known, folder=tmp_path) as other:
            other.claim(["a"])
        claimed = one.claim(["a", "b"])
        assert (set(claimed.mine), set(claimed.known)) == ({"b"}, {"a"})


def test_alone_nobody_is_asked_what_is_known(tmp_path: Path):
    def known(keys: Collection[str]) -> Collection[str]:
        raise AssertionError(keys)

    with MachineClaims("t", known, folder=tmp_path) as claims:
        assert claims.claim(["a", "b"]).mine == {"a", "b"}


@pytest.mark.parametrize("kind", ["file in place of the folder", "damaged"])
def test_where_nothing_can_be_shared_everything_is_ours(tmp_path: Path, kind: str):
    folder = tmp_path
    if kind == "damaged":
        with MachineClaims("t", nothing_known, folder=folder):
            pass
        next(folder.glob("*.sqlite")).write_text("no database" * 500)
    else:
        folder = tmp_path / "file"
        folder.write_text("")
    with MachineClaims("t", nothing_known, folder=folder) as claims:
        assert claims.claim(["a"]).mine == {"a"}
        claims.release(["a"])


class Shared:
    """Where two workers keep vectors, and what was sent in all."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.sent: list[str] = []

    def known(self, keys: Collection[str]) -> Collection[str]:
        return self.kept.intersection(keys)

    def keep(self, keys: Sequence[str], vectors: Vectors, tokens: Sequence[int]) -> None:
        self.kept.update(keys)


class Sending(HashingProvider):
    """Tells what is sent, four texts a request."""

    limits = RequestLimits(inputs=4, tokens=1000, tokens_per_input=1000, concurrency=2)

    def __init__(self, shared: Shared) -> None:
        super().__init__(HashingEmbedding(provider="hashing"))
        self._shared = shared

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        self._shared.sent.extend(texts)
        return super().embed(texts, kind)


def work(shared: Shared, provider: HashingProvider, texts: dict[str, str], folder: Path) -> EmbeddingOutcome:
    with MachineClaims("t", shared.known, folder=folder) as claims:
        missing = {key: text for key, text in texts.items() if key not in shared.kept}
        return embed_all(missing, provider, keep=shared.keep, claims=claims)


def test_two_that_embed_the_same_texts_at_once_send_each_once(tmp_path: Path):
    shared = Shared()
    texts = {f"k{number}": f"text {number}" for number in range(200)}
    outcomes: list[EmbeddingOutcome] = []
    workers = [
        threading.Thread(target=lambda: outcomes.append(work(shared, Sending(shared), texts, tmp_path)))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(shared.sent) == sorted(texts.values())
    assert shared.kept == set(texts)
    assert sum(outcome.embedded for outcome in outcomes) == 200


def test_what_another_claimed_and_did_not_finish_is_sent_in_the_end(tmp_path: Path):
    shared = Shared()
    texts = {f"k{number}": f"text {number}" for number in range(12)}
    with MachineClaims("t", shared.known, folder=tmp_path) as other:
        other.claim(list(texts)[:6])
        done = threading.Thread(target=work, args=(shared, Sending(shared), texts, tmp_path))
        done.start()
        while len(shared.kept) < 6:
            assert done.is_alive()
        assert shared.kept == set(list(texts)[6:])
    done.join()
    assert shared.kept == set(texts)
    assert len(shared.sent) == 12


def test_a_refused_text_and_a_failure_leave_no_claim(tmp_path: Path):
    class Refusing(Sending):
        limits = RequestLimits(inputs=1, tokens=1000, tokens_per_input=1000)

        def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
            if texts == ["bad"]:
                raise TextRefused("no")
            if texts == ["down"]:
                raise ProviderError("down")
            return super().embed(texts, kind)

    shared = Shared()
    with pytest.raises(ProviderError):
        work(shared, Refusing(shared), {"good": "good", "bad": "bad", "down": "down"}, tmp_path)
    with MachineClaims("t", nothing_known, folder=tmp_path) as claims:
        assert claims.claim(["good", "bad", "down"]).mine == {"good", "bad", "down"}
