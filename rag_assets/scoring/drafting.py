"""The published index becomes drafts of questions, for a person to correct.

A draft names its document and the text that answers it. Without a chat model the question is made of the heading above a
passage and its first sentence, and reads like it; what matters is that the known text is right.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from rag_assets.answering.quoting import units_of
from rag_assets.answering.replies import complete_reply
from rag_assets.calling.openai_client import MalformedReplyError, OpenAIServer
from rag_assets.config import CorpusSettings, OpenAIGeneration
from rag_assets.errors import QuestionError
from rag_assets.fingerprints import hash_text
from rag_assets.progress import Listener
from rag_assets.records import Passage
from rag_assets.scoring.questions import normalised
from rag_assets.storing.publishing import latest_publication
from rag_assets.storing.stores import Store
from rag_assets.tokenizing import count_tokens

if TYPE_CHECKING:
    import openai

STAGE = "draft"
_SHORTEST, _LONGEST = 30, 300
_DEFINITION = re.compile(r"(?P<subject>(?:An? |The )?[^\W\d_][\w `'/-]{2,50}?) (?P<verb>is|are) (?:an? |the |\w+ed )")
_PRONOUNS = frozenset(
    ["it", "this", "that", "these", "those", "there", "they", "he", "she", "we", "you", "what", "which", "here"]
)
_TOKENS = 500


@dataclass(frozen=True)
class Draft:
    """A question, and where its answer stands."""

    question: str
    document: str
    passage: str

    def as_line(self) -> str:
        """The draft as a line of a file of questions, marked as one."""
        values = {
            "id": hash_text(f"{self.document}\n{self.question}")[:12],
            "question": self.question,
            "document": self.document,
            "passages": [self.passage],
            "draft": True,
        }
        return json.dumps(values, ensure_ascii=False)


def draft_questions(
    store: Store, corpus: CorpusSettings, *, count: int, seed: int, progress: Listener
) -> Sequence[Draft]:
    """At most `count` drafts, of as many documents as there are; the same `seed` takes the same passages.

    A chat model writes them where `generation` names one behind an OpenAI-compatible server; what it copied wrongly is
    left out. Raises `QuestionError` when nothing is published or no passage has a sentence, `ProviderError` when the
    server fails.
    """
    model = _Model(corpus.generation) if isinstance(corpus.generation, OpenAIGeneration) else None
    drafts: dict[str, Draft] = {}
    for passage in _passages(store, corpus, seed):
        progress(STAGE, len(drafts), count)
        if len(drafts) >= count:
            break
        draft = model.draft(passage) if model else _made_of(passage)
        if draft:
            drafts.setdefault(draft.question.casefold(), draft)
    if not drafts:
        raise QuestionError(
            f"no passage of corpus {corpus.name} holds a whole sentence to ask about; write questions by hand"
        )
    return list(drafts.values())


def _passages(store: Store, corpus: CorpusSettings, seed: int) -> Iterator[Passage]:
    """Every passage of the published index, in an order that depends on `seed` and takes turns between documents."""
    publication = latest_publication(store, corpus.name)
    if publication is None:
        raise QuestionError(f"corpus {corpus.name} has no published index yet; run: rag-assets ingest {corpus.name}")
    if not publication.table_version:
        return
    columns = ["chunk_id", "document", "ordinal", "text", "title", "source_uri", "heading_path"]
    columns += ["start_char", "end_char", "start_line", "end_line"]
    table = store.index(corpus.name, publication.generation, dimensions=1)
    by_document = defaultdict(list)
    for row in table.read(columns, version=publication.table_version).to_pylist():
        passage = Passage(**{**row, "heading_path": tuple(row["heading_path"] or ())}, score=0.0)
        by_document[passage.document].append(passage)
    turns = [
        (turn, hash_text(f"{seed} {passage.chunk_id}"), passage)
        for passages in by_document.values()
        for turn, passage in enumerate(sorted(passages, key=lambda one: hash_text(f"{seed} {one.chunk_id}")))
    ]
    for _, _, passage in sorted(turns, key=lambda one: one[:2]):
        yield passage


def _made_of(passage: Passage) -> Draft | None:
    """A question about the first sentence of `passage` that stands in it as it is written."""
    flat = normalised(passage.text)
    sentence = next(
        (
            unit.text
            for unit in units_of(passage)
            if unit.kind == "sentence"
            and not unit.flaw
            and _SHORTEST <= len(unit.text) <= _LONGEST
            and unit.text[0].isalnum()
            and unit.text in flat
        ),
        None,
    )
    if sentence is None:
        return None
    about = passage.heading_path[-1] if passage.heading_path else passage.title
    return Draft(_question(normalised(about), sentence), passage.document, sentence)


def _question(about: str, sentence: str) -> str:
    if about.endswith("?"):
        return about
    defined = _DEFINITION.match(sentence)
    if defined and _PRONOUNS.isdisjoint(defined["subject"].lower().split()):
        return f"What {defined['verb']} {_lowered(defined['subject'])}?"
    how = re.match(r"(?:how to )(.+)", about, re.IGNORECASE)
    if how:
        return f"How do I {how[1]}?"
    return f"What do I need to know about {about}?"


def _lowered(subject: str) -> str:
    """`subject` without the capital letter of an article that began a sentence."""
    return re.sub(r"^(An?|The) ", lambda article: article[0].lower(), subject)


class _Model:
    """The chat model of `generation`, asked for one question a passage."""

    def __init__(self, settings: OpenAIGeneration) -> None:
        self._settings = settings
        self._server = OpenAIServer("generation", settings, model=settings.model)
        text = resources.files("rag_assets.scoring") / "prompts" / "draft.md"
        self._prompt = Template(text.read_text(encoding="utf-8"))

    def draft(self, passage: Passage) -> Draft | None:
        """A question about `passage`; None where the model did not keep to the form, or to the text."""
        import openai

        prompt = self._prompt.substitute(document=passage.document, text=passage.text)
        limit = "max_tokens" if self._server.base_url else "max_completion_tokens"
        request: dict[str, Any] = {"model": self._settings.model, limit: _TOKENS}

        def send(client: "openai.OpenAI") -> Any:
            made: Any = client.chat.completions.with_raw_response.create
            return made(messages=[{"role": "user", "content": prompt}], **request)

        def read(reply: Any) -> str:
            try:
                return complete_reply(reply).text
            except (ValueError, TypeError, AttributeError, LookupError) as error:
                raise MalformedReplyError(f"no chat completion ({type(error).__name__}: {error})") from error

        try:
            text = self._server.call(send, read, tokens=count_tokens(prompt, "o200k_base") + _TOKENS)
        except (openai.APIError, MalformedReplyError) as error:
            raise self._server.explain(error) from error
        return _understood(text, passage)


def _understood(text: str, passage: Passage) -> Draft | None:
    braces = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        values = json.loads(braces[0]) if braces else {}
    except json.JSONDecodeError:
        return None
    question, quoted = (values.get(key) for key in ("question", "passage"))
    if not isinstance(question, str) or not isinstance(quoted, str):
        return None
    question, quoted = normalised(question), normalised(quoted)
    if not question or not quoted or quoted not in normalised(passage.text):
        return None
    return Draft(question, passage.document, quoted)
