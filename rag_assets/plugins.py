"""Providers that other packages bring: the entry points of the groups `rag_assets.embedding_providers`,
`rag_assets.generation_providers` and `rag_assets.rerank_providers`.

The name of an entry point is what `provider` says in `corpora.yaml`, its value a `ProviderPlugin`. Here belongs how one
is found and how its keys are checked; what it makes is used like a provider of ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from rag_assets.errors import ProviderError

Section = Literal["embedding", "generation", "rerank"]


@dataclass(frozen=True)
class ProviderPlugin:
    """What an entry point names: the keys that its section may hold, and what makes the provider of them.

    `settings` is a pydantic model of every key but `provider`; a key that it does not have is refused. `make` gets an
    instance of it and returns an `EmbeddingProvider`, a `Generator` or a `Reranker`. It is called often, also only to ask
    for the identity, so a model is loaded and a client made at the first text.
    """

    settings: type[BaseModel]
    make: Callable[[Any], Any]

    def check(self, keys: Mapping[str, object]) -> BaseModel:
        """`keys` as the plugin's settings. Raises pydantic's `ValidationError`."""
        return self.settings.model_validate(dict(keys), extra="forbid")

    def open(self, keys: Mapping[str, object]) -> Any:
        """The provider of `keys`. Raises `ProviderError` when they are not those of this version of the plugin."""
        try:
            settings = self.check(keys)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ProviderError(
                f"the plugin's keys {sorted(keys)} do not fit its version: {'.'.join(map(str, problem['loc']))}:"
                f" {problem['msg']}; install the version that they were written for, or write them anew"
            ) from None
        return self.make(settings)


def plugin_names(section: Section) -> list[str]:
    """The providers that installed packages bring for `section`."""
    return sorted({found.name for found in entry_points(group=_group(section))})


def load_plugin(section: Section, name: str) -> ProviderPlugin:
    """The plugin called `name`. Raises `ProviderError` when there is none, or several, or it cannot be used."""
    entry_point = _find(section, name)
    remedy = "install it again, or ask its authors"
    try:
        plugin = entry_point.load()
    except Exception as error:  # whatever a stranger's module does when it is imported
        raise ProviderError(
            f"{name!r} is brought by the plugin {entry_point.value}, which cannot be loaded:"
            f" {type(error).__name__}: {error}; {remedy}"
        ) from error
    if not isinstance(plugin, ProviderPlugin):
        raise ProviderError(
            f"{name!r} is brought by the plugin {entry_point.value}, which is no rag_assets.plugins.ProviderPlugin but"
            f" {type(plugin).__name__}; {remedy}"
        )
    return plugin


def _find(section: Section, name: str) -> EntryPoint:
    found = list(entry_points(group=_group(section), name=name))
    if not found:
        raise ProviderError(
            f"{name!r} is brought by no package that is installed; install the plugin again, or name another provider"
        )
    if len({plugin.value for plugin in found}) > 1:
        raise ProviderError(
            f"{name!r} is brought by more than one package: {', '.join(plugin.value for plugin in found)}; uninstall all"
            " but one"
        )
    return found[0]


def _group(section: Section) -> str:
    return f"rag_assets.{section}_providers"
