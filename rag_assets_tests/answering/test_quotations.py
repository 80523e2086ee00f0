import pytest

from rag_assets.answering.quotations import quotations, unfounded

GATE = (
    "The **northern** gate opens at seven\nin the morning, says the keeper’s log [4]. It is closed on Mondays – always."
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('It says "opens at seven in the morning" [1].', ["opens at seven in the morning"]),
        ("Er sagt „öffnet morgens um sieben Uhr“ [1].", ["öffnet morgens um sieben Uhr"]),
        ("« ouvre à sept heures du matin »", ["ouvre à sept heures du matin"]),
        ("»öffnet morgens um sieben Uhr«", ["öffnet morgens um sieben Uhr"]),
        ("「北の門は毎朝七時に開き、夜の九時には閉まります」", ["北の門は毎朝七時に開き、夜の九時には閉まります"]),
        ('The "northern gate" is short.', []),
        ('Run `echo "a text that is long enough"`.', []),
        ('```\nsay "a text that is long enough"\n```', []),
        ('It says "run `make demo` in the folder" [1].', ["run `make demo` in the folder"]),
        ('A 5" pipe and a 7" pipe that are both long.', []),
        ('An open "mark that never ends\n\nand "another one that does not end.', []),
    ],
)
def test_what_stands_in_quotation_marks_is_found_from_20_characters_on(text, found):
    assert quotations(text) == found


@pytest.mark.parametrize(
    "quotation",
    [
        "The northern gate opens at seven in the morning",
        "opens at seven in the morning, says the keeper's log.",
        "the northern gate […] is closed on Mondays - always,",
        "The northern gate ... opens at seven in the morning",
        "says the keeper's log [1]. It is closed",
    ],
)
def test_a_quotation_is_the_same_in_other_spelling(quotation):
    assert unfounded([quotation], ["Something else.", GATE]) == []


@pytest.mark.parametrize(
    "quotation",
    ["The northern gate opens at eight in the morning", "The northern gate … is painted every year in spring"],
)
def test_words_that_no_source_holds_are_told(quotation):
    assert unfounded([quotation], ["Something else.", GATE]) == [quotation]


def test_the_parts_of_a_quotation_are_in_one_source():
    assert unfounded(["opens at seven … twelve euros"], ["The gate opens at seven.", "It costs twelve euros."])
