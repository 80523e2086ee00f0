"""rag_assets: answers with citations, from documents that keep changing.

Nothing is imported here, so that `rag-assets ask` stays quick to start.
"""
