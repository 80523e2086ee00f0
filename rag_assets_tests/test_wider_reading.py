"""As many passages are read as were asked for, though some grow together with their neighbours."""

from itertools import pairwise
from pathlib import Path

from rag_assets.asking import Found, make_question, read_wider, rerank, retrieve
from rag_assets.config import Settings
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

QUESTION = "Where has the Furka road a bend?"


def found_in(bench: Workbench, *, top_k: int, neighbours: int) -> Found:
    settings = Settings(path=Path("corpora.yaml"), home=bench.store.home, corpora={CORPUS: bench.corpus})
    question = make_question(settings, QUESTION, top_k=top_k, neighbours=neighbours)
    return rerank(bench.corpus, retrieve(bench.store, bench.corpus, question))


def make_road(bench: Workbench) -> str:
    paragraphs = [f"The Furka road has a bend at kilometre {number}." for number in range(6)]
    bench.write("furka.md", "\n\n".join(paragraphs))
    bench.write("oberalp.md", "The Oberalp road has a bend, a gallery, a tunnel, a lake, a railway and an inn.")
    bench.ingest()
    return "\n\n".join(paragraphs)


def test_others_follow_where_passages_grew_together(tmp_path: Path):
    bench = make_workbench(tmp_path)
    road = make_road(bench)
    found = found_in(bench, top_k=4, neighbours=5)
    assert {passage.document for passage in found.passages} == {"furka.md"}
    wider, notes = read_wider(bench.store, found)
    assert [passage.document for passage in wider] == ["furka.md", "oberalp.md"]
    assert wider[0].text == road
    assert not notes


def test_no_passage_is_read_twice(tmp_path: Path):
    bench = make_workbench(tmp_path)
    road = make_road(bench)
    wider, _ = read_wider(bench.store, found_in(bench, top_k=2, neighbours=1))
    assert len(wider) <= 2
    for passage in wider:
        if passage.document == "furka.md":
            assert road[passage.start_char : passage.end_char] == passage.text
    spans = sorted((one.start_char, one.end_char) for one in wider if one.document == "furka.md")
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_without_neighbours_the_reserve_stays_unread(tmp_path: Path):
    bench = make_workbench(tmp_path)
    make_road(bench)
    found = found_in(bench, top_k=2, neighbours=0)
    assert len(found.reserve) == 2
    wider, _ = read_wider(bench.store, found)
    assert [one.chunk_id for one in wider] == [one.chunk_id for one in found.passages]
