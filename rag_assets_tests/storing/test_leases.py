"""Locks between machines, on an S3 server; each `Silence` is what one machine has seen."""

import logging
import subprocess
import sys
import threading
import time

import pytest

from rag_assets.errors import StoreError
from rag_assets.storing import leases
from rag_assets.storing.leases import Silence, is_held, lease
from rag_assets.storing.objects import Objects


@pytest.fixture
def objects(bucket_home: str, monkeypatch: pytest.MonkeyPatch) -> Objects:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(leases, "EXPIRES_SECONDS", 1.5)
    monkeypatch.setattr(leases, "_silence", Silence())
    return Objects(bucket_home)


def test_one_at_a_time_holds_a_lock(objects: Objects):
    with lease(objects, "a"):
        assert is_held(objects, "a")
        told = r"another process \(process \d+ on .*\) holds s3://.*/locks/a\.json"
        with pytest.raises(TimeoutError, match=told), lease(objects, "a", timeout_seconds=0):
            raise AssertionError("had twice")
        with lease(objects, "b", timeout_seconds=0):
            pass
    assert not is_held(objects, "a")
    with lease(objects, "a", timeout_seconds=0):
        pass


def test_many_who_want_a_lock_have_it_one_after_the_other(objects: Objects):
    inside = 0
    most = 0
    had = 0

    def work() -> None:
        nonlocal inside, most, had
        for _ in range(4):
            with lease(objects, "a"):
                inside += 1
                most = max(most, inside)
                had += 1
                time.sleep(0.005)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, had) == (1, 16)


def test_a_lock_that_is_held_for_long_stays_held(objects: Objects):
    with lease(objects, "a"):
        until = time.monotonic() + 2 * leases.EXPIRES_SECONDS
        while time.monotonic() < until:
            with pytest.raises(TimeoutError), lease(objects, "a", timeout_seconds=0.2):
                raise AssertionError("taken from a living holder")


def test_the_lock_of_a_process_that_was_killed_is_taken_over(objects: Objects):
    code = (
        "import sys, time; from rag_assets.storing.leases import lease; from rag_assets.storing.objects import Objects\n"
        "with lease(Objects(sys.argv[1]), 'a'):\n    print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, objects.uri], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert is_held(objects, "a")
    holder.kill()
    holder.communicate()
    with pytest.raises(TimeoutError), lease(objects, "a", timeout_seconds=0):
        raise AssertionError("nobody can know yet that it is dead")
    with lease(objects, "a", timeout_seconds=60):
        assert is_held(objects, "a")


def test_looks_that_are_far_apart_add_up(objects: Objects):
    """The sensor never waits: it asks at each tick, and remembers what it saw."""
    objects.put("locks/a.json", b'{"holder": "the dead", "owner": "x", "nonce": "y"}')
    with pytest.raises(TimeoutError), lease(objects, "a", timeout_seconds=0):
        raise AssertionError("taken at first sight")
    time.sleep(leases.EXPIRES_SECONDS + 0.1)
    with lease(objects, "a", timeout_seconds=0):
        pass


def test_who_was_silent_for_too_long_is_told_that_the_lock_was_lost(
    objects: Objects, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leases, "BEAT_SECONDS", 600)
    with caplog.at_level(logging.WARNING), lease(objects, "a"), lease(objects, "a", timeout_seconds=60):
        assert is_held(objects, "a")
    assert "the lock s3://" in caplog.text
    assert "is lost: this process was silent" in caplog.text


def test_a_beat_whose_answer_was_lost_does_not_lose_the_lock(
    objects: Objects, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    lost = threading.Event()
    update = Objects.update

    def forgetful(self: Objects, path: str, data: bytes, mark: object) -> object:
        done = update(self, path, data, mark)  # type: ignore[arg-type]
        if not lost.is_set():
            lost.set()
            raise StoreError("the connection was cut")
        return done

    with caplog.at_level(logging.WARNING), lease(objects, "a"):
        monkeypatch.setattr(Objects, "update", forgetful)
        assert lost.wait(30)
        monkeypatch.setattr(Objects, "update", update)
        time.sleep(3 * leases.BEAT_SECONDS)
        assert is_held(objects, "a")
    assert caplog.text == ""
    assert not is_held(objects, "a")


def test_a_lock_with_a_content_that_is_none_of_ours_is_waited_for_and_taken(objects: Objects):
    objects.put("locks/a.json", b"rubbish")
    with pytest.raises(TimeoutError, match="unknown"), lease(objects, "a", timeout_seconds=0):
        raise AssertionError("taken at first sight")
    with lease(objects, "a", timeout_seconds=60):
        pass
