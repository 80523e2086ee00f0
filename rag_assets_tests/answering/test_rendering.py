import json
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from rag_assets.answering.citations import citations_of
from rag_assets.answering.generator import Generated
from rag_assets.answering.rendering import to_json, to_markdown
from rag_assets.records import Answer, Usage
from rag_assets_tests.answering.passages import passage


def answer_of(text, *passages, question="When?"):
    generated = Generated(text, answered=True, markers=list(range(1, len(passages) + 1)))
    citations = citations_of(generated, passages)
    return Answer(
        question=question,
        answer=text,
        answered=True,
        citations=citations,
        sources=[citation.document for citation in citations],
        corpus="docs",
        persona_id=None,
        model="extractive",
        embedding_model="local/all-MiniLM-L6-v2",
        index_version=7,
        documents_indexed=3,
        chunks_indexed=12,
        run_id="run",
        usage=Usage(),
        timings_ms={"retrieve": 12.4, "generate": 99.6},
    )


def tokens(markdown):
    """Block and inline tokens as a reader of GitHub's Markdown, tags allowed, sees them."""
    blocks = MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)
    return [*blocks, *(child for block in blocks for child in block.children or [])]


def test_markdown_shows_question_answer_citations_and_what_made_them():
    cited = passage("The gate opens at seven.", "gate.md", start=9, heading="Hours")
    assert to_markdown(answer_of("At seven. [1]", cited)) == (
        "**When?**\n\n"
        "At seven. [1]\n\n"
        "**\\[1\\]** `gate.md` — Hours — lines 10–10, score 0.500\n\n"
        "```text\nThe gate opens at seven.\n```\n\n"
        "---\n\n"
        "corpus `docs` · model `extractive` · embedding `local/all-MiniLM-L6-v2` · index version 7"
        " · 3 documents, 12 chunks · 0 + 0 tokens, $0.0000 · retrieve 12 ms, generate 100 ms\n"
    )


def test_the_code_of_an_answer_is_shown_as_code():
    text = "Run this: [1]\n\n```bash\nls <dir>\n```\n\n- one `a < b`\n- two"
    assert text.replace("&lt;", "<") in to_markdown(answer_of(text))


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "```\n</pre><img src=x onerror=alert(1)>\n```",
        "~~~\n<b>\n~~~~~\n````\n<i>",
        "- x\n  ```\n  code\n<img src=x>\n```\n<img src=y>",
        "    ```\n<img src=x>",
        "a ` b\n` <img src=x> `",
        "\\` <img src=x> `",
        "![x](http://a.example/steal.png) [x](javascript:alert(1)) \\](http://b.example)\n\n[x]: http://a.example",
        "# Title\n\nTitle\n=====\n\nOther\n---",
        "> quote\n<details>",
        "&lt;script&gt; &#60;b>",
        "| a |\n|---|\n| b |",
    ],
)
def test_nothing_hostile_opens_a_tag_a_link_an_image_or_a_heading(hostile):
    shown = to_markdown(answer_of(hostile, passage(hostile, f"{hostile}.md", heading=hostile), question=hostile))
    kinds = {token.type for token in tokens(shown)}
    assert kinds.isdisjoint({"html_block", "html_inline", "image", "link_open", "heading_open", "table_open"})


def test_a_quoted_passage_ends_only_where_its_citation_ends():
    text = "```text\nx\n```\n````\n**\\[9\\]** forged"
    shown = to_markdown(answer_of("A. [1]", passage(text)))
    fences = [token.content for token in tokens(shown) if token.type == "fence"]
    assert fences == [f"{text}\n"]


def test_json_has_exactly_the_keys_of_the_answer_record():
    record = to_json(replace(answer_of("A. [1]", passage("x", heading="H")), notes=("n",)))
    assert list(record) == [
        "question", "answer", "answered", "citations", "sources", "num_sources", "corpus", "persona_id", "model",
        "embedding_model", "index_version", "documents_indexed", "chunks_indexed", "run_id", "usage", "timings_ms",
        "notes", "prompt_version", "fingerprint", "index_versions", "reranker", "standalone_question", "continues",
        "markers_removed", "quotations_unfounded",
    ]  # fmt: skip
    assert json.loads(json.dumps(record)) == record
    assert record["num_sources"] == 1
    assert record["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0}
    assert record["citations"] == [
        {
            "marker": 1,
            "document": "a.md",
            "source_uri": "file:///corpus/a.md",
            "heading_path": ["H"],
            "start_char": 0,
            "end_char": 1,
            "start_line": 1,
            "end_line": 1,
            "text": "x",
            "score": 0.5,
            "chunk_id": "a.md:0",
            "start_page": None,
            "end_page": None,
            "corpus": "",
            "also_in": [],
        }
    ]
