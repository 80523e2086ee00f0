"""Lance tables: what is written together, what readers see, and what is kept."""
