"""Whole keys of YAML and JSON."""

import json

from rag_assets.chunking.chunks import chunk_document
from rag_assets.chunking.members import members_of
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document

WORKFLOW = """\
# Runs on every push.
name: build
on: [push, pull_request]
# What is done.
jobs:
  test:
    runs-on: ubuntu
    steps:
    - uses: actions/checkout
    - name: install what the tests need
      run: |
        pip install --editable .
        key: not a key
    - run: pytest --quiet --strict-markers
  release:
    needs: test
    runs-on: ubuntu
    steps:
    - run: make release and tell everyone about it
"""


def cut(text, *, max_tokens=30, mime="application/yaml"):
    chunking = ChunkingSettings(strategy="yaml_block", max_tokens=max_tokens)
    return chunk_document(Document("a.yaml", "a", mime, text), chunking)


def names(members):
    return [(member.name, names(member.members)) if member.members else member.name for member in members]


def test_a_document_that_fits_is_one_chunk():
    (chunk,) = cut(WORKFLOW, max_tokens=180)
    assert chunk.text == WORKFLOW.strip()


def test_keys_stay_whole_and_long_ones_are_split_at_the_keys_inside():
    assert [(chunk.heading_path, chunk.text) for chunk in cut(WORKFLOW, max_tokens=48)] == [
        ((), "# Runs on every push.\nname: build\non: [push, pull_request]"),
        (("jobs", "test", "runs-on"), "# What is done.\njobs:\n  test:\n    runs-on: ubuntu"),
        (
            ("jobs", "test", "steps"),
            "steps:\n    - uses: actions/checkout\n    - name: install what the tests need\n      run: |\n"
            "        pip install --editable .\n        key: not a key",
        ),
        (("jobs", "test", "steps"), "- run: pytest --quiet --strict-markers"),
        (
            ("jobs", "release"),
            "release:\n    needs: test\n    runs-on: ubuntu\n    steps:\n"
            "    - run: make release and tell everyone about it",
        ),
    ]


def test_documents_of_a_stream_are_blocks():
    text = "---\n" + "\n---\n".join(f"kind: {kind}\nname: one of the {kind} objects" for kind in ("Pod", "Service"))
    assert [chunk.text for chunk in cut(text, max_tokens=16)] == [
        "---\nkind: Pod\nname: one of the Pod objects",
        "---\nkind: Service\nname: one of the Service objects",
    ]


def test_a_template_that_no_parser_takes_has_keys_too():
    template = "{{- if .Values.on }}\nspec:\n  image: {{ .Values.image }}\n{{- end }}\nother: 1\n"
    assert names(members_of(template)) == [("spec", ["image"]), "other"]


def test_keys_may_be_quoted_and_addresses_are_no_keys():
    text = "\"a key\": 1\n'other': 2\nurl: http://a.b/c\n- http://a.b/c\n- - x: 1\n"
    assert names(members_of(text)) == ["a key", "other", ("url", ["", ("", [("", ["x"])])])]


def test_json_is_split_at_its_keys_on_one_line_or_many():
    value = {"servers": [{"host": f"host-{number}", "port": number} for number in range(12)], "debug": {"on": True}}
    for indent in (None, 2):
        chunks = cut(json.dumps(value, indent=indent), max_tokens=60, mime="application/json")
        assert len(chunks) > 2
        assert {chunk.heading_path for chunk in chunks} == {("servers",), ("debug",)}
        assert all(chunk.text.startswith(("{", '"debug"')) for chunk in chunks)


def test_braces_in_strings_are_text():
    assert names(members_of('{"a": "}{", "b\\"": [1, {"c": "]"}]}')) == ["a", ('b\\"', ["", ("", ["c"])])]


def test_lines_of_json_are_items():
    assert [len(members_of('{"a": 1}\n{"b": 2}\n')), len(members_of("[1, 2, 3]"))] == [2, 3]
