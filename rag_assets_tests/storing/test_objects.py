import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from rag_assets.errors import StoreError
from rag_assets.storing import objects as module
from rag_assets.storing.leases import BEAT_SECONDS, EXPIRES_SECONDS
from rag_assets.storing.objects import Objects, Stored, require_safe_commits
from rag_assets.storing.stores import Store
from rag_assets_tests.reading.bucket import S3Server


@pytest.fixture
def objects(bucket_home: str) -> Objects:
    return Objects(bucket_home)


def content(found: Stored | None) -> bytes | None:
    return found.data if found else None


def test_an_object_is_put_read_and_deleted(objects: Objects):
    assert objects.get("a/b.json") is None
    assert objects.modified("a/b.json") is None
    objects.put("a/b.json", b"one")
    objects.put("a/b.json", b"two")
    assert content(objects.get("a/b.json")) == b"two"
    moment = objects.modified("a/b.json")
    assert moment is not None
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)
    objects.delete("a/b.json")
    objects.delete("a/b.json")
    assert objects.get("a/b.json") is None


def test_of_two_who_create_an_object_one_does(objects: Objects):
    assert objects.create("x", b"mine") is not None
    assert objects.create("x", b"yours") is None
    assert content(objects.get("x")) == b"mine"


def test_an_object_is_updated_by_who_has_seen_its_content(objects: Objects):
    first = objects.create("x", b"1")
    assert first is not None
    second = objects.update("x", b"2", first)
    assert second is not None
    assert objects.update("x", b"3", first) is None
    found = objects.get("x")
    assert found is not None
    assert (found.data, found.mark["e_tag"]) == (b"2", second["e_tag"])
    objects.delete("x")
    assert objects.update("x", b"4", second) is None, "an object that is gone is not there to be updated"


def test_a_put_that_is_sent_twice_because_its_answer_was_lost_counts_once(objects: Objects):
    """obstore sends again what was not answered, and the second is refused because of the first."""
    first = objects.create("x", b"mine")
    assert first is not None
    assert objects.create("x", b"mine") == first
    second = objects.update("x", b"next", first)
    assert second is not None
    assert objects.update("x", b"next", first) == second


def test_folders_and_sizes_are_listed(objects: Objects):
    for path, data in (("c/one/a", b"12"), ("c/two/b", b"345"), ("d", b"6")):
        objects.put(path, data)
    assert objects.folders("c") == ["one", "two"]
    assert objects.folders() == ["c"]
    assert objects.folders("nowhere") == []
    assert (objects.size("c"), objects.size()) == (5, 6)


def test_a_store_that_keeps_to_conditions_is_taken_and_left_clean(objects: Objects):
    require_safe_commits(objects)
    assert objects.size() == 0


@pytest.fixture
def careless() -> Iterator[S3Server]:
    if any(find_spec(name) is None for name in ("moto", "flask", "obstore")):
        pytest.skip("no S3 server: pip install '.[dev]'")
    with S3Server(conditions=False) as server:
        yield server


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_written(
    careless: S3Server, monkeypatch: pytest.MonkeyPatch
):
    for name, value in careless.environment.items():
        monkeypatch.setenv(name, value)
    store = Store(f"s3://{careless.bucket('careless').name}/store")
    with (
        pytest.raises(StoreError, match=r"does not keep to the conditions of a put .* Amazon S3"),
        store.lock("publish.notes"),
    ):
        raise AssertionError("the lock was had")
    assert store.objects is not None
    assert store.objects.size() == 0


def test_a_clock_that_is_far_off_is_refused(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    class Late(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Late":
            return cls.fromtimestamp(datetime.now(UTC).timestamp() - 300, UTC)

    monkeypatch.setattr(module, "datetime", Late)
    with pytest.raises(
        StoreError, match=r"the clock of this machine and that of s3://.* differ by (299|300|301) seconds"
    ):
        require_safe_commits(objects)


def test_a_server_that_is_not_there_is_told_with_what_to_check(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server):
    for name, value in {**s3_server.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "_RETRIES", {"max_retries": 0})
    with pytest.raises(StoreError, match=r"s3://nobody/store cannot be reached \(.*check RAG_ASSETS_HOME, the network"):
        Objects("s3://nobody/store").get("x")


def test_a_server_without_tls_is_told_with_the_variable_that_allows_it(
    bucket_home: str, monkeypatch: pytest.MonkeyPatch
):
    """Asked plainly, the library says no more than `builder error`."""
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError, match=r"cannot be reached .* a server without TLS needs AWS_ALLOW_HTTP=true"):
        Objects(bucket_home).get("x")


def test_a_bucket_that_is_not_there_is_told(bucket_home: str):
    with pytest.raises(
        StoreError, match=r"s3://no-such-bucket/store cannot be reached \(The specified bucket does not exist\)"
    ):
        Objects("s3://no-such-bucket/store").put("x", b"")


def test_a_bucket_that_is_not_there_is_not_taken_for_a_store_that_ignores_conditions(bucket_home: str):
    """A put into no bucket fails as one does whose condition is not met."""
    with pytest.raises(StoreError, match=r"cannot be reached \(The specified bucket does not exist\)"):
        require_safe_commits(Objects("s3://no-such-bucket/store"))
    with pytest.raises(StoreError, match=r"cannot be reached \(The specified bucket does not exist\)"):
        Objects("s3://no-such-bucket/store").get("x")


def test_an_address_that_is_none_is_told(bucket_home: str):
    with pytest.raises(StoreError, match=r"gopher://x cannot be opened .*allowed are s3://, gs:// and az://"):
        Objects("gopher://x").get("x")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    for uri, extra in (("s3://bucket/store", "s3"), ("gs://bucket/store", "gcs"), ("az://bucket/store", "azure")):
        with pytest.raises(StoreError, match=rf"{uri} needs a package .*: pip install 'rag-assets\[{extra}\]'"):
            Objects(uri).get("x")
        with pytest.raises(StoreError, match="needs a package"), Store(uri).lock("publish.notes"):
            raise AssertionError("the lock was had")


def test_a_client_that_makes_no_conditional_puts_is_told_as_a_store_without_them(
    bucket_home: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    with pytest.raises(StoreError, match="does not keep to the conditions of a put"):
        require_safe_commits(Objects(bucket_home))


def test_a_request_that_hangs_is_over_before_a_lock_expires():
    """A beat that waited for a dead connection lost the lock of a living holder: 30 s against 20."""
    longest = module._PATIENCE["timeout"] + module._RETRIES["retry_timeout"]
    assert longest + timedelta(seconds=BEAT_SECONDS) <= timedelta(seconds=EXPIRES_SECONDS)


@pytest.mark.parametrize("named", ["", "127.0.0.1:9000", "http://"])
def test_the_address_of_a_server_that_is_none_is_told(bucket_home: str, monkeypatch: pytest.MonkeyPatch, named: str):
    """obstore and Lance panicked, with a backtrace."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", named)
    with pytest.raises(StoreError, match=r"AWS_ENDPOINT_URL '.*' is no address of a server; write http://host:port"):
        Objects(bucket_home).get("x")


def test_credentials_of_a_profile_are_found(bucket_home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Lance reads them by itself; obstore asked the network of the machine for a role."""
    pytest.importorskip("botocore")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text("[work]\naws_access_key_id = someone\naws_secret_access_key = knows\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "work")
    objects = Objects(bucket_home)
    objects.put("x", b"1")
    assert content(objects.get("x")) == b"1"
