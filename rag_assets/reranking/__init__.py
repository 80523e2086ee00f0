"""The passages that were found get a second opinion on their order."""
