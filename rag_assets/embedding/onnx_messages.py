"""The part of the ONNX file format that `minilm_graph.py` reads and writes.

The numbers are those of onnx.proto3 (https://github.com/onnx/onnx). The package `onnx` would bring 30 MB and a quarter of a
second for these few; `protobuf` is there already, for ONNX Runtime. What is not listed is skipped when a file is read.
"""

import functools
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "rag_assets.onnx"
_SCALARS = {
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}
# Name, number and type of each field; a type in brackets may be repeated.
_FIELDS = {
    "Model": {"ir_version": (1, "int64"), "graph": (7, "Graph"), "opset_import": (8, "[OperatorSet]")},
    "OperatorSet": {"domain": (1, "string"), "version": (2, "int64")},
    "Graph": {
        "node": (1, "[Node]"),
        "name": (2, "string"),
        "initializer": (5, "[Tensor]"),
        "input": (11, "[Value]"),
        "output": (12, "[Value]"),
    },
    "Node": {
        "input": (1, "[string]"),
        "output": (2, "[string]"),
        "op_type": (4, "string"),
        "attribute": (5, "[Attribute]"),
        "domain": (7, "string"),
    },
    "Attribute": {"name": (1, "string"), "f": (2, "float"), "i": (3, "int64"), "type": (20, "int32")},
    "Tensor": {"dims": (1, "[int64]"), "data_type": (2, "int32"), "name": (8, "string"), "raw_data": (9, "bytes")},
    "Value": {"name": (1, "string"), "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"elem_type": (1, "int32")},
}


def message(name: str) -> Any:
    """The class of the ONNX message `name`, such as `Model` for ModelProto."""
    return GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@functools.cache
def _pool() -> DescriptorPool:
    file = FileDescriptorProto(name="rag_assets/onnx.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _FIELDS.items():
        of_message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            bare = kind.strip("[]")
            label = FieldDescriptorProto.LABEL_OPTIONAL if kind == bare else FieldDescriptorProto.LABEL_REPEATED
            described = of_message.field.add(name=field, number=number, label=label)
            if bare in _SCALARS:
                described.type = _SCALARS[bare]
            else:
                described.type, described.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{bare}"
    pool = DescriptorPool()
    pool.Add(file)
    return pool
