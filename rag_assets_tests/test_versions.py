"""Readers can be sent back to an older version, and a person can see what changed between two."""

import shutil
from typing import Any

import pytest

from rag_assets.config import load_settings
from rag_assets.defs.code_location import build_definitions
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform


@pytest.fixture
def three(platform: Platform) -> Platform:
    """Three versions: a and b; b changed and c added; a removed."""
    platform.write("a.md", "The Grimsel is closed.\n")
    platform.write("b.md", "The Furka is high.\n")
    platform.ingest()
    platform.write("b.md", "The Furka is very high.\n")
    platform.write("c.md", "Boats are for hire.\n")
    platform.ingest()
    (platform.corpus / "a.md").unlink()
    platform.ingest()
    return platform


def versions(platform: Platform) -> list[dict[str, Any]]:
    found = platform.run("versions", "--json").json["versions"]
    assert isinstance(found, list)
    return found


def texts(platform: Platform) -> list[str]:
    return sorted(row["text"] for row in platform.rows())


def test_versions_tell_what_changed_and_by_which_run(three: Platform):
    found = versions(three)
    assert [one["version"] for one in found] == [3, 2, 1]
    assert [one["changes"] for one in found] == [
        {"added": 0, "changed": 0, "removed": 1},
        {"added": 1, "changed": 1, "removed": 0},
        {"added": 2, "changed": 0, "removed": 0},
    ]
    assert [one["documents"] for one in found] == [2, 3, 2]
    assert all(one["kept"] and one["run_id"] and one["action"] == "publish" for one in found)


def test_versions_are_printed_for_people(three: Platform):
    printed = three.run("versions").out
    assert "1 added, 1 changed" in printed
    assert "1 removed" in printed
    assert printed.count("kept") == 2
    assert printed.count("shown") == 1


def test_diff_names_the_documents(three: Platform):
    assert three.run("diff", "1", "2", "--json").json == {
        "corpus": "notes",
        "from": 1,
        "to": 2,
        "added": ["c.md"],
        "changed": ["b.md"],
        "removed": [],
    }
    assert three.run("diff", "2", "1", "--json").json["removed"] == ["c.md"]
    assert three.run("diff", "1", "3").out.split() == ["+", "c.md", "~", "b.md", "-", "a.md"]
    assert three.run("diff", "3", "3").out == "no document differs\n"


class TestRollback:
    def test_readers_see_the_version_before_and_an_answer_says_which(self, three: Platform, fake: FakeOpenAI):
        sent = len(fake.embedded_texts)
        after = three.run("rollback", "--json").json
        assert (after["version"], after["action"], after["changes"]["rolled_back_to"]) == (4, "rollback", 2)
        assert texts(three) == ["Boats are for hire.", "The Furka is very high.", "The Grimsel is closed."]
        assert three.ask("Is the Grimsel closed?")["index_version"] == 4
        assert len(fake.embedded_texts) == sent + len({"anything", "Is the Grimsel closed?"})

    def test_any_kept_version_can_be_named(self, three: Platform):
        assert "readers see version 1 again, as version 4" in three.run("rollback", "1").out
        assert texts(three) == ["The Furka is high.", "The Grimsel is closed."]

    def test_a_second_rollback_goes_further_back(self, three: Platform):
        three.run("rollback")
        assert three.run("rollback", "--json").json["changes"]["rolled_back_to"] == 1
        assert "has no older version to go back to" in three.run("rollback").err

    def test_back_to_a_rollback_is_back_to_what_it_showed(self, three: Platform):
        three.run("rollback", "1")
        three.ingest()
        before = three.status()["lag_seconds"]
        three.run("rollback", "1")
        waits = three.status()["lag_seconds"]
        three.ingest()
        assert "readers see version 1 again, as version 8" in three.run("rollback", "4").out
        found = three.status()
        assert found["rolled_back_to"] == 1
        assert before == 0 < waits <= found["lag_seconds"], "readers miss what came after version 1"
        assert "has no older version to go back to" in three.run("rollback").err

    def test_it_stays_through_what_the_sensor_does_and_says_so(self, three: Platform, monkeypatch: pytest.MonkeyPatch):
        from rag_assets.storing.publishing import publication_is_due, publish
        from rag_assets.storing.stores import Store

        three.run("rollback", "1")
        for name, value in three.environment.items():
            monkeypatch.setenv(name, value)
        corpus, store = load_settings().corpus("notes"), Store(str(three.home))
        assert not publication_is_due(store, corpus)
        report = publish(store, corpus, run_id="of the sensor", resume=False)
        assert not report.moved
        assert report.waiting == "a person rolled back; readers keep version 4 until: rag-assets ingest notes"
        assert three.run("status", "--json").json["rolled_back_to"] == 1
        assert "a person rolled back to version 1; to go on: rag-assets ingest notes" in three.run("status").out

    def test_an_ingest_goes_on_though_no_file_changed(self, three: Platform, fake: FakeOpenAI):
        three.run("rollback", "1")
        sent = len(fake.embedded_texts)
        three.ingest()
        assert len(fake.embedded_texts) == sent
        assert texts(three) == ["Boats are for hire.", "The Furka is very high."]
        assert versions(three)[0]["action"] == "publish"
        assert three.run("status", "--json").json["rolled_back_to"] is None

    def test_goes_back_over_a_change_of_the_model(self, three: Platform, fake: FakeOpenAI):
        before = texts(three)
        three.configure(embedding={"provider": "openai", "base_url": fake.base_url, "model": "fake", "dimensions": 32})
        three.ingest()
        generations = [one["generation"] for one in versions(three)[:2]]
        assert generations[0] != generations[1]
        three.run("rollback")
        assert texts(three) == before
        assert three.ask("Is the Furka high?")["answered"]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("rollback", "99"), "corpus notes has no version 99; rag-assets versions notes lists them"),
            (("diff", "1", "99"), "corpus notes has no version 99"),
            (("rollback", "x"), "Input should be a valid integer"),
        ],
    )
    def test_what_is_not_there_is_told(self, three: Platform, arguments: tuple[str, ...], said: str):
        outcome = three.run(*arguments)
        assert outcome.status == 1
        assert said in outcome.err

    def test_a_version_that_was_reclaimed_is_told(self, three: Platform):
        three.configure(retention={"versions": 1})
        three.write("d.md", "Bread is baked.\n")
        three.ingest()
        assert [one["kept"] for one in versions(three)] == [True, False, False, False]
        assert "the rows of version 2 of corpus notes are not kept any more" in three.run("rollback", "2").err

    def test_the_job_of_the_ui_does_the_same(self, three: Platform, monkeypatch: pytest.MonkeyPatch):
        for name, value in three.environment.items():
            monkeypatch.setenv(name, value)
        job = build_definitions(load_settings()).get_job_def("notes_rollback")
        assert job.execute_in_process(run_config={"version": 1}).success
        assert texts(three) == ["The Furka is high.", "The Grimsel is closed."]


def test_one_ingest_makes_one_version_of_what_came_and_what_went(three: Platform):
    (three.corpus / "b.md").rename(three.corpus / "renamed.md")
    three.write("c.md", "Boats are not for hire.\n")
    three.ingest()
    assert versions(three)[0]["changes"] == {"added": 1, "changed": 1, "removed": 1}
    assert versions(three)[0]["version"] == 4


def test_a_lost_list_of_versions_is_gone_on_with(three: Platform):
    shutil.rmtree(three.home / "corpora" / "notes" / "publications.lance")
    three.ingest()
    assert [one["version"] for one in versions(three)] == [4]


def test_nothing_to_list_or_to_go_back_to(platform: Platform):
    assert platform.run("versions", "--json").json["versions"] == []
    assert "nothing is published yet" in platform.run("versions").out
    outcome = platform.run("rollback")
    assert (outcome.status, "has no published index yet" in outcome.err) == (1, True)
