"""rag_assets: one `rag-assets ingest` of the folder."""

from rag_assets_tests.benchmarks.durability.editions import edition_of, published_rows
from rag_assets_tests.benchmarks.peers.peer import CHUNK_TOKENS, INPUTS_PER_REQUEST, MODEL, Job, Rows, main
from rag_assets_tests.platform import Platform


def ingest(job: Job) -> None:
    """Bring the index up to date."""
    outcome = _platform(job).run("ingest")
    if outcome.status:
        raise RuntimeError(outcome.err.strip())


def rows(job: Job) -> Rows:
    """What the published index holds."""
    return edition_of(published_rows(_platform(job).store, "notes"))


def _platform(job: Job) -> Platform:
    embedding = {
        "provider": "openai",
        "base_url": job.base_url,
        "model": MODEL,
        "max_inputs_per_request": INPUTS_PER_REQUEST,
        "max_retries": 0,
    }
    chunking = {"strategy": "markdown", "max_tokens": CHUNK_TOKENS, "overlap_tokens": 0}
    return Platform(job.state, options={"source": str(job.corpus), "chunking": chunking, "embedding": embedding})


if __name__ == "__main__":
    main(ingest, rows)
