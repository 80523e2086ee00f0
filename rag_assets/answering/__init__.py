"""Passages become an `Answer`: generators, prompts, citations, and how an answer is shown."""
