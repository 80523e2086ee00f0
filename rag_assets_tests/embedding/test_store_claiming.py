"""Claims between machines, on an S3 server. Machines share nothing else: each owner here has its own view."""

import subprocess
import sys
import threading
from collections.abc import Collection

import pytest

from rag_assets.embedding.batching import embed_all
from rag_assets.embedding.store_claiming import StoreClaims
from rag_assets.errors import StoreError
from rag_assets.storing import leases
from rag_assets.storing.leases import Silence
from rag_assets.storing.objects import Objects
from rag_assets_tests.embedding.test_claiming import Sending, Shared, nothing_known


@pytest.fixture
def objects(bucket_home: str, monkeypatch: pytest.MonkeyPatch) -> Objects:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(leases, "EXPIRES_SECONDS", 1.5)
    monkeypatch.setattr(leases, "_silence", Silence())
    monkeypatch.setattr("rag_assets.embedding.store_claiming.BEAT_SECONDS", 0.1)
    monkeypatch.setattr(StoreClaims, "poll_seconds", 0.05)
    return Objects(bucket_home)


def test_a_text_is_claimed_by_one_at_a_time(objects: Objects):
    with (
        StoreClaims(objects, "t", nothing_known) as one,
        StoreClaims(objects, "t", nothing_known) as other,
        StoreClaims(objects, "u", nothing_known) as stranger,
    ):
        assert one.claim(["a", "b"]).mine == {"a", "b"}
        assert other.claim(["b", "c"]).mine == {"c"}
        assert one.claim(["a", "b"]).mine == {"a", "b"}
        assert stranger.claim(["a"]).mine == {"a"}
        one.release(["b"])
        one.claim(["d"])
        assert other.claim(["a", "b", "d"]).mine == {"b"}


def test_who_ends_leaves_no_claim_and_no_lock(objects: Objects):
    with StoreClaims(objects, "t", nothing_known) as one:
        one.claim(["a"])
    with StoreClaims(objects, "t", nothing_known) as other:
        assert other.claim(["a"]).mine == {"a"}
    assert objects.size("locks") == 0


def test_claims_of_a_process_that_was_killed_are_void_and_its_lock_goes(objects: Objects):
    code = (
        "import sys, time; from rag_assets.embedding.store_claiming import StoreClaims\n"
        "from rag_assets.storing.objects import Objects\n"
        "with StoreClaims(Objects(sys.argv[1]), 't', lambda keys: ()) as claims:\n"
        "    claims.claim(['a']); print('claimed', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, objects.uri], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "claimed\n"
    with StoreClaims(objects, "t", nothing_known) as claims:
        assert claims.claim(["a"]).mine == set()
        holder.kill()
        holder.communicate()
        while not claims.claim(["a"]).mine:
            pass
    assert objects.size("locks") == 0


def test_what_another_has_finished_is_known(objects: Objects):
    done = {"a"}

    def known(keys: Collection[str]) -> Collection[str]:
        return done & set(keys)

    with StoreClaims(objects, "t", known) as one:
        assert one.claim(["z"]).known == set()
        with StoreClaims(objects, "t", known) as other:
            other.claim(["a"])
        claimed = one.claim(["a", "b"])
        assert (set(claimed.mine), set(claimed.known)) == ({"b"}, {"a"})


def test_what_another_finished_between_our_beginning_and_our_first_claim_is_known(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rag_assets.embedding.store_claiming.BEAT_SECONDS", 0.0)
    kept: set[str] = set()
    with StoreClaims(objects, "t", kept.intersection) as other:
        assert other.claim(["a"]).mine == {"a"}
        one = StoreClaims(objects, "t", kept.intersection)
        one.__enter__()
        kept.add("a")
    try:
        claimed = one.claim(["a", "b"])
        assert (set(claimed.mine), set(claimed.known)) == ({"b"}, {"a"})
    finally:
        one.__exit__(None, None, None)


def test_alone_a_claim_is_one_request_and_nobody_is_asked_what_is_known(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
):
    def known(keys: Collection[str]) -> Collection[str]:
        raise AssertionError(keys)

    with StoreClaims(objects, "t", known) as claims:
        assert claims.claim(["a"]).mine == {"a"}
        with monkeypatch.context() as patch:
            patch.setattr(Objects, "get", lambda *_: pytest.fail("looked"))
            assert claims.claim(["a", "b"]).mine == {"a", "b"}


def test_where_the_store_does_not_answer_everything_is_ours(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    def down(*_: object) -> None:
        raise StoreError("down")

    with StoreClaims(objects, "t", nothing_known) as claims:
        for method in ("get", "create", "update"):
            monkeypatch.setattr(Objects, method, down)
        assert claims.claim(["a"]).mine == {"a"}
    with StoreClaims(objects, "t", nothing_known) as claims:
        assert claims.claim(["a"]).mine == {"a"}


def test_a_damaged_book_is_begun_again(objects: Objects):
    objects.put("claims/t.json", b"no book")
    with StoreClaims(objects, "t", nothing_known) as claims:
        assert claims.claim(["a"]).mine == {"a"}


def test_machines_that_embed_the_same_texts_at_once_send_each_once(objects: Objects):
    shared = Shared()
    texts = {f"k{number}": f"text {number}" for number in range(120)}
    sent_by: list[int] = []

    def work() -> None:
        with StoreClaims(objects, "t", shared.known) as claims:
            missing = {key: text for key, text in texts.items() if key not in shared.kept}
            sent_by.append(embed_all(missing, Sending(shared), keep=shared.keep, claims=claims).embedded)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(shared.sent) == sorted(texts.values())
    assert shared.kept == set(texts)
    assert sum(sent_by) == 120


def test_who_was_taken_for_dead_claims_anew(objects: Objects):
    """Its lock was deleted, and nobody took it again: from then on every text was sent by both."""
    with StoreClaims(objects, "t", nothing_known) as one, StoreClaims(objects, "t", nothing_known) as other:
        assert one.claim(["a"]).mine == {"a"}
        _take_for_dead(objects, one)
        assert other.claim(["b"]).mine == {"b"}
        assert one.claim(["a", "b", "c"]).mine == {"a", "c"}
        assert other.claim(["a", "b", "c"]).mine == {"b"}
    assert objects.size("locks") == 0


def _take_for_dead(objects: Objects, claims: StoreClaims) -> None:
    """What others see of `claims` that were silent for too long."""
    objects.delete(f"locks/claims.t.{claims._owner}.json")


def test_what_was_finished_by_another_while_we_were_taken_for_dead_is_known(objects: Objects):
    """The other had come and gone when we claimed again; nobody was seen, and its texts were paid for once more."""
    kept: set[str] = set()
    with StoreClaims(objects, "t", kept.intersection) as one:
        assert one.claim(["a"]).mine == {"a"}
        _take_for_dead(objects, one)
        with StoreClaims(objects, "t", kept.intersection) as other:
            assert other.claim(["a", "b"]).mine == {"a", "b"}
            kept.update("ab")
        claimed = one.claim(["a", "b", "c"])
        assert (set(claimed.mine), set(claimed.known)) == ({"c"}, {"a", "b"})


def test_what_was_finished_by_another_before_we_could_begin_is_known(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    def down(*_: object) -> None:
        raise StoreError("down")

    kept: set[str] = set()
    one = StoreClaims(objects, "t", kept.intersection)
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "create", down)
        one.__enter__()
    try:
        with StoreClaims(objects, "t", kept.intersection) as other:
            assert other.claim(["a"]).mine == {"a"}
            kept.add("a")
        claimed = one.claim(["a", "b"])
        assert (set(claimed.mine), set(claimed.known)) == ({"b"}, {"a"})
    finally:
        one.__exit__(None, None, None)


def test_what_another_claimed_while_we_were_taken_for_dead_stays_with_it(objects: Objects):
    """Both had the text, so neither got it again: two that had each sent a window of it waited for each other."""
    with StoreClaims(objects, "t", nothing_known) as one, StoreClaims(objects, "t", nothing_known) as other:
        assert one.claim(["a"]).mine == {"a"}
        _take_for_dead(objects, one)
        while not other.claim(["a"]).mine:
            pass
        assert one.claim(["a", "b"]).mine == {"b"}
        assert other.claim(["a", "b"]).mine == {"a"}
        other.release(["a"])
        other.claim(["c"])
        assert one.claim(["a", "b"]).mine == {"a", "b"}
