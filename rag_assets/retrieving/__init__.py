"""A question becomes ranked `Passage`s."""
