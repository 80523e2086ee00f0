"""What is left of corpora that the configuration does not name any more, and deleting it."""

import shutil
from collections.abc import Collection

import pyarrow as pa

from rag_assets.storing.listing import folders_in, tables_in
from rag_assets.storing.publishing import publish_lock
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table


def left_over(store: Store, configured: Collection[str]) -> list[str]:
    """Corpora that have tables and are not `configured`."""
    return sorted(set(folders_in(f"{store.home}/corpora")) - set(configured))


def purge(store: Store, corpus: str) -> None:
    """Delete every table of `corpus`, one of `left_over`. Vectors stay: other corpora may share them; so do answers."""
    uri = store.corpus_uri(corpus)
    with store.lock(publish_lock(corpus)):
        for name in tables_in(uri):
            Table(f"{uri}/{name}.lance", pa.schema([])).drop()
        if store.objects is None:
            shutil.rmtree(uri)  # tables that `doctor` moved aside
