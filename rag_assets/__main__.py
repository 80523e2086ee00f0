"""`python -m rag_assets` is `rag-assets`."""

from rag_assets.cli import main

main()
