"""What happens around the tables: sources that vanish, models that change, runs that die, clocks, disks and money."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from unittest import mock

import dagster as dg

from rag_assets.defs.partitions import add_keys, delete_keys
from rag_assets.defs.runs import COMMAND_LINE_TAG
from rag_assets.embedding.hashing import hashed_bags
from rag_assets.embedding.provider import Vectors
from rag_assets.errors import StoreError
from rag_assets_tests.benchmarks.faults.faults import Fault
from rag_assets_tests.benchmarks.faults.scratch import Scratch
from rag_assets_tests.benchmarks.faults.tables import doctor, ingest
from rag_assets_tests.benchmarks.measuring import COMMAND_LINE
from rag_assets_tests.workbench import set_age

_A = "passes/01.md"
# The most that a file may have, of 512 or 1,024 bytes.
_BLOCKS = 16
_TWO_HOURS = timedelta(hours=2)
_DAY = 86_400


def _write(scratch: Scratch, name: str = "new.md", text: str = "The Klausen is new here.") -> None:
    scratch.platform.write(name, text)


def _ingest_without_room(scratch: Scratch) -> None:
    """An ingest whose process cannot write more than a few kilobytes to any file: what a full disk does to it."""
    _write(scratch)
    limited = ["sh", "-c", f'ulimit -f {_BLOCKS}; exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, sys.executable, *COMMAND_LINE, "ingest"],
        env={**os.environ, **scratch.platform.environment},
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0


def _disk_with(free: int) -> AbstractContextManager[object]:
    usage = shutil.disk_usage("/")._replace(free=free)
    return mock.patch("rag_assets.health.upkeep.shutil.disk_usage", return_value=usage)


def _other_model(texts: Sequence[str], dimensions: int) -> Vectors:
    return hashed_bags([f"{text[::-1]} zwölf" for text in texts], dimensions)


def _with_instance(work: Callable[[dg.DagsterInstance], object]) -> Callable[[Scratch], None]:
    def breaks(scratch: Scratch) -> None:
        with scratch.platform.instance() as instance:
            work(instance)

    return breaks


def _kill_a_run(instance: dg.DagsterInstance) -> None:
    """What a killed command line leaves: a run that is started, and whose process holds no lock any more."""
    status = dg.DagsterRunStatus.STARTED
    instance.add_run(dg.DagsterRun(job_name="notes_ingest", status=status, tags={COMMAND_LINE_TAG: "true"}))


def _break_documents(scratch: Scratch) -> None:
    for number in range(3):
        scratch.platform.write(f"scan{number}.pdf", b"%PDF-1.7 and nothing more")
    scratch.platform.ingest()


def _mend_documents(scratch: Scratch) -> None:
    for number in range(3):
        (scratch.platform.corpus / f"scan{number}.pdf").unlink()
    ingest(scratch)


def _move_the_source(scratch: Scratch) -> None:
    scratch.platform.corpus.rename(scratch.platform.root / "elsewhere")


def _move_the_source_back(scratch: Scratch) -> None:
    (scratch.platform.root / "elsewhere").rename(scratch.platform.corpus)


def _lose_most_files(scratch: Scratch) -> None:
    shutil.move(scratch.platform.corpus / "passes", scratch.platform.root / "passes")
    _write(scratch, text="The Klausen is left.")


def _bring_the_files_back(scratch: Scratch) -> None:
    shutil.move(scratch.platform.root / "passes", scratch.platform.corpus / "passes")
    ingest(scratch)


def _forget_the_reason(scratch: Scratch) -> None:
    nothing = {"status": "'failed'", "reason": "CAST(NULL AS STRING)", "stage": "CAST(NULL AS STRING)"}
    scratch.table("documents").update(nothing, where=f"document = '{_A}'")


def _index_and_die(scratch: Scratch) -> None:
    """A run whose last step fails."""
    _write(scratch)
    with mock.patch("rag_assets.defs.published_index.publish", side_effect=StoreError("there is no power")):
        assert scratch.platform.run("ingest").status == 1


def _revoke_the_key(scratch: Scratch) -> None:
    scratch.fake.api_key = "another key"


def _give_the_key_back(scratch: Scratch) -> None:
    scratch.fake.api_key = None


def _serve(model: Callable[[Sequence[str], int], Vectors]) -> Callable[[Scratch], None]:
    def change(scratch: Scratch) -> None:
        scratch.fake.vectors_of = model

    return change


def _answer(reply: str) -> Callable[[Scratch], None]:
    """Make the chat model reply so, and evaluate."""

    def evaluate(scratch: Scratch) -> None:
        scratch.fake.chat_reply = reply
        scratch.command("evaluate")

    return evaluate


def _configure(**keys: object) -> Callable[[Scratch], None]:
    return lambda scratch: scratch.platform.configure(**keys)


def _switch_the_model(scratch: Scratch) -> None:
    embedding = scratch.platform.notes.embedding.model_dump(mode="json", exclude_defaults=True)
    scratch.platform.configure(embedding={**embedding, "provider": "openai", "model": "another"})


SURROUNDINGS = (
    Fault(
        "the source is gone",
        "no_deletion_is_withheld",
        "bring it back",
        _move_the_source,
        _move_the_source_back,
    ),
    Fault(
        "nearly all files are gone at once",
        "no_deletion_is_withheld",
        "bring them back, or `ingest --confirm-deletions`",
        _lose_most_files,
        _bring_the_files_back,
    ),
    Fault(
        "three of three documents of a type are broken",
        "no_type_of_document_fails_often",
        "correct or exclude them",
        _break_documents,
        _mend_documents,
    ),
    Fault(
        "a document set aside without a reason",
        "every_file_is_searchable_or_explained",
        "`reindex --failed`",
        _forget_the_reason,
        lambda s: s.command("reindex", "--failed"),
    ),
    Fault(
        "the sensor does not run, and a file changed",
        "every_change_is_searchable_in_time",
        "start the sensor, or `ingest`",
        lambda s: _write(s, _A, "# Pass 1\n\nThe Grimsel is closed."),
        ingest,
        later=_TWO_HOURS,
    ),
    Fault(
        "an ingest on a full disk (no file may grow)",
        "every_file_is_searchable_or_explained",
        "free space, `ingest`",
        _ingest_without_room,
        ingest,
        later=_TWO_HOURS,
    ),
    Fault(
        "a disk with 100 MiB left (simulated)",
        "the_disk_has_room",
        "free space",
        lambda _: None,
        lambda _: None,
        meanwhile=lambda _: _disk_with(100 * 1024 * 1024),
    ),
    Fault(
        "a run whose process was killed",
        "every_run_moves",
        "`doctor --fix`, or the next ingest",
        _with_instance(_kill_a_run),
        doctor,
    ),
    Fault(
        "a run that died before it published",
        "readers_see_the_newest_version",
        "`ingest`",
        _index_and_die,
        ingest,
    ),
    Fault(
        "a rollback that was forgotten",
        "readers_see_the_newest_version",
        "`ingest`",
        lambda s: s.command("rollback"),
        ingest,
    ),
    Fault(
        "a file from tomorrow: a clock moved",
        "nothing_is_from_the_future",
        "set the clock, touch the file",
        lambda s: set_age(s.platform.corpus / _A, -_DAY),
        lambda s: set_age(s.platform.corpus / _A, 60),
    ),
    Fault(
        "a partition deleted in Dagster",
        "partitions_and_documents_are_the_same",
        "`doctor --fix`",
        _with_instance(lambda instance: delete_keys(instance, "notes", [_A])),
        doctor,
    ),
    Fault(
        "a partition of no document",
        "partitions_and_documents_are_the_same",
        "`doctor --fix`",
        _with_instance(lambda instance: add_keys(instance, "notes", ["gone.md"])),
        doctor,
    ),
    Fault(
        "another model is configured",
        "readers_see_the_configured_model",
        "`ingest`, or the configuration before",
        _switch_the_model,
        ingest,
    ),
    Fault(
        "another model behind the same name",
        "the_model_makes_the_vectors_that_it_made",
        "serve the model before",
        _serve(_other_model),
        _serve(hashed_bags),
    ),
    Fault(
        "the provider refuses the key",
        "the_model_makes_the_vectors_that_it_made",
        "a valid key",
        _revoke_the_key,
        _give_the_key_back,
    ),
    Fault(
        "questions are not answered any more",
        "enough_questions_are_answered",
        "find out why, `evaluate`",
        _answer("NOT_IN_SOURCES"),
        _answer("It is as high as it says [1]."),
    ),
    Fault(
        "more was spent than the budget",
        "spend_is_within_the_budget",
        "raise `budget_per_month`",
        _configure(budget_per_month=0.001),
        _configure(budget_per_month=1_000.0),
    ),
)
