"""Calling a provider over the network: what its failures mean, when to try again, and how much to send at once."""
