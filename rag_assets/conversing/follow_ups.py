"""A follow-up put into words that stand alone, by rule: for generators that write nothing themselves.

Here belongs telling an English question that leans on the one before ("and on Windows?", "how do I turn it off?") from
one that stands alone, and which words of the conversation it lacks. In other languages only questions without a content
word lean.
"""

import re
from collections.abc import Sequence

from rag_assets.answering.overlap import FUNCTION_WORDS
from rag_assets.records import Turn

MAX_WORDS = 8
"""So many words of what was asked before are put in."""
MAX_NAMES = 2
"""And so many names in code of the answer."""

_TOKEN = re.compile(r"[^\W_][\w.+#/@'’-]*|[_.@/-][\w./@-]*\w")
_NAME = re.compile(r"(?<!`)`(?=[^`]*[^\W\d])([^`\s]{2,40})`(?!`)")
_OPENERS = "and but so or also ok okay then now well thanks thank great hm hmm"
_CONTINUES = re.compile(
    r"^(?:(?:and|but|so|ok|okay|then|now),?\s+)*(?:what|how) about\b|^(?:and|but|or)\s+(?:if|when)\b", re.I
)
_REFERS_BACK = re.compile(
    r"\b(?:too|instead|as well|either|otherwise|then)\s*[?.!]*\s*$"
    r"|\byou (?:just )?(?:said|mentioned|wrote|named|told)\b|\b(?:your|the) (?:last|previous) answer\b"
    r"|\bthe (?:former|latter|above)\b|\bdo(?:ing)? so\b",
    re.I,
)
_AUXILIARIES = """
is are was were do does did can could will would should shall may might must has have had isn't doesn't don't can't won't
"""
_PREPOSITIONS = """
about after against as at before behind below by during for from in inside into like of on onto outside over per since
through to under until up via with within without
"""
_QUESTION_WORDS = "what which who whom whose when where why how"
_IMPERSONAL = re.compile(
    r"\b(?:is|was|be|would|isn't) it (?:\w+ )?(?:possible|safe|ok|okay|fine|allowed|better|best|necessary|recommended"
    r"|worth|true|bad|good|common|important|enough|hard|easy|normal|required)\b"
    r"|\bit(?: is|'s) (?:\w+ )?(?:possible|safe|better|best|necessary|recommended|important|enough)\b"
    r"|\bit (?:takes?|makes? sense|means?|matters?|costs?)\b(?= (?:to|that|if|when|whether|for)\b)",
    re.I,
)
_CLAUSE = re.compile(
    r"[,.;:?!](?=\s)|\b(?:and|but|or|if|when|whenever|unless|although|because|that|which|while|so|until|before|after"
    r"|where|whose|without|once|time|than)\b",
    re.I,
)
_PRONOUN = re.compile(
    r"\b(?:it|its|itself|they|them|their|theirs|he|she|him|his|her"
    r"|(?:which|the|this|that|other|another|first|second|third|last|new|old|right|better) ones?)\b(?!['’]s\b)|\bit['’]s\b",
    re.I,
)
_POINTS = re.compile(r"\b(?:this|these|those)\b(?! \w+ (?:that|which|who)\b)|\bthere(?=\s*[?.!]*\s*$)", re.I)
_THAT = re.compile(r"(?P<before>[\w']+)?\s*\bthat\b(?P<end>\s*(?:too|also|as well)?\s*[?.!]*\s*$)?", re.I)
_RELATIONAL = """
advantage advantages alternative alternatives argument arguments benefit benefits cause causes consequence consequences
default defaults difference differences disadvantage disadvantages downside downsides drawback drawbacks error errors
example examples exception exceptions field fields header headers kind kinds limit limits maximum minimum name names
option options order parameter parameters port reason reasons requirement requirements risk risks setting settings size
step steps syntax type types value values version versions way ways
happen happens happened work works change changed set use used need needed mean means supported possible different
another other any else exactly long often many much big large fast soon far too well instead again more most only
"""

_NAMED = 2
_SAYS_MUCH = 5
"""With so many content words in an earlier clause, or before it at all, a pronoun stands for something in the question."""
_OPENING = frozenset(_OPENERS.split())
_PREPOSITION = frozenset(_PREPOSITIONS.split())
_AUXILIARY = frozenset(_AUXILIARIES.split())
_LEANING = frozenset(_RELATIONAL.split())
_FUNCTION = FUNCTION_WORDS | _PREPOSITION | _AUXILIARY | frozenset(_QUESTION_WORDS.split())
_BEFORE_THAT = _PREPOSITION | _AUXILIARY | {"why", "how", "what", "and", "but", "do", "use", "doing", "using"}


def stands_alone(question: str) -> bool:
    """Whether `question` can be understood, and searched for, without what was said before."""
    words = [word.lower() for word in _TOKEN.findall(question)]
    content = [word for word in words if word not in _FUNCTION and word not in _OPENING]
    if not content or all(word in _LEANING for word in content):
        return False
    if _CONTINUES.search(question) or _REFERS_BACK.search(question):
        return False
    return not _is_fragment(words) and not _leans(question)


def with_context(question: str, turns: Sequence[Turn]) -> str:
    """`question`, followed in brackets by the words of earlier `turns` (oldest first) that it lacks; as it is where it
    stands alone."""
    before = ""
    answer = ""
    for turn in turns:
        before, answer = _completed(turn.question, before, answer), turn.answer
    return _completed(question, before, answer)


def _completed(question: str, before: str, answer: str) -> str:
    if not before or stands_alone(question):
        return question
    has = {word.lower() for word in _TOKEN.findall(question)}
    words = [word for word in _TOKEN.findall(before) if word.lower() not in _FUNCTION | _OPENING | has]
    names = [name for name in _NAME.findall(answer) if name.lower() not in has]
    added = [*dict.fromkeys(words)][:MAX_WORDS]
    added += [name for name in dict.fromkeys(names) if name not in added][:MAX_NAMES]
    if not added:
        return question
    asked = question.rstrip()
    mark = re.search(r"[?？.!]*$", asked)
    end = mark.start() if mark else len(asked)
    return f"{asked[:end]} ({' '.join(added)}){asked[end:]}".lstrip()


def _is_fragment(words: Sequence[str]) -> bool:
    """Whether a sentence without a verb goes on with the one before: "with Docker?", "and only in tests?"."""
    goes_on = words[0] in _OPENING or words[0] in _PREPOSITION
    return goes_on and not _AUXILIARY.intersection(words)


def _leans(question: str) -> bool:
    """Whether a pronoun has nothing in the question itself that it could stand for."""
    plain = _IMPERSONAL.sub(lambda found: " " * len(found[0]), question)
    if any(
        not _has_antecedent(plain[: found.start()]) for found in [*_PRONOUN.finditer(plain), *_POINTS.finditer(plain)]
    ):
        return True
    return any(
        (found["end"] is not None or (found["before"] or "and").lower() in _BEFORE_THAT)
        and not _has_antecedent(plain[: found.start()])
        for found in _THAT.finditer(plain)
    )


def _has_antecedent(before: str) -> bool:
    """Whether the text before a pronoun ends a clause that names something, or says much."""
    breaks = [found.start() for found in _CLAUSE.finditer(before)]
    counts = [_content(before[:position]) for position in breaks]
    return any(count >= _NAMED for count in counts) or _content(before) >= _SAYS_MUCH


def _content(text: str) -> int:
    return sum(word.lower() not in _FUNCTION for word in _TOKEN.findall(text))
