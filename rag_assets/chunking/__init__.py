"""A `Document` becomes `Chunk`s: one module a strategy."""
