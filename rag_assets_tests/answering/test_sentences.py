import pytest

from rag_assets.answering.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met Mr. J. Doe. They spoke.", ["Dr. Smith met Mr. J. Doe.", "They spoke."]),
        ("Use a store, e.g. S3, i.e. a bucket. Then go.", ["Use a store, e.g. S3, i.e. a bucket.", "Then go."]),
        ("The U.S. Army came. It left.", ["The U.S. Army came.", "It left."]),
        ("He lives in the U.S. The rest do not.", ["He lives in the U.S.", "The rest do not."]),
        ("Pi is 3.14. See No. 5 and Fig. 2.", ["Pi is 3.14.", "See No. 5 and Fig. 2."]),
        ("Edit main.py. Open https://a.example/b.html?x=1. Done.",
         ["Edit main.py.", "Open https://a.example/b.html?x=1.", "Done."]),
        ("Wait... and go on. Well… Next.", ["Wait... and go on.", "Well…", "Next."]),
        ("Call `a. B` first. (See there. It is good.) Then stop.",
         ["Call `a. B` first.", "(See there. It is good.)", "Then stop."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("1. Open the file. 2. Close it.", ["1. Open the file.", "2. Close it."]),
        ("它很快。你好吗？是的！", ["它很快。", "你好吗？", "是的！"]),
        ("wifi is slow. reboot the router.", ["wifi is slow.", "reboot the router."]),
        ("It is fast. 🚀 It is small. 💡", ["It is fast. 🚀", "It is small. 💡"]),
        ("   ", []),
    ],
)  # fmt: skip
def test_text_is_cut_where_a_reader_would_stop(text, sentences):
    assert split_sentences(text) == sentences
