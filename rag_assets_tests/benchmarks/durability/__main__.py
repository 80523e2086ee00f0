"""Kill, fail, move and race ingests, and print what became of the texts as a Markdown table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rag_assets_tests.benchmarks.durability.killing import STAGES, survive_kills
from rag_assets_tests.benchmarks.durability.outcomes import as_markdown
from rag_assets_tests.benchmarks.durability.resuming import SCENARIOS
from rag_assets_tests.benchmarks.durability.windows import CONCURRENCY, INPUTS, WINDOW


def main() -> int:
    """Exit with 1 when a promise does not hold."""
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.benchmarks.durability", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--texts", type=int, default=2000, help="how many the first ingest embeds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    asked = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="durability-") as folder:
        killed, stages = survive_kills(Path(folder), kills=asked.kills, texts=asked.texts, seed=asked.seed)
        outcomes = [killed, *(scenario(Path(folder), texts=asked.texts) for scenario in SCENARIOS)]
    print(as_markdown(outcomes), end="\n\n")
    print(f"Kills while {', '.join(f'{stage} {stages[stage]}' for stage in STAGES)}.")
    print(f"A window is {CONCURRENCY} requests of {INPUTS} inputs: {WINDOW} texts. Seed {asked.seed}.")
    print(f"{time.monotonic() - started:,.0f} s", file=sys.stderr)
    return 0 if all(outcome.holds for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
