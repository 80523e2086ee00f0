"""Which pages of the UI the manual shows, and what has to be on them before the picture is taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from rag_assets.defs.partitions import partition_key
from rag_assets_tests.screenshots.handbook import BROKEN, EDITED, QUESTION


@dataclass(frozen=True)
class Picture:
    """A page below the address of the webserver, the texts that it shows, what is clicked before the picture is taken, and
    the texts that it shows then; and the size of the window in pixels."""

    name: str
    path: str
    shown: Sequence[str]
    clicks: Sequence[str] = ()
    shown_then: Sequence[str] = ()
    width: int = 1300
    height: int = 800
    query: Mapping[str, str] = field(default_factory=dict)

    def url(self, server: str) -> str:
        """The address of the page at the webserver `server`."""
        return f"{server}{self.path}" + (f"?{urlencode(self.query)}" if self.query else "")


def pictures(*, ask_run: str) -> Sequence[Picture]:
    """All pictures; `ask_run` is the id of a run of the job `ask`."""
    return [
        Picture(
            "partition",
            "/assets/notes/index",
            [EDITED, "Materialized", "texts_embedded", "preview"],
            query={"view": "partitions", "partition": partition_key(EDITED)},
            height=1040,
        ),
        Picture(
            "failed_partition",
            "/assets/notes/documents",
            [BROKEN, "did not materialize this asset", "its content is not PDF"],
            query={"view": "partitions", "partition": partition_key(BROKEN)},
            height=760,
        ),
        Picture(
            "published_index",
            "/assets/notes/published_index",
            ["The version of the index that readers see", "changed_documents", EDITED, "history"],
            query={"view": "overview"},
            height=1280,
        ),
        Picture(
            "checks",
            "/assets/notes/published_index",
            ["every_document_is_indexed", "No document was set aside", BROKEN],
            query={"view": "checks", "checkDetail": "every_document_is_indexed"},
        ),
        Picture(
            "sensor",
            "/locations/rag_assets/sensors/notes_corpus_sensor",
            ["notes_corpus_sensor", "vanished ones removed", "0 runs requested"],
        ),
        Picture(
            "launchpad",
            "/locations/rag_assets/jobs/ask/playground/setup",
            [QUESTION, "No missing config", "Launch Run"],
            query={"config": f"question: {QUESTION}\n"},
            height=700,
        ),
        Picture(
            "answer",
            f"/runs/{ask_run}",
            ["[Show Markdown]", "citations"],
            clicks=["[Show Markdown]"],
            shown_then=[QUESTION, EDITED, "index version"],
            query={"logs": "step:generate"},
        ),
        # The last one: from then on the browser hides the navigation, which makes room for the whole graph.
        Picture(
            "graph",
            "/locations/rag_assets/asset-groups/notes/lineage",
            ["documents", "published_index", "evaluation"],
            clicks=["Hide navigation"],
            shown_then=["88% filled (1 failed)", "2 / 2 Passed", "5 / 5 Passed", "8 / 9 Passed"],
            width=1900,
            height=560,
        ),
    ]
