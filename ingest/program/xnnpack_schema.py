"""The tables of XNNPACK's graphs, as data: slots, types, defaults.

Source: `backends/xnnpack/serialization/runtime_schema.fbs` and `xnnpack_graph_serialize.py` of ExecuTorch 1.4.1. A blob
is such a graph, or a header (`XNNHeader`) that states where in the blob the graph is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from etq.ingest.flatbuffers.reader import TableType, table_type

BACKEND: Final = "XnnpackBackend"
# The identifiers at byte 4 of a graph, and of a header before it.
IDENTIFIERS: Final = (b"XN00", b"XN01")
HEADER: Final = b"XH00"
# A value that an op doesn't have, such as a bias (XNN_INVALID_VALUE_ID of xnnpack.h).
NO_VALUE: Final = 2**32 - 1
# The debug handle of ops that were not made from a node, such as changes of layout (`xnnpack_preprocess.py`).
NO_HANDLE: Final = 65535
# Bits of a value's flags (xnnpack.h).
EXTERNAL_INPUT: Final = 1
EXTERNAL_OUTPUT: Final = 2

GRAPH: Final = table_type("XNNGraph", ("version", "string"), ("xnodes", "vector"), ("xvalues", "vector"))
NODE: Final = table_type(
    "XNode", ("xnode_union_type", "u8"), ("xnode_union", "table"), ("debug_handle", "u32"), ("output_min_max", "table")
)
OUTPUT_MIN_MAX: Final = table_type("OutputMinMax", ("output_min", "f32"), ("output_max", "f32"))
VALUE: Final = table_type("XValue", ("xvalue_union_type", "u8"), ("xvalue_union", "table"))
# The kinds of values, by the number of the union's member; number 0 means no member.
VALUE_KINDS: Final = (None, "tensor", "quantized")
QUANTIZED_TENSOR: Final = table_type("XNNQuantizedTensorValue", ("tensor_value", "table"))
TENSOR: Final = table_type(
    "XNNTensorValue",
    ("datatype", "i16"),
    ("num_dims", "u32"),
    ("dims", "vector"),
    ("constant_buffer_idx", "u32"),
    ("external_id", "u32"),
    ("flags", "u32"),
    ("id_out", "u32"),
)
# XNNPACK's element types, by number, without `xnn_datatype_`.
DTYPES: Final = (
    *("invalid", "fp32", "fp16", "qint8", "quint8", "qint32", "qcint8", "qcint32", "qcint4", "qdint8", "qbint4"),
    *("qpint8", "int32", "pfp32", "bf16"),
)


class Op(NamedTuple):
    """A member of the union of ops: its table, and the table's fields that are vectors of u32s.

    Other fields whose names end in `_id` are values; they are outputs if their names begin with `output`.
    """

    table: TableType
    vectors: tuple[str, ...] = ()

    def values(self, *, are_outputs: bool) -> list[str]:
        """The fields that are inputs, or outputs, in order."""
        return [name for name in self.table.fields if name.endswith("_id") and name.startswith("output") == are_outputs]

    def parameters(self) -> list[str]:
        """The other fields that are numbers, except the number of dimensions, which vectors imply."""
        return [
            name
            for name in self.table.fields
            if not name.endswith("_id") and name not in self.vectors and name != "num_dims"
        ]


def _op(name: str, *fields: str, vectors: tuple[str, ...] = (), floats: tuple[str, ...] = ()) -> Op:
    types = {**dict.fromkeys(vectors, "vector"), **dict.fromkeys(floats, "f32")}
    return Op(table_type(name, *((field, types.get(field, "u32")) for field in fields)), vectors)


def _sides(name: str) -> list[str]:
    return [f"{name}_{side}" for side in ("top", "right", "bottom", "left")]


def _plane(name: str) -> list[str]:
    return [f"{name}_{side}" for side in ("height", "width")]


_UNARY: Final = _op("_XNNNode1x1", "input_id", "output_id", "flags")
_BINARY: Final = _op("_XNNNode2x1", "input1_id", "input2_id", "output_id", "flags")
_CAT: Final = _op("_XNNCat", "axis", *(f"input{n}_id" for n in (1, 2, 3, 4)), "output_id", "flags", "input5_id")
_CONV: Final = _op(
    "_XNNNodeConv",
    *_sides("padding"),
    *(*_plane("kernel"), *_plane("subsampling"), *_plane("dilation")),
    *("group_input_channels", "group_output_channels", "groups", *_plane("adjustment")),
    *("input1_id", "filter_id", "bias_id", "output_id", "flags"),
)
_POOLING: Final = _op(
    "_XNNPooling2D",
    *_sides("padding"),
    *(*_plane("pooling"), *_plane("stride"), *_plane("dilation")),
    *("input_id", "output_id", "flags"),
)

# The ops, by the number of the union's member from 1.
OPS: Final[dict[str, Op]] = {
    "Add": _BINARY,
    "FullyConnected": _op("XNNFullyConnected", "input1_id", "filter_id", "bias_id", "output_id", "flags"),
    "Softmax": _UNARY,
    "Sigmoid": _UNARY,
    "StaticTranspose": _op(
        "XNNStaticTranspose", "num_dims", "perm", "input_id", "output_id", "flags", vectors=("perm",)
    ),
    "Clamp": _UNARY,
    "Conv2d": _CONV,
    "Div": _BINARY,
    "StaticResizeBilinear2D": _op(
        "XNNStaticResizeBilinear2D", "new_height", "new_width", "input_id", "output_id", "flags"
    ),
    "StaticConstantPad": _op(
        "XNNStaticConstantPad",
        *("pre_paddings", "post_paddings", "padding_value", "input_id", "output_id", "flags"),
        vectors=("pre_paddings", "post_paddings"),
        floats=("padding_value",),
    ),
    "AvgPooling2d": _POOLING,
    "Minimum": _BINARY,
    "DepthwiseConv2d": _CONV,
    "MaxPooling2d": _POOLING,
    "Multiply": _BINARY,
    "Subtract": _BINARY,
    "Floor": _UNARY,
    "Convert": _UNARY,
    "GlobalAvgPooling2d": _UNARY,
    "StaticReshape": _op(
        "XNNStaticReshape", "num_dims", "new_shape", "input_id", "output_id", "flags", vectors=("new_shape",)
    ),
    "ArgMaxPooling2d": _op(
        "XNNArgMaxPooling2d",
        *(*_sides("padding"), *_plane("pooling")),
        *("input_id", "output_value_id", "output_index_id", "flags"),
    ),
    "SquareRoot": _UNARY,
    "Ceiling": _UNARY,
    "Hardswish": _UNARY,
    "LeakyReLU": _op("XNNLeakyReLU", "negative_slope", "input_id", "output_id", "flags", floats=("negative_slope",)),
    "Maximum": _BINARY,
    "Negate": _UNARY,
    "Square": _UNARY,
    "ELU": _op("XNNELU", "alpha", "input_id", "output_id", "flags", floats=("alpha",)),
    "Abs": _UNARY,
    "PReLU": _BINARY,
    "Concatenate2": _CAT,
    "Concatenate3": _CAT,
    "Concatenate4": _CAT,
    "StaticSlice": _op(
        "XNNStaticSlice",
        *("num_dims", "offsets", "sizes", "input_id", "output_id", "flags"),
        vectors=("offsets", "sizes"),
    ),
    "ScaledDotProductAttention": _op(
        "XNNScaledDotProductAttention", *("query_id", "key_id", "value_id", "scale_id", "mask_id", "output_id", "flags")
    ),
    "BatchMatrixMultiply": _BINARY,
    "Concatenate5": _CAT,
    "ConvTranspose2d": _CONV,
    "ReciprocalSquareRoot": _UNARY,
    "Log": _UNARY,
    "Gelu": _UNARY,
    "Tanh": _UNARY,
    "Exp": _UNARY,
    "Sin": _UNARY,
    "Copy": _UNARY,
    "Cos": _UNARY,
}
