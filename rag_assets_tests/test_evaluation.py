"""Questions with known answers measure what readers find, and a version that finds less is told, or held."""

import base64
import json
import os
import re
from typing import Any
from unittest import mock

import dagster as dg
import pytest

from rag_assets.asking import make_question, retrieve
from rag_assets.progress import report as progress
from rag_assets.scoring.comparing import approval
from rag_assets.scoring.evaluating import evaluate
from rag_assets.scoring.pinning import PinnedStore
from rag_assets.storing.evaluations import evaluations
from rag_assets.storing.publishing import PublishReport, latest_publication, publication_is_due, publish
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "grimsel",
        "question": "When is the Grimsel closed?",
        "document": "passes.md",
        "passages": ["November to May"],
    },
    {"id": "furka", "question": "How high is the Furka?", "document": "passes.md", "passages": ["2,429 metres"]},
    {"id": "boats", "question": "Which boats are for hire?", "document": "lakes.md", "passages": ["rowing boats"]},
    {"id": "trains", "question": "Which trains are for hire?", "document": None},
]
PASSES = "The Grimsel is closed from November to May.\n\nThe Furka is 2,429 metres high.\n"
LAKES = "At the lake, rowing boats are for hire.\n"


@pytest.fixture
def evaluated(platform: Platform, fake: FakeOpenAI) -> Platform:
    """A corpus of three paragraphs, each the answer to a question; answers come from the fake chat server."""
    platform.write("passes.md", PASSES)
    platform.write("lakes.md", LAKES)
    ask(platform, *QUESTIONS)
    platform.configure(
        evaluation={"questions": "questions.jsonl", "answers": False},
        generation={"provider": "openai", "base_url": fake.base_url, "model": "chat"},
    )
    ingest(platform)
    return platform


def ingest(platform: Platform) -> PublishReport:
    """What an ingest run does, without the seconds that Dagster takes."""
    bench = Workbench(platform.corpus, platform.store, platform.notes)
    bench.update()
    approve = approval(bench.store, bench.corpus, run_id="run", progress=progress)
    return publish(bench.store, bench.corpus, run_id="run", approve=approve)


def ask(platform: Platform, *rows: dict[str, Any]) -> None:
    (platform.root / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_worse(platform: Platform) -> None:
    """Two of three answers leave their document."""
    platform.write("passes.md", "The Susten is open.\n")


def run(platform: Platform, job: str, **how: Any) -> dg.ExecuteInProcessResult:
    with mock.patch.dict(os.environ, platform.environment), dg.DagsterInstance.get() as instance:
        definition = platform.definitions().resolve_job_def(job)
        return definition.execute_in_process(instance=instance, raise_on_error=False, **how)


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {label: value.value for label, value in event.materialization.metadata.items()}


class TestFigures:
    def test_every_answer_is_found_and_the_figures_are_perfect(self, evaluated: Platform):
        figures = evaluated.run("evaluate", "--json").json["figures"]
        assert figures["recall_at_5"] == figures["recall_at_k"] == 1.0
        assert figures["mrr"] == pytest.approx(sum(one["reciprocal_rank"] or 0 for one in scores(evaluated)) / 3)
        assert figures["answerable_accuracy"] is None
        assert figures["citation_precision"] is None
        assert figures["latency_p50_ms"] > 0

    def test_what_was_taken_out_is_not_found(self, evaluated: Platform):
        make_worse(evaluated)
        ingest(evaluated)
        done = evaluated.run("evaluate", "--json").json
        assert done["figures"]["recall_at_k"] == pytest.approx(1 / 3)
        assert {one["id"]: one["rank"] is not None for one in done["scores"]} == {
            "grimsel": False,
            "furka": False,
            "boats": True,
            "trains": False,
        }
        assert done["scores"][3]["recall_at_k"] is None

    def test_answers_and_citations_are_judged(self, evaluated: Platform, fake: FakeOpenAI):
        """The fake cites the first passage, and answers every question, also the one that nothing answers."""
        done = evaluated.run("evaluate", "--answers", "--json").json
        ranks = [one["rank"] for one in done["scores"] if one["answerable"]]
        assert done["figures"]["answerable_accuracy"] == 1.0
        assert done["figures"]["unanswerable_accuracy"] == 0.0
        assert done["figures"]["citation_precision"] == pytest.approx(ranks.count(1) / 3)
        assert done["figures"]["citation_recall"] == done["figures"]["citation_precision"]
        assert done["answer_model"] == "openai/chat"
        assert len([one for one in fake.requests if one.path.endswith("/chat/completions")]) == 4

    def test_a_declined_answer_cites_nothing(self, evaluated: Platform, fake: FakeOpenAI):
        fake.chat_reply = "NOT_IN_SOURCES"
        figures = evaluated.run("evaluate", "--answers", "--json").json["figures"]
        assert figures["answerable_accuracy"] == 0.0
        assert figures["unanswerable_accuracy"] == 1.0
        assert figures["citation_recall"] == 0.0
        assert figures["citation_precision"] is None

    def test_what_the_questions_cost_is_counted(self, evaluated: Platform, fake: FakeOpenAI):
        embedding = {"provider": "openai", "base_url": fake.base_url, "model": "fake", "usd_per_million_tokens": 1000}
        evaluated.configure(embedding=embedding)
        done = evaluated.run("evaluate", "--json").json
        assert done["figures"]["cost_usd"] > 0
        assert done["figures"]["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in done["scores"]))

    def test_documents_are_ranked_where_a_folder_of_beir_judges_them(self, evaluated: Platform):
        folder = evaluated.root / "beir"
        (folder / "qrels").mkdir(parents=True)
        (folder / "queries.jsonl").write_text('{"_id": "1", "text": "rowing boats"}\n')
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tlakes.md\t1\n")
        done = evaluated.run("evaluate", "--questions", str(folder), "--json").json
        assert done["figures"]["ndcg_at_10"] == 1.0
        assert done["scores"][0]["found"] == ["lakes.md", "passes.md"]

    def test_a_question_sees_what_a_person_who_asks_sees(self, evaluated: Platform):
        corpus, store = evaluated.notes, evaluated.store
        published = latest_publication(store, "notes")
        assert published
        question = make_question(evaluated.settings, "When is the Grimsel closed?", top_k=10)
        pinned = retrieve(PinnedStore(store.home, published), corpus, question)
        assert [one.chunk_id for one in pinned.passages] == [
            one.chunk_id for one in retrieve(store, corpus, question).passages
        ]

    def test_an_older_version_is_asked_as_it_was(self, evaluated: Platform):
        before = latest_publication(evaluated.store, "notes")
        assert before
        assert evaluated.notes.evaluation
        make_worse(evaluated)
        ingest(evaluated)
        report = evaluate(
            evaluated.store, evaluated.notes, before, evaluated.notes.evaluation, run_id="run", progress=progress
        )
        assert report.evaluation.figures.recall_at_k == 1.0

    def test_answers_of_an_evaluation_are_not_kept_with_those_of_people(self, evaluated: Platform):
        evaluated.run("evaluate", "--answers")
        assert evaluated.store.answers().read().num_rows == 0
        evaluated.ask("When is the Grimsel closed?")
        assert evaluated.store.answers().read().num_rows == 1


def scores(platform: Platform) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = platform.store.evaluations("notes").read(["scores"])["scores"].to_pylist()[-1]
    return found


class TestCommand:
    def test_figures_and_the_worst_questions_are_printed(self, evaluated: Platform):
        evaluated.run("evaluate")
        make_worse(evaluated)
        ingest(evaluated)
        outcome = evaluated.run("evaluate")
        assert outcome.status == 2
        assert "notes version 2: 3 questions with an answer, 1 without" in outcome.out
        assert re.search(r"recall_at_10 .* 0\.333 .* 1\.000", outcome.out)
        assert "furka: How high is the Furka?" in outcome.out
        assert "recall_at_k fell from 1.000 to 0.333; at most 0.05 is allowed" in outcome.err

    def test_a_version_as_good_as_before_is_fine(self, evaluated: Platform):
        evaluated.run("evaluate")
        evaluated.write("more.md", "Nothing to see.\n")
        ingest(evaluated)
        outcome = evaluated.run("evaluate", "--json")
        assert outcome.status == 0
        assert outcome.json["before"]["index_version"] == 1
        assert outcome.json["fallen"] == []

    def test_a_sample_is_asked(self, evaluated: Platform):
        assert len(evaluated.run("evaluate", "--sample", "2", "--json").json["scores"]) == 2

    def test_a_document_that_is_not_indexed_is_told(self, evaluated: Platform):
        ask(evaluated, {"question": "Why?", "document": "pases.md"})
        outcome = evaluated.run("evaluate", "--json")
        assert "pases.md: not in version 1 of notes" in outcome.err
        assert outcome.json["warnings"]

    def test_drafts_are_skipped_with_a_warning(self, evaluated: Platform):
        ask(evaluated, *QUESTIONS, {"question": "Why?", "document": "lakes.md", "draft": True})
        outcome = evaluated.run("evaluate", "--json")
        assert len(outcome.json["scores"]) == 4
        assert "1 draft is skipped" in outcome.err

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (("--questions", "missing.jsonl"), "missing.jsonl: no such file"),
            (("--sample", "0"), "Invalid value for '--sample'"),
            (("nots",), "there is no corpus 'nots'"),
        ],
    )
    def test_what_cannot_be_is_one_line(self, evaluated: Platform, arguments: tuple[str, ...], complaint: str):
        outcome = evaluated.run("evaluate", *arguments)
        assert outcome.status == 1
        assert complaint in outcome.err
        assert outcome.err.count("\n") == 1

    def test_a_broken_line_is_named(self, evaluated: Platform):
        (evaluated.root / "questions.jsonl").write_text(
            '{"question": "Why?", "document": "lakes.md"}\n{"question": 7}\n'
        )
        outcome = evaluated.run("evaluate")
        assert outcome.status == 1
        assert "questions.jsonl:2: question is 7; it must be text" in outcome.err

    def test_a_corpus_without_questions_says_where_to_name_them(self, platform: Platform):
        outcome = platform.run("evaluate")
        assert outcome.status == 1
        assert "set corpora.notes.evaluation.questions in corpora.yaml, or give a file with --questions" in outcome.err

    def test_nothing_published_is_told(self, platform: Platform):
        ask(platform, *QUESTIONS)
        platform.configure(evaluation={"questions": "questions.jsonl"})
        assert "has no published index yet" in platform.run("evaluate").err


class TestAsset:
    def test_it_is_there_only_where_questions_are_named(self, evaluated: Platform):
        key = dg.AssetKey(["notes", "evaluation"])
        graph = evaluated.definitions().resolve_asset_graph()
        assert key in graph.get_all_asset_keys()
        assert graph.get(key).parent_keys == {dg.AssetKey(["notes", "published_index"])}
        assert not graph.get(key).is_partitioned
        ingest = evaluated.definitions().resolve_job_def("notes_ingest")
        assert key not in ingest.asset_layer.executable_asset_keys
        evaluated.configure(evaluation=None)
        definitions = evaluated.definitions()
        assert key not in definitions.resolve_asset_graph().get_all_asset_keys()
        assert "notes_evaluate" not in {job.name for job in definitions.resolve_all_job_defs()}

    def test_its_metadata_holds_figures_the_worst_questions_and_a_picture(self, evaluated: Platform):
        make_worse(evaluated)
        ingest(evaluated)
        result = run(evaluated, "notes_evaluate")
        assert result.success
        metadata = metadata_of(result)
        assert metadata["recall_at_k"] == pytest.approx(1 / 3)
        assert isinstance(metadata["mrr"], float)
        assert "| furka: How high is the Furka? | not found |" in metadata["worst_questions"]
        picture = re.search(r"data:image/svg\+xml;base64,([^)]+)\)", metadata["history"])
        assert picture
        assert "recall_at_5 0.333" in base64.b64decode(picture[1]).decode()
        assert [one.run_id for one in evaluations(evaluated.store, "notes")] == [result.run_id]

    def test_questions_that_cannot_be_read_fail_the_run_with_the_line(self, evaluated: Platform):
        (evaluated.root / "questions.jsonl").write_text("{}\n")
        result = run(evaluated, "notes_evaluate")
        assert not result.success
        (failure,) = [event for event in result.all_events if event.is_step_failure]
        told = failure.step_failure_data.user_failure_data
        assert told
        assert "questions.jsonl:1: question is None" in str(told.description)


class TestCheck:
    def checked(self, platform: Platform) -> Any:
        found = {one.check_name: one for one in run(platform, "notes_evaluate").get_asset_check_evaluations()}
        assert set(found) == {"retrieval_is_as_good_as_before", "enough_questions_are_answered"}
        return found["retrieval_is_as_good_as_before"]

    def test_the_first_evaluation_passes(self, evaluated: Platform):
        check = self.checked(evaluated)
        assert check.passed
        assert check.description == "There is nothing to compare with yet."

    def test_a_worse_index_makes_it_fail_as_a_warning(self, evaluated: Platform):
        assert self.checked(evaluated).passed
        make_worse(evaluated)
        ingest(evaluated)
        check = self.checked(evaluated)
        assert not check.passed
        assert check.severity == dg.AssetCheckSeverity.WARN
        assert "recall_at_k fell from 1.000 to 0.333" in check.description
        assert check.metadata["recall_at_k"].value == pytest.approx(-2 / 3)

    def test_other_questions_are_not_compared(self, evaluated: Platform):
        self.checked(evaluated)
        make_worse(evaluated)
        ask(evaluated, *QUESTIONS[:2])
        ingest(evaluated)
        assert self.checked(evaluated).passed

    def test_it_passes_again_once_the_index_is_good_again(self, evaluated: Platform):
        self.checked(evaluated)
        make_worse(evaluated)
        ingest(evaluated)
        assert not self.checked(evaluated).passed
        evaluated.write("passes.md", PASSES)
        ingest(evaluated)
        check = self.checked(evaluated)
        assert check.passed
        assert check.description == "As good as version 2, or better."

    def test_it_is_an_error_that_blocks_where_the_corpus_says_so(self, evaluated: Platform):
        self.checked(evaluated)
        make_worse(evaluated)
        ingest(evaluated)
        evaluated.configure(evaluation={"questions": "questions.jsonl", "answers": False, "block": True})
        check = self.checked(evaluated)
        assert not check.passed
        assert check.severity == dg.AssetCheckSeverity.ERROR
        assert check.blocking


class TestBlocking:
    @pytest.fixture
    def blocking(self, evaluated: Platform) -> Platform:
        evaluated.configure(evaluation={"questions": "questions.jsonl", "block": True})
        return evaluated

    def worse(self, platform: Platform) -> PublishReport:
        make_worse(platform)
        return ingest(platform)

    def test_a_version_that_finds_less_is_not_published(self, blocking: Platform, fake: FakeOpenAI):
        make_worse(blocking)
        outcome = blocking.run("ingest")
        assert outcome.status == 0
        assert "notes: the new version finds less than version 1, which readers keep" in outcome.err
        assert "recall_at_k fell from 1.000 to 0.333" in outcome.err
        assert blocking.status()["index_version"] == 1
        assert [row["document"] for row in blocking.search("Grimsel", "--top-k", "1")] == ["passes.md"]
        assert "November" in blocking.search("Grimsel closed", "--top-k", "1")[0]["text"]
        assert not [one for one in fake.requests if one.path.endswith("/chat/completions")]

    def test_both_versions_are_in_the_history(self, blocking: Platform):
        self.worse(blocking)
        held, before = evaluations(blocking.store, "notes")
        assert (before.index_version, before.figures.recall_at_k, before.held) == (1, 1.0, None)
        assert held.index_version == 2
        assert held.figures.recall_at_k == pytest.approx(1 / 3)
        assert held.held

    def test_a_version_that_is_as_good_is_published(self, blocking: Platform):
        blocking.write("more.md", "Nothing to see.\n")
        ingest(blocking)
        assert blocking.status()["index_version"] == 2

    def test_the_sensor_lets_it_rest_and_a_person_may_ask_again(self, blocking: Platform):
        self.worse(blocking)
        assert not publication_is_due(blocking.store, blocking.notes)
        assert publication_is_due(blocking.store, blocking.notes, resume=True)
        asked = len(evaluations(blocking.store, "notes"))
        assert "finds less" in str(ingest(blocking).waiting)
        assert len(evaluations(blocking.store, "notes")) == asked + 1
        assert blocking.status()["index_version"] == 1

    def test_it_is_published_once_it_is_good_again(self, blocking: Platform):
        self.worse(blocking)
        blocking.write("passes.md", PASSES + "\nThe Susten is open.\n")
        assert ingest(blocking).waiting is None
        assert blocking.status()["index_version"] == 2

    def test_it_is_published_once_it_may_fall_or_nothing_blocks(self, blocking: Platform):
        self.worse(blocking)
        blocking.configure(evaluation={"questions": "questions.jsonl", "block": False})
        assert publication_is_due(blocking.store, blocking.notes)
        ingest(blocking)
        assert blocking.status()["index_version"] == 2

    def test_maintenance_leaves_it_held(self, blocking: Platform):
        self.worse(blocking)
        assert run(blocking, "notes_maintain").success
        assert blocking.status()["index_version"] == 1

    def test_a_removal_is_published_all_the_same(self, blocking: Platform):
        (blocking.corpus / "passes.md").unlink()
        blocking.run("ingest")
        assert {row["document"] for row in blocking.search("Grimsel")} == {"lakes.md"}

    def test_questions_that_cannot_be_read_fail_the_run_and_publish_nothing(self, blocking: Platform):
        (blocking.root / "questions.jsonl").write_text("{}\n")
        make_worse(blocking)
        outcome = blocking.run("ingest")
        assert outcome.status == 1
        assert "questions.jsonl:1: question is None" in outcome.err
        assert blocking.status()["index_version"] == 1

    def test_the_first_version_is_published_unseen(self, platform: Platform):
        platform.write("passes.md", PASSES)
        platform.configure(evaluation={"questions": "missing.jsonl", "block": True})
        assert ingest(platform).moved
        assert platform.status()["index_version"] == 1


class TestDrafts:
    def test_the_same_seed_drafts_the_same_questions(self, evaluated: Platform):
        evaluated.configure(generation={"provider": "extractive"})
        drafted = evaluated.run("draft-questions", "--count", "3")
        rows = [json.loads(line) for line in drafted.out.splitlines()]
        assert len(rows) == 3
        assert all(row["draft"] is True for row in rows)
        assert {row["document"] for row in rows[:2]} == {"passes.md", "lakes.md"}
        assert drafted.out == evaluated.run("draft-questions", "--count", "3").out
        assert len(evaluated.run("draft-questions", "--count", "1").out.splitlines()) == 1

    def test_a_draft_is_a_question_once_its_mark_is_out(self, evaluated: Platform):
        evaluated.configure(generation={"provider": "extractive"})
        path = evaluated.root / "drafts.jsonl"
        outcome = evaluated.run("draft-questions", "--output", str(path))
        assert f"{path}: 3 drafts; correct each" in outcome.out
        assert "all 3 questions are drafts" in evaluated.run("evaluate", "--questions", str(path)).err
        path.write_text(path.read_text().replace(', "draft": true', ""))
        assert evaluated.run("evaluate", "--questions", str(path), "--json").json["figures"]["recall_at_k"] == 1.0

    def test_a_file_that_is_there_is_left_alone(self, evaluated: Platform):
        path = evaluated.root / "questions.jsonl"
        before = path.read_text()
        outcome = evaluated.run("draft-questions", "--output", str(path))
        assert outcome.status == 1
        assert "is there already, and may hold corrected questions; name another file" in outcome.err
        assert path.read_text() == before

    def test_a_chat_model_writes_them_and_what_it_copied_wrongly_is_left_out(
        self, evaluated: Platform, fake: FakeOpenAI
    ):
        def reply(messages: list[dict[str, Any]]) -> str:
            text = messages[-1]["content"]
            if "Grimsel" in text:
                return '```json\n{"question": "When can I not drive?", "passage": "from November to May"}\n```'
            return '{"question": "Which?", "passage": "made up"}' if "Furka" in text else "I cannot."

        fake.chat_reply = reply
        (row,) = map(json.loads, evaluated.run("draft-questions").out.splitlines())
        assert row["question"] == "When can I not drive?"
        assert row["passages"] == ["from November to May"]
        assert row["document"] == "passes.md"

    def test_a_corpus_without_sentences_says_so(self, platform: Platform):
        platform.configure(generation={"provider": "extractive"})
        platform.write("a.md", "# Title\n")
        ingest(platform)
        outcome = platform.run("draft-questions")
        assert outcome.status == 1
        assert "holds a whole sentence to ask about; write questions by hand" in outcome.err
