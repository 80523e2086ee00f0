"""Where documents can come from, one module a kind of place. `rag_assets.reading.source` says what a source is."""
