"""What assets and ops need from outside: the store and, for each corpus, its embedding provider."""

import dagster as dg

from rag_assets.config import EmbeddingSettings
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import make_provider
from rag_assets.embedding.ray_workers import RayProvider
from rag_assets.storing.stores import Store


class StoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The tables under `home`, a folder or an object-store URI."""

    home: str

    def open(self) -> Store:
        """The store. Nothing is read or created yet."""
        return Store(self.home)


class EmbeddersResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Makes embedding providers. Tests put another one in its place."""

    def open(self, settings: EmbeddingSettings) -> EmbeddingProvider:
        """The provider that `settings` describe; models are loaded once a process, at first use."""
        return make_provider(settings)

    def open_for_documents(self, settings: EmbeddingSettings) -> EmbeddingProvider:
        """The same for many texts: over Ray, where `settings` say so."""
        return self.open(settings) if settings.ray is None else RayProvider(settings, settings.ray)
