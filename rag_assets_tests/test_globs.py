import re

import pytest
from fsspec.utils import glob_translate
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.globs import matcher, translate

GLOBS = st.lists(
    st.one_of(st.just("**"), st.text("ab*?.[]!-/é", max_size=4)).filter(lambda part: part == "**" or "**" not in part),
    min_size=1,
    max_size=4,
).map("/".join)
PATHS = st.text("ab.[]-!/é\n", max_size=8)


@given(GLOBS, PATHS)
def test_globs_mean_what_they_mean_to_fsspec(glob: str, path: str):
    try:
        theirs = re.compile(glob_translate(glob))
    except (ValueError, re.error):
        return
    try:
        ours = re.compile(translate(glob))
    except ValueError:
        return
    assert bool(ours.match(path)) == bool(theirs.match(path))


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("**/*.md", ["a.md", "a/b/c.md", "a/b.MD"], ["a.txt", "md"]),
        ("*.md", ["a.md"], ["a/b.md"]),
        ("drafts/**", ["drafts/a", "drafts/a/b"], ["drafts", "other/drafts/a"]),
        ("**/[!a-c]?.md", ["de.md", "x/de.md"], ["ad.md", "d.md"]),
        ("a[]]b", ["a]b"], ["ab"]),
        ("**", ["", "a", "a/b"], []),
    ],
)
def test_a_glob_matches_whole_paths(glob: str, matching: list[str], other: list[str]):
    pattern = matcher([glob])
    assert [path for path in [*matching, *other] if pattern.match(path)] == matching


@pytest.mark.parametrize("glob", ["a**", "**.md", "x/***/y", "[z-a]"])
def test_what_is_no_glob_is_refused(glob: str):
    with pytest.raises(ValueError, match="entire path component|bad character range"):
        translate(glob)


def test_no_globs_match_nothing():
    assert matcher([]).match("") is None
