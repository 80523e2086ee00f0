"""Reports of several corpora, added up by hand."""

from typing import Any

from rag_assets.totals import together


def test_one_corpus_has_its_report():
    assert together({"a": {"chunks": 3}}) == {"corpus": "a", "chunks": 3}


def test_numbers_and_lists_are_summed_up_and_reports_stand_below():
    reports: dict[str, dict[str, Any]] = {
        "a": {"chunks": 1, "failed": ["x"], "documents": {"indexed": 1, "empty": 0}, "withheld": None, "idle": False},
        "b": {"chunks": 2, "failed": ["y"], "documents": {"indexed": 2, "empty": 5}, "withheld": "why", "idle": True},
    }
    assert together(reports) == {
        "chunks": 3,
        "failed": ["x", "y"],
        "documents": {"indexed": 3, "empty": 5},
        "withheld": None,
        "idle": True,
        "corpora": reports,
    }


def test_the_least_share_and_the_longest_lag_are_told():
    reports: dict[str, dict[str, Any]] = {
        "a": {"coverage": 0.5, "published_at": None, "lag_seconds": 3.0, "index_version": 1},
        "b": {"coverage": 1.0, "published_at": "2026-11-30", "lag_seconds": 7.0, "index_version": 2},
    }
    total = together(reports)
    assert (total["coverage"], total["published_at"], total["lag_seconds"]) == (0.5, "2026-11-30", 7.0)
    assert total["index_version"] is None


def test_vectors_that_corpora_share_count_once():
    """`maintain --json` of three corpora with one model told its vectors three times."""
    figures = ("vectors_unneeded", "vectors_deleted", "vector_bytes_before", "vector_bytes_after")
    rows = {"a": ("m", 4, 2, 100, 80), "b": ("m", 4, 0, 80, 80), "c": ("n", 1, 1, 10, 5)}
    reports = {
        name: {"embedding": model, **dict(zip(figures, values, strict=True))} for name, (model, *values) in rows.items()
    }
    total = together(reports)
    assert {name: total[name] for name in figures} == {
        "vectors_unneeded": 5,
        "vectors_deleted": 3,
        "vector_bytes_before": 110,
        "vector_bytes_after": 85,
    }
