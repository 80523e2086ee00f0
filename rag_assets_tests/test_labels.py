from rag_assets.labels import labels_of, split_label


def test_each_value_of_front_matter_is_a_label():
    assert labels_of(
        {"author": "Ann Lee", "tags": ["Python", "api", "PYTHON"], "version": 3, "share": 0.5, "draft": True}
    ) == ["author=ann lee", "tags=python", "tags=api", "version=3", "share=0.5", "draft=true"]


def test_nested_fields_are_joined_by_dots_and_lists_are_flat():
    assert labels_of({"site": {"name": "Docs", "nav": [{"title": "A"}, {"title": "B"}]}, "n": [[1, 2], 3]}) == [
        "site.name=docs",
        "site.nav.title=a",
        "site.nav.title=b",
        "n=1",
        "n=2",
        "n=3",
    ]


def test_case_composition_and_white_space_do_not_count():
    assert labels_of({"Straße": "  Zu\u0308rich \n See "}) == ["strasse=z\u00fcrich see"]


def test_what_cannot_be_asked_for_is_left_out():
    assert labels_of({"a": None, "b": "", "c": "  ", "": "x", "d=e": "x", "f<": "x", "g": [], "h": {}}) == []


def test_a_value_may_hold_what_separates():
    assert labels_of({"a": "b=c"}) == ["a=b=c"]
    assert split_label("a=b=c") == ("a", "b=c")


def test_a_long_value_is_cut_and_a_long_front_matter_ends():
    """Labels are repeated in every row of a document: 64,000 characters of them would be megabytes a document."""
    assert labels_of({"description": "x" * 10_000}) == ["description=" + "x" * 200]
    many = labels_of({"tags": [f"{number:0100}" for number in range(1_000)]})
    assert len(many) == 76
    assert sum(map(len, many)) <= 8_000
