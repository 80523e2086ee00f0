"""A provider that counts the texts that it embeds, and refuses every request once it has embedded enough."""

from rag_assets_tests.fakes import FakeOpenAI, Refusal, Request

QUOTA = Refusal(429, "You exceeded your current quota.", "insufficient_quota")
BROKEN = Refusal(500, "The server had an error while processing your request.")


class CountingProvider(FakeOpenAI):
    """Answers embeddings with `refusal` once `quota` texts are embedded; None is no quota."""

    def __init__(self, *, latency_seconds: float = 0.0, refusal: Refusal = QUOTA) -> None:
        super().__init__(dimensions=32, latency_seconds=latency_seconds)
        self.quota: int | None = None
        self._refusal = refusal

    @property
    def sent(self) -> int:
        """How many texts it has embedded, those included whose answer nobody was there to receive."""
        return len(self.embedded_texts)

    def receive(self, request: Request) -> Refusal | None:
        """As the fake, with the quota."""
        refusal = super().receive(request)
        if refusal is None and self.quota is not None and self.sent >= self.quota:
            return self._refusal
        return refusal
