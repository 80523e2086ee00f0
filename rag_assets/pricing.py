"""What tokens cost: the list that comes with the package. `prices` in corpora.yaml, and the prices in a corpus, come
before it."""

import functools
import re
from pathlib import Path
from typing import Any

import yaml

_LIST = Path(__file__).parent / "prices.yaml"
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def embedding_price(model: str) -> float | None:
    """US dollars for a million tokens of OpenAI's embedding model of this name; None where it is not in the list."""
    price = _list()["embedding"].get(model)
    return None if price is None else float(price)


def generation_price(model: str) -> tuple[float, float] | None:
    """US dollars for a million tokens, read and written, of OpenAI's chat model of this name, dated or not."""
    price = _list()["generation"].get(_DATE.sub("", model))
    return (price["input"], price["output"]) if price else None


@functools.cache
def _list() -> dict[str, dict[str, Any]]:
    prices: dict[str, dict[str, Any]] = yaml.safe_load(_LIST.read_text(encoding="utf-8"))
    return prices
