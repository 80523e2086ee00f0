"""A sentence-embedding model whose arithmetic can be done in the head, as the files that an export writes.

Each word is a row of a table, and the state of a token is its row: `input_ids` of shape (1, tokens) give states of shape
(1, tokens, numbers). The network is written as protobuf by hand, so that no test needs the package `onnx`.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

INT64, FLOAT = 7, 1
START, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"


def write_model(
    folder: Path,
    rows: Mapping[str, Sequence[float]],
    *,
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
    pooled: bool = False,
    file: str = "model.onnx",
) -> Path:
    """Write `model.onnx` and `tokenizer.json` for the words of `rows`, which hold the marks as well; return `folder`."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_network([list(row) for row in rows.values()], inputs, pooled=pooled))
    write_tokenizer(folder, list(rows))
    return folder


def write_tokenizer(folder: Path, words: Sequence[str]) -> None:
    """White space parts words; two marks stand around a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(mark, words.index(mark)) for mark in (START, END)]
    template = processors.TemplateProcessing(single=f"{START} $A {END}", special_tokens=marks)
    tokenizer.post_processor = template
    tokenizer.enable_truncation(4)  # as exports often have it, and as must not count
    tokenizer.save(str(folder / "tokenizer.json"))


def _network(rows: list[list[float]], inputs: Sequence[str], *, pooled: bool) -> bytes:
    width = len(rows[0])
    flat = [number for row in rows for number in row]
    table = (
        b"".join(_number(1, size) for size in (len(rows), width))
        + _number(2, FLOAT)
        + _text(8, "table")
        + _bytes(9, struct.pack(f"<{len(flat)}f", *flat))
    )
    nodes = [_node("Gather", ["table", "input_ids"], "states")]
    if pooled:
        axes = _bytes(5, _text(1, "keepdims") + _number(3, 0) + _number(20, 2))
        axes += _bytes(5, _text(1, "axes") + _number(8, 1) + _number(20, 7))
        nodes.append(_node("ReduceMean", ["states"], "sentence_embedding", axes))
    output = _value("sentence_embedding", FLOAT, 2) if pooled else _value("states", FLOAT, 3)
    graph = b"".join(_bytes(1, node) for node in nodes) + _text(2, "tiny") + _bytes(5, table)
    graph += b"".join(_bytes(11, _value(name, INT64, 2)) for name in inputs) + _bytes(12, output)
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _node(operation: str, inputs: Sequence[str], output: str, attributes: bytes = b"") -> bytes:
    return b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, operation) + attributes


def _value(name: str, kind: int, rank: int) -> bytes:
    shape = b"".join(_bytes(1, _text(2, f"d{axis}")) for axis in range(rank))
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
