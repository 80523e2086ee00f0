"""With the real embedded model, on passages written by hand."""

import pytest

from rag_assets.answering.extractive import NOT_FOUND
from rag_assets.answering.generators import make_generator
from rag_assets.config import ExtractiveGeneration, HashingEmbedding
from rag_assets.embedding.hashing import HashingProvider
from rag_assets_tests.answering.passages import passage

UPLOADS = passage(
    "## Limits\n\nThe maximum upload size is 25 MB. Files are scanned for viruses before they are stored."
    " Names may have up to 200 characters.",
    "uploads.md",
)
BILLING = passage(
    "Invoices are sent on the first day of each month. You can pay by card or by bank transfer.", "billing.md"
)
GARDEN = passage("Roses need six hours of sun. Water them early in the morning.", "garden.txt")


@pytest.fixture(scope="module")
def extractive():
    return make_generator(ExtractiveGeneration())


def test_the_sentence_that_answers_is_found_with_its_marker(extractive):
    answer = extractive.generate("How large may an uploaded file be?", [BILLING, UPLOADS, GARDEN])
    assert answer.answered
    assert "The maximum upload size is 25 MB. [2]" in answer.text
    assert answer.markers[0] == 2
    assert answer.usage.cost_usd == 0.0


def test_a_foreign_question_is_declined_without_markers(extractive):
    answer = extractive.generate("Who won the football world cup in 1998?", [BILLING, UPLOADS, GARDEN])
    assert (answer.text, answer.answered, answer.markers) == (NOT_FOUND, False, [])


def test_no_passages_means_not_found(extractive):
    answer = extractive.generate("How large may an uploaded file be?", [])
    assert (answer.text, answer.answered, answer.markers) == (NOT_FOUND, False, [])


def test_a_blank_question_is_declined(extractive):
    assert not extractive.generate(" \n", [UPLOADS]).answered


def test_no_fact_is_said_twice(extractive):
    twice = [
        passage("The maximum upload size is 25 MB. Larger files are refused.", "a.md"),
        passage("The maximum upload size is 25 MB.", "b.md"),
        passage("The maximum size of an upload is 25 MB.", "c.md"),
    ]
    answer = extractive.generate("What is the maximum upload size?", twice)
    assert answer.text.count("25 MB") == 1
    assert "[2]" not in answer.text


def test_facts_that_differ_in_a_number_are_both_said(extractive):
    answer = extractive.generate(
        "Which ports does the server listen on?",
        [passage("The server listens on port 80 for HTTP. The server listens on port 443 for HTTPS.")],
    )
    assert answer.text == ("The server listens on port 80 for HTTP. [1] The server listens on port 443 for HTTPS. [1]")


def test_sentences_of_a_document_stand_in_reading_order(extractive):
    late = passage("After the backup, verify the backup with the checksum.", "backup.md", start=500)
    early = passage("Before the backup, stop the server. Cats are animals.", "backup.md", start=100)
    answer = extractive.generate("What must I do before and after a backup?", [late, early])
    assert answer.text == (
        "Before the backup, stop the server. [2] After the backup, verify the backup with the checksum. [1]"
    )
    assert answer.markers == [2, 1]


def test_code_comes_whole(extractive):
    code = "```bash\napt-get update\n\napt-get install nginx\n```"
    answer = extractive.generate(
        "How do I install nginx?", [passage(f"Install nginx with these commands:\n\n{code}\n\nBirds sing in spring.")]
    )
    assert answer.text == f"Install nginx with these commands: [1]\n\n{code}"


def test_a_passage_of_code_alone_can_be_quoted(extractive):
    source = "def connect_database(url, timeout=30):\n    return Database(url, timeout)\n"
    answer = extractive.generate("What is the default timeout of connect_database?", [passage(source, "db.py")])
    assert answer.text == f"```py\n{source}```\n[1]"


def test_at_most_max_sentences_are_given():
    one = make_generator(ExtractiveGeneration(max_sentences=1))
    answer = one.generate("How large may an uploaded file be?", [UPLOADS, BILLING])
    assert answer.text == "The maximum upload size is 25 MB. [1]"


def test_half_a_sentence_is_not_quoted(extractive):
    cut = passage(
        "the upload size is 25 MB. The upload size is limited by the administrator. The upload size of", start=40
    )
    answer = extractive.generate("What is the upload size?", [cut])
    assert answer.text == "The upload size is limited by the administrator. [1]"


def test_a_heading_that_asks_is_answered_by_what_stands_below(extractive):
    faq = passage(
        "## How do I change my password?\n\nOpen the profile page and click on the key.\n\n## Other\n\nNothing."
    )
    answer = extractive.generate("How do I change my password?", [faq])
    assert answer.text == "Open the profile page and click on the key. [1]"


@pytest.mark.parametrize("question", ["上传文件的最大大小是多少？", "Каков максимальный размер?", "🙂", "\ud800 size"])
def test_questions_in_any_script_get_an_honest_reply(extractive, question):
    answer = extractive.generate(question, [UPLOADS, BILLING])
    assert answer.answered or answer.text == NOT_FOUND


def test_a_chinese_question_finds_its_chinese_sentence(extractive):
    answer = extractive.generate(
        "最大上传大小是多少？", [passage("文件会被扫描。最大上传大小是25兆。天气很好。", "a.txt")]
    )
    assert "最大上传大小是25兆。 [1]" in answer.text


def test_a_passage_as_long_as_a_book_is_read_in_bounded_time(extractive):
    book = (
        "Nothing of interest is written here. " * 5000 + "The secret ingredient is cardamom. " + "More words. " * 5000
    )
    answer = extractive.generate("What is the secret ingredient?", [passage(book, "book.txt")])
    assert "The secret ingredient is cardamom. [1]" in answer.text


def test_the_streamed_pieces_are_the_answer(extractive):
    pieces: list[str] = []
    answer = extractive.generate("How large may an uploaded file be?", [UPLOADS, BILLING], on_text=pieces.append)
    assert "".join(pieces) == answer.text


class Counting(HashingProvider):
    """A real provider that writes down what it is asked for."""

    def __init__(self):
        super().__init__(HashingEmbedding(provider="hashing"))
        self.asked: list[tuple[str, int]] = []

    def embed(self, texts, kind):
        self.asked.append((kind, len(texts)))
        return super().embed(texts, kind)


def test_the_provider_is_never_asked_for_more_than_its_limit():
    counting = Counting()
    many = " ".join(f"Fact {number} is that port {number} is open." for number in range(1000))
    make_generator(ExtractiveGeneration(), provider=counting).generate("Which port is open?", [passage(many, "a.txt")])
    assert max(size for _, size in counting.asked) <= counting.limits.inputs
    assert counting.asked[-1] == ("query", 1)
