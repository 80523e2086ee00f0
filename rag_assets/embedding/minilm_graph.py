"""The network of all-MiniLM-L6-v2, written so that ONNX Runtime multiplies in int8.

The file that is shipped holds int8 weights and turns them into floats before it multiplies. Here its weights go as they
are into a graph of fused operators whose inputs are rounded to 8 bits as they come. `local.py` runs that graph. Why, and
what it costs: docs/decisions/0012-int8-arithmetic.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.onnx_messages import message

INPUT = "input_ids"
OUTPUT = "last_hidden_state"
PROBE_SUM = 64 * 127

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_POSITIONS = 512
_FUSED = "com.microsoft"
# TensorProto.DataType
_TYPES: Mapping[np.dtype[Any], int] = {
    np.dtype(np.float32): 1,
    np.dtype(np.uint8): 2,
    np.dtype(np.int8): 3,
    np.dtype(np.int64): 7,
}
_FLOAT_ATTRIBUTE, _INTEGER_ATTRIBUTE = 1, 2  # AttributeProto.AttributeType

_Array = NDArray[Any]


def int8_graph(model: bytes, *, signed: bool) -> bytes:
    """The graph to run, from the bytes of the shipped model. Weights that are not `signed` are moved up by 128, which
    gives the same sums; `probe_graph` tells which of the two to take.

    It reads `INPUT`, word pieces of shape (texts, pieces) without padding, and gives `OUTPUT`, their states, of shape
    (texts, pieces, 384). The rounding of a layer's input depends on all of it, so a text has the same states again only
    when it is alone.
    """
    weights = _Weights(model, signed=signed)
    graph = _Graph()
    states = _embed(graph, weights)
    for layer in range(_LAYERS):
        states = _transform(graph, weights, states, layer)
    return graph.finish(states)


def probe_graph() -> bytes:
    """A matrix of `INPUT` by 64 rows of 127: `PROBE_SUM` for each row of 64 ones.

    A processor that multiplies in int8 but has no instruction to add the products in 32 bits (x86 without VNNI) gives
    less: it cuts two products off at 16 bits. Unsigned weights it adds in 32.
    """
    graph = _Graph()
    rows = graph.node("Cast", [INPUT], to=_TYPES[np.dtype(np.float32)])
    scales, bias = np.ones(16, dtype=np.float32), np.zeros(16, dtype=np.float32)
    return graph.finish(graph.multiply(rows, np.full((64, 16), 127, dtype=np.int8), scales, bias))


def _embed(graph: "_Graph", weights: "_Weights") -> str:
    """Word, position and type of each piece, added up."""
    length = graph.node("Shape", [INPUT], start=1)
    positions = graph.constant(np.arange(_POSITIONS))
    places = graph.node("Slice", [positions, graph.constant(np.zeros(1, dtype=np.int64)), length])
    parts = []
    for what, rows in (("word", INPUT), ("position", places)):
        table, scales = weights.quantized(f"inner.embeddings.{what}_embeddings.weight")
        integers = graph.node("Cast", [graph.node("Gather", [graph.constant(table), rows])], to=_TYPES[scales.dtype])
        parts.append(graph.node("Mul", [integers, graph.node("Gather", [graph.constant(scales), rows])]))
    one_type = graph.constant(weights["inner.embeddings.token_type_embeddings.weight"][0])
    total = graph.node("Add", [graph.node("Add", parts), one_type])
    return _normalize(graph, weights, total, "inner.embeddings")


def _transform(graph: "_Graph", weights: "_Weights", states: str, layer: int) -> str:
    """One layer: every piece looks at every other, then each is worked on alone."""
    query, key, value, mixed, wider, narrower = weights.matrices[6 * layer : 6 * layer + 6]
    name = f"inner.encoder.layer.{layer}"
    looks = [f"{name}.attention.self.{what}.bias" for what in ("query", "key", "value")]
    # One multiplication for three: their input is rounded once.
    three = _multiply(graph, weights, states, [query, key, value], looks)
    seen = graph.node(
        "MultiHeadAttention",
        graph.nodes("Split", [three], outputs=3, axis=-1, num_outputs=3),
        domain=_FUSED,
        num_heads=_HEADS,
    )
    mix = _multiply(graph, weights, seen, [mixed], [f"{name}.attention.output.dense.bias"])
    states = _normalize(graph, weights, graph.node("Add", [mix, states]), f"{name}.attention.output")
    wide = _multiply(graph, weights, states, [wider], [f"{name}.intermediate.dense.bias"])
    narrow = _multiply(graph, weights, graph.node("Gelu", [wide]), [narrower], [f"{name}.output.dense.bias"])
    return _normalize(graph, weights, graph.node("Add", [narrow, states]), f"{name}.output")


def _multiply(graph: "_Graph", weights: "_Weights", states: str, matrices: Sequence[str], biases: Sequence[str]) -> str:
    """`states` by `matrices`, side by side, in int8, plus `biases`."""
    pairs = [weights.quantized(matrix) for matrix in matrices]
    table = np.concatenate([table for table, _ in pairs], axis=1)
    scales = np.concatenate([scales[0] for _, scales in pairs])
    bias = np.concatenate([weights[bias] for bias in biases])
    return graph.multiply(states, table if weights.signed else table.view(np.uint8) ^ 128, scales, bias)


def _normalize(graph: "_Graph", weights: "_Weights", states: str, name: str) -> str:
    scale, bias = (graph.constant(weights[f"{name}.LayerNorm.{what}"]) for what in ("weight", "bias"))
    return graph.node("LayerNormalization", [states, scale, bias], axis=-1, epsilon=_EPSILON)


class _Weights:
    """The tensors of the shipped model by name. A quantized `x` is there as `x_q`, int8, and `x_scale`, a factor for each
    column of a matrix or row of a table."""

    def __init__(self, model: bytes, *, signed: bool) -> None:
        self.signed = signed
        graph = message("Model").FromString(model).graph
        types = {number: dtype for dtype, number in _TYPES.items()}
        self._tensors: dict[str, _Array] = {
            tensor.name: np.frombuffer(tensor.raw_data, dtype=types[tensor.data_type]).reshape(tuple(tensor.dims))
            for tensor in graph.initializer
            if tensor.data_type in types and tensor.raw_data
        }
        factors = [node.input[1] for node in graph.node if node.op_type == "MatMul"]
        self.matrices = [name for name in factors if f"{name}_q" in self._tensors]
        """In the order of the network; the exporter numbered them and gave no names."""

    def quantized(self, name: str) -> tuple[_Array, _Array]:
        """The integers of `name`, and their factors."""
        return self[f"{name}_q"], self[f"{name}_scale"]

    def __getitem__(self, name: str) -> _Array:
        return self._tensors[name]


class _Graph:
    """A graph that is written node by node. What a node gives is named by a number."""

    def __init__(self) -> None:
        self._model = message("Model")(ir_version=9)  # of opset 20
        self._graph = self._model.graph
        self._graph.name = "minilm"
        self._model.opset_import.add(domain="", version=20)
        self._model.opset_import.add(domain=_FUSED, version=1)
        self._count = 0

    def constant(self, array: _Array) -> str:
        """The name of `array`."""
        name = self._name()
        self._graph.initializer.add(
            name=name, dims=array.shape, data_type=_TYPES[array.dtype], raw_data=array.tobytes()
        )
        return name

    def multiply(self, states: str, table: _Array, scales: _Array, bias: _Array) -> str:
        """The product of `states`, rounded to 8 bits by the largest of them, and `table`, of shape (inputs, outputs), whose
        columns are in units of `scales`; plus `bias`. A table of unsigned integers is moved down by 128.

        Not DynamicQuantizeMatMul, which is both nodes in one: some processors round each row of its input by itself.
        """
        rounded, unit, zero = self.nodes("DynamicQuantizeLinear", [states], outputs=3)
        middle = np.full(len(scales), 0 if table.dtype == np.int8 else 128, dtype=table.dtype)
        weights, units, middles, biases = map(self.constant, (table, scales, middle, bias))
        inputs = [rounded, weights, unit, units, zero, middles, biases]
        return self.node("MatMulIntegerToFloat", inputs, domain=_FUSED)

    def node(self, operator: str, inputs: Sequence[str], *, domain: str = "", **attributes: float) -> str:
        """Add a node with one output; its name."""
        return self.nodes(operator, inputs, outputs=1, domain=domain, **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[str], *, outputs: int, domain: str = "", **attributes: float
    ) -> Sequence[str]:
        """Add a node with several outputs; their names. An attribute is a float or an integer, as it is given."""
        names = [self._name() for _ in range(outputs)]
        node = self._graph.node.add(op_type=operator, domain=domain, input=inputs, output=names)
        for name, value in attributes.items():
            if isinstance(value, int):
                node.attribute.add(name=name, type=_INTEGER_ATTRIBUTE, i=value)
            else:
                node.attribute.add(name=name, type=_FLOAT_ATTRIBUTE, f=value)
        return names

    def finish(self, states: str) -> bytes:
        """The file, with `states` as the output."""
        self._graph.node.add(op_type="Identity", input=[states], output=[OUTPUT])
        for ends, name, dtype in ((self._graph.input, INPUT, np.int64), (self._graph.output, OUTPUT, np.float32)):
            ends.add(name=name).type.tensor_type.elem_type = _TYPES[np.dtype(dtype)]
        data: bytes = self._model.SerializeToString()
        return data

    def _name(self) -> str:
        self._count += 1
        return str(self._count)
