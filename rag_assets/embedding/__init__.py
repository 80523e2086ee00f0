"""Texts become vectors: one module a provider, and the batching that they share."""
