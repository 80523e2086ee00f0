import threading
from typing import Any

import pytest

from rag_assets.errors import StoreError
from rag_assets.storing import shared_values
from rag_assets.storing.objects import Objects
from rag_assets.storing.shared_values import SharedValue


@pytest.fixture
def objects(bucket_home: str) -> Objects:
    return Objects(bucket_home)


def count_up(value: dict[str, Any]) -> int:
    value["count"] = value.get("count", 0) + 1
    return int(value["count"])


def test_what_two_change_in_turns_holds_both_changes(objects: Objects):
    one, other = SharedValue(objects, "v.json"), SharedValue(objects, "v.json")
    assert [value.change(count_up) for value in (one, other, one, other)] == [1, 2, 3, 4]


def test_of_many_who_change_at_once_nothing_is_lost(objects: Objects):
    def work() -> None:
        value = SharedValue(objects, "v.json")
        for _ in range(5):
            value.change(count_up)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert SharedValue(objects, "v.json").change(count_up) == 21


def test_who_is_alone_makes_one_request_a_change(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    value = SharedValue(objects, "v.json")
    value.change(count_up)
    monkeypatch.setattr(Objects, "get", lambda *_: pytest.fail("looked"))
    assert value.change(count_up) == 2


def test_what_changes_nothing_sees_the_latest_and_puts_nothing(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    one, other = SharedValue(objects, "v.json"), SharedValue(objects, "v.json")
    one.change(count_up)
    other.change(count_up)
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "update", lambda *_: pytest.fail("put"))
        assert one.change(lambda value: value["count"]) == 2
    assert one.change(count_up) == 3, "and what it saw is not put over what came since"


@pytest.mark.parametrize("content", [b"rubbish", b"[1]"])
def test_a_damaged_value_is_empty(objects: Objects, content: bytes):
    objects.put("v.json", content)
    assert SharedValue(objects, "v.json").change(count_up) == 1


def test_who_never_wins_gives_up_with_an_error(objects: Objects, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_values, "_LONGEST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(Objects, "create", lambda *_: None)
    with pytest.raises(StoreError, match=r"v\.json was changed by others 100 times in a row"):
        SharedValue(objects, "v.json").change(count_up)
