"""Where one sentence ends and the next begins.

Here belongs the cutting of prose into sentences, in any script that marks their ends. What is prose and what is code,
a list or a table is decided in `quoting.py`. The rules are ours; they keep abbreviations, initials, decimals, file names,
addresses, inline code and bracketed asides in one piece.
"""

import re
from collections.abc import Sequence

_END = re.compile(
    r"""(?P<stop>[.!?…‽؟।॥۔]+)(?P<closing>["'”’»)\]*_]*)(?=\s)   # ends that need a blank after them
      | (?P<wide>[。！？｡]+)[」』”’）》"']*                        # ends that do not
    """,
    re.VERBOSE,
)
_UNBROKEN = re.compile(r"`[^`\n]{1,300}`|\([^()\n]{1,300}\)|（[^（）\n]{1,300}）")
_LAST_WORD = re.compile(r"[^\s(\[{\"'“‘«]+$")
_PICTURES = re.compile(r"[\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff\s]+")
_OPENING = "\"'“‘«([{*_`"

_NEVER_LAST = """
mr mrs ms dr prof st mt ft gen col lt sgt capt rev hon fr sr sra gov sen rep cf vs viz eg ie e.g i.e z.b d.h u.a bzw
"""
_BEFORE_A_NUMBER = "no nos nr fig figs eq eqs sec secs p pp vol ch art vers ver"
_AFTER_INITIALS = """
the a an it its this that these those he she they we you in on at as if when while after before for from to but and
however there their his her i my our what who how
"""
_TITLES = frozenset(_NEVER_LAST.split())
_BEFORE_NUMBERS = frozenset(_BEFORE_A_NUMBER.split())
_STARTERS = frozenset(_AFTER_INITIALS.split())
"""After "U.S." and the like, a word that shows that a new sentence has begun."""


def split_sentences(text: str) -> list[str]:
    """The sentences of `text`, stripped, in order. Nothing but blanks between them is lost."""
    unbroken = [match.span() for match in _UNBROKEN.finditer(text)]
    lower_only = text == text.lower()
    sentences: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if any(first <= match.start() and match.end() < last for first, last in unbroken):
            continue
        if match["wide"] is None and not _ends_here(text, start, match, lower_only=lower_only):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return _with_stray_marks([sentence for sentence in sentences if sentence])


def _with_stray_marks(sentences: Sequence[str]) -> list[str]:
    """Give a mark without a word (an emoji after the full stop) back to the sentence before it."""
    joined: list[str] = []
    for sentence in sentences:
        stray = _PICTURES.match(sentence) if re.search(r"\w", sentence) else re.match(r".*", sentence, re.DOTALL)
        if joined and stray:
            joined[-1] = f"{joined[-1]} {stray.group().strip()}"
            sentence = sentence[stray.end() :]
        if sentence:
            joined.append(sentence)
    return joined


def ends_a_sentence(text: str) -> bool:
    """Whether `text` closes with the mark of a finished sentence."""
    words = re.sub(r"[^\w.!?…‽؟।॥۔。！？｡:：]+$", "", text)
    return words.endswith(tuple(".!?…‽؟।॥۔。！？｡:："))


def _ends_here(text: str, start: int, match: re.Match[str], *, lower_only: bool) -> bool:
    rest = text[match.end() : match.end() + 60].lstrip().lstrip(_OPENING)
    if not rest:
        return True
    following = rest[0]
    if following.islower() and not lower_only:
        return False
    if match["stop"] != ".":
        return True
    before = _LAST_WORD.search(text[start : match.start()])
    if before is None:
        return False
    word = before.group().lower()
    is_enumerator = not text[start : start + before.start()].strip() and (word.isdigit() or len(word) == 1)
    if word in _TITLES or is_enumerator:
        return False
    if word in _BEFORE_NUMBERS:
        return not following.isdigit()
    is_initials = re.fullmatch(r"(?:[^\W\d_]\.)*[^\W\d_]", word) is not None and word != "i"
    if is_initials:
        next_word = re.match(r"\w+", rest)
        return next_word is not None and next_word.group().lower() in _STARTERS
    return True
