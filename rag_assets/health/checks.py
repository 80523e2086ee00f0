"""The checks of a corpus: sentences that are true when green, the asset that each is about, and how bad it is when not.

An error means that readers get wrong answers, or miss some. A warning means that they will, that it costs money, or that
somebody should look. None blocks: before the pointer moves, publishing itself verifies what it publishes, and a check that
turns red afterwards must not keep the repair from being published.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rag_assets.config import CorpusSettings
from rag_assets.errors import RagAssetsError
from rag_assets.health.agreement import index_agreement
from rag_assets.health.answering import answer_rate
from rag_assets.health.coverage import chunk_coverage
from rag_assets.health.documents import clocks, error_rates, explained_files, set_aside, withheld_deletions
from rag_assets.health.lag import ingestion_lag
from rag_assets.health.model import configured_model, one_generation, same_vectors
from rag_assets.health.money import monthly_spend
from rag_assets.health.platform import partitions, stuck_runs
from rag_assets.health.publishing import newest_version, nothing_to_mend
from rag_assets.health.upkeep import disk, fragments, room, search_index_currency
from rag_assets.health.verdicts import Verdict, fails
from rag_assets.health.view import View
from rag_assets.storing.tables import first_line

Asset = Literal["documents", "chunks", "embeddings", "index", "published_index", "evaluation"]
Severity = Literal["error", "warning"]
When = Literal["ingest", "health"]


@dataclass(frozen=True)
class Check:
    """A check on the asset `asset`. It runs in the job `C_health`; `when` it is `ingest`, at the end of each ingest too."""

    name: str
    asset: Asset
    severity: Severity
    description: str
    look: Callable[[View], Verdict]
    when: When = "health"


CHECKS = (
    Check(
        "every_file_is_searchable_or_explained",
        "documents",
        "warning",
        "Every file of the source is indexed, empty, set aside with a stage and a reason, or so new that its turn may still"
        " come.",
        explained_files,
    ),
    Check(
        "no_type_of_document_fails_often",
        "documents",
        "warning",
        "Of no type (MIME type) more than health.max_error_rate of the documents are set aside, fewer than three apart. The"
        " types are listed with their most frequent reasons.",
        error_rates,
    ),
    Check(
        "partitions_and_documents_are_the_same",
        "documents",
        "warning",
        "No document is without a partition in this Dagster instance, and no partition without a document.",
        partitions,
    ),
    Check(
        "every_run_moves",
        "documents",
        "warning",
        "No run of the corpus is under way whose process died, or that has written nothing for 20 minutes.",
        stuck_runs,
    ),
    Check(
        "nothing_is_from_the_future",
        "documents",
        "warning",
        "No file and no published version is more than two minutes younger than now: a clock was moved, or differs.",
        clocks,
    ),
    Check(
        "spend_is_within_the_budget",
        "embeddings",
        "warning",
        "Embeddings and answers of this month (UTC) cost at most budget_per_month.",
        monthly_spend,
    ),
    Check(
        "every_index_is_of_one_configuration",
        "index",
        "error",
        "All rows of a generation were cut with one configuration, the configured one where it is in force, and have vectors"
        " of one size.",
        one_generation,
    ),
    Check(
        "no_table_is_in_many_fragments",
        "index",
        "warning",
        "No table of the corpus is in more than 50 fragments; from there on a query takes three times as long.",
        fragments,
    ),
    Check(
        "tables_take_little_more_room_than_their_rows",
        "index",
        "warning",
        "The tables of the corpus take at most five times the room of their present rows, or 256 MiB.",
        room,
    ),
    Check(
        "the_disk_has_room",
        "index",
        "warning",
        "The disk has room to write every table of the corpus once more, and 256 MiB at least.",
        disk,
    ),
    Check(
        "every_document_is_indexed",
        "published_index",
        "warning",
        "No document was set aside. Those that were are listed with the stage and the reason; their last good rows stay"
        " searchable, and the sensor tries them again alone.",
        set_aside,
        "ingest",
    ),
    Check(
        "no_deletion_is_withheld",
        "published_index",
        "warning",
        "The source can be listed, and no implausible number of documents vanished from it at once.",
        withheld_deletions,
        "ingest",
    ),
    Check(
        "every_change_is_searchable_in_time",
        "published_index",
        "warning",
        "Ingestion lag: no change waits longer than health.max_lag_seconds (an hour, or four scans), and none of the last"
        " day did.",
        ingestion_lag,
    ),
    Check(
        "every_chunk_is_in_the_published_index",
        "published_index",
        "error",
        "Chunk coverage: readers find as many rows of each document as it has chunks. Documents under 1.0 are listed.",
        chunk_coverage,
    ),
    Check(
        "the_published_index_agrees_with_the_tables",
        "published_index",
        "error",
        "Every chunk has one row that readers see, with its id, its text, the hash of its text and its stored vector, and"
        " there is no other row. All documents are compared, or health.sample of them, others every day.",
        index_agreement,
    ),
    Check(
        "readers_see_the_newest_version",
        "published_index",
        "warning",
        "Nobody rolled back, no evaluation holds a version, and no run died before it published.",
        newest_version,
    ),
    Check(
        "readers_see_the_configured_model",
        "published_index",
        "warning",
        "The published index was made with the configured model and chunking.",
        configured_model,
    ),
    Check(
        "few_rows_are_outside_the_search_indices",
        "published_index",
        "warning",
        "At most 5 % of the rows, or 1,000, are outside the full-text index and that of vectors, and searched by a scan.",
        search_index_currency,
    ),
    Check(
        "nothing_needs_mending",
        "published_index",
        "error",
        "rag-assets doctor finds nothing: the home can be written to, every file of every table can be read, and tables,"
        " search indices and the pointer agree.",
        nothing_to_mend,
    ),
    Check(
        "the_model_makes_the_vectors_that_it_made",
        "embeddings",
        "error",
        "Some texts of the index, as many as health.probe_texts says, have the same vectors when they are embedded once"
        " more. It is the only check that sends texts.",
        same_vectors,
    ),
    Check(
        "enough_questions_are_answered",
        "evaluation",
        "warning",
        "Of the questions that have an answer, at least evaluation.min_answer_rate were answered in the last evaluation.",
        answer_rate,
    ),
)


@dataclass(frozen=True)
class Finding:
    """What `check` found, and how long it took."""

    check: Check
    verdict: Verdict
    seconds: float


def examine(view: View, checks: Iterable[Check]) -> Iterator[Finding]:
    """Do `checks`. One that cannot look, because a table is damaged or a server does not answer, fails and says why; the
    others go on."""
    for check in checks:
        started = time.monotonic()
        try:
            verdict = check.look(view)
        except (
            RagAssetsError,
            OSError,
            ValueError,
            RuntimeError,
        ) as error:  # the last three are how Lance tells of damage
            verdict = fails(f"it cannot be told: {first_line(error)}")
        yield Finding(check, verdict, time.monotonic() - started)


def checks_of(corpus: CorpusSettings) -> list[Check]:
    """The checks that `corpus` has: without questions there is nothing to say of answers."""
    return [one for one in CHECKS if one.asset != "evaluation" or corpus.evaluation is not None]
