"""A cross-encoder whose arithmetic can be done in the head, as the files that an export writes.

The logit of a pair is the number of word pairs, one of the question and one of the passage, that are the same word. Words
are parted by white space; marks and unknown words count for nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.embedding.onnx_messages import message

START, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
FLOAT, INT64 = 1, 7


def write_cross_encoder(
    folder: Path,
    words: Sequence[str],
    *,
    classes: int = 1,
    factor: float = 1.0,
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
    file: str = "model.onnx",
) -> Path:
    """Write the network, whose logits are multiplied by `factor`, and `tokenizer.json`; return `folder`. Of two `classes`
    the first has the logit of the other with its sign turned."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_network(len(words), classes=classes, factor=factor, inputs=inputs))
    _write_tokenizer(folder, words)
    return folder


def _write_tokenizer(folder: Path, words: Sequence[str]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([START, END, UNKNOWN, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(mark, vocabulary[mark]) for mark in (START, END)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", pair=f"{START} $A {END} $B:1 {END}:1", special_tokens=marks
    )
    tokenizer.enable_truncation(4)  # as exports often have it, and as must not count
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(folder / "tokenizer.json"))


def _network(words: int, *, classes: int, factor: float, inputs: Sequence[str]) -> bytes:
    model = message("Model")(ir_version=8)
    model.opset_import.add(domain="", version=13)
    graph = model.graph
    graph.name = "tiny"
    table = np.vstack([np.zeros((3, words)), np.eye(words)]).astype(np.float32)
    for name, array in (("table", table), ("factor", np.array([factor], dtype=np.float32))):
        graph.initializer.add(name=name, dims=array.shape, data_type=FLOAT, raw_data=array.tobytes())

    def node(operation: str, given: Sequence[str], made: str, **attributes: int) -> None:
        added: Any = graph.node.add(op_type=operation, input=given, output=[made])
        for name, value in attributes.items():
            added.attribute.add(name=name, type=2, i=value)

    node("Gather", ["table", "input_ids"], "states")
    node("Cast", ["attention_mask"], "all", to=FLOAT)
    node("Cast", ["token_type_ids"], "second", to=FLOAT)
    node("MatMul", ["all", "states"], "words")
    node("MatMul", ["second", "states"], "passage")
    node("Sub", ["words", "passage"], "question")
    node("Mul", ["question", "passage"], "shared")
    node("ReduceSum", ["shared"], "count", keepdims=1)
    node("Mul", ["count", "factor"], "logit")
    node("Neg", ["logit"], "against")
    node("Concat", [*["against"] * (classes - 1), "logit"], "logits", axis=-1)
    for ends, names, kind in ((graph.input, inputs, INT64), (graph.output, ["logits"], FLOAT)):
        for name in names:
            ends.add(name=name).type.tensor_type.elem_type = kind
    data: bytes = model.SerializeToString()
    return data
