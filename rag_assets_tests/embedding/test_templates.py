"""What the embedder sees of a chunk."""

import pytest

from rag_assets.embedding.templates import check_template, embedded_text, uses_title

TEMPLATE = "{title} > {heading_path}\n{text}"


@pytest.mark.parametrize(
    ("template", "path", "expected"),
    [
        (None, ("A",), "body"),
        (TEMPLATE, ("A", "B"), "Guide > A > B\nbody"),
        (TEMPLATE, (), "Guide\nbody"),
        ("{heading_path}: {text}", (), ": body"),
        ("passage: {text} ({title})", (), "passage: body (Guide)"),
        ("{{{text}}}", (), "{body}"),
    ],
)
def test_a_template_is_filled_in(template, path, expected):
    assert embedded_text(template, title="Guide", heading_path=path, text="body") == expected


def test_braces_in_the_text_stay_as_they_are():
    assert embedded_text("{title}: {text}", title="{x}", heading_path=(), text="{title} {0}") == "{x}: {title} {0}"


def test_it_is_known_whether_the_title_matters():
    assert [uses_title(template) for template in (None, "{text}", TEMPLATE)] == [False, False, True]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "{titel}: {text}",
            "{titel} is unknown; allowed: {title}, {heading_path}, {text}; a brace is written {{ or }}",
        ),
        ("{text!r}", "{text!r} is unknown; allowed: {title}, {heading_path}, {text}; a brace is written {{ or }}"),
        (
            "{text.upper}",
            "{text.upper} is unknown; allowed: {title}, {heading_path}, {text}; a brace is written {{ or }}",
        ),
        ("{}{text}", "{} is unknown; allowed: {title}, {heading_path}, {text}; a brace is written {{ or }}"),
        ("{text", "'{text' is no template: expected '}' before end of string; a brace is written {{ or }}"),
        (
            "{title}",
            "'{title}' leaves the text out; allowed: {title}, {heading_path}, {text}, and {text} must be there",
        ),
    ],
)
def test_what_is_no_template_is_told_with_what_is_allowed(template, said):
    with pytest.raises(ValueError, match="template|unknown|leaves") as caught:
        check_template(template)
    assert str(caught.value) == said
