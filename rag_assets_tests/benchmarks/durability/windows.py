"""Platforms whose texts a counting provider embeds, a window at a time."""

from pathlib import Path

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

INPUTS = 8
CONCURRENCY = 2
WINDOW = INPUTS * CONCURRENCY
"""How many texts may be on their way to the provider at once."""


def platform_at(root: Path, provider: FakeOpenAI) -> Platform:
    """A platform in the new folder `root` whose texts `provider` embeds."""
    root.mkdir(parents=True)
    embedding = {
        "provider": "openai",
        "base_url": provider.base_url,
        "model": "counted",
        "max_inputs_per_request": INPUTS,
        "concurrency": CONCURRENCY,
    }
    return Platform(root, options={"embedding": embedding})
