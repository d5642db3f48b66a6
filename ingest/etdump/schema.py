"""The tables of an ETDump, as data: slots, types, defaults.

Source: `devtools/etdump/etdump_schema_flatcc.fbs` of ExecuTorch 1.4.1; one `table_type` here is one table there, its
fields in slot order. References are `string`, `vector` or `table`: the code that follows a reference gives the type of
its target.
"""

from __future__ import annotations

from typing import Final

from etq.ingest.flatbuffers.reader import table_type

IDENTIFIER: Final = b"ED00"

ETDUMP: Final = table_type("ETDump", ("version", "u32"), ("run_data", "vector"))
RUN_DATA: Final = table_type(
    "RunData", ("name", "string"), ("bundled_input_index", "i32", -1), ("allocators", "vector"), ("events", "vector")
)
ALLOCATOR: Final = table_type("Allocator", ("name", "string"))
EVENT: Final = table_type("Event", ("profile_event", "table"), ("allocation_event", "table"), ("debug_event", "table"))
PROFILE_EVENT: Final = table_type(
    "ProfileEvent",
    ("name", "string"),
    ("chain_index", "i32"),
    ("instruction_id", "i32", -1),
    ("delegate_debug_id_int", "i32", -1),
    ("delegate_debug_id_str", "string"),
    ("delegate_debug_metadata", "vector"),
    ("start_time", "u64"),
    ("end_time", "u64"),
)
ALLOCATION_EVENT: Final = table_type("AllocationEvent", ("allocator_id", "i32"), ("allocation_size", "u64"))
DEBUG_EVENT: Final = table_type(
    "DebugEvent",
    ("chain_index", "u64"),
    ("instruction_id", "i32", -1),
    ("debug_entry", "table"),
    ("delegate_debug_id_int", "i32", -1),
    ("delegate_debug_id_str", "string"),
    ("name", "string"),
)
VALUE: Final = table_type(
    "Value",
    ("val", "i8"),
    ("tensor", "table"),
    ("tensor_list", "table"),
    ("int_value", "table"),
    ("float_value", "table"),
    ("double_value", "table"),
    ("bool_value", "table"),
    ("output", "table"),
)
TENSOR: Final = table_type(
    "Tensor", ("scalar_type", "i8"), ("sizes", "vector"), ("strides", "vector"), ("offset", "i64")
)
TENSOR_LIST: Final = table_type("TensorList", ("tensors", "vector"))
INT: Final = table_type("Int", ("int_val", "i64"))
BOOL: Final = table_type("Bool", ("bool_val", "bool"))
FLOAT: Final = table_type("Float", ("float_val", "f32"))
DOUBLE: Final = table_type("Double", ("double_val", "f64"))

# The kinds of a Value, by the number in its field `val`.
VALUE_KINDS: Final = ("null", "int", "bool", "float", "double", "tensor", "tensor_list", "string")

# c10's types of elements, in the order of their numbers, with the bytes of one (c10/core/ScalarType.h of PyTorch 2.13).
ELEMENT_BYTES: Final = {
    "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "float32": 4, "float64": 8, "complex32": 4,
    "complex64": 8, "complex128": 16, "bool": 1, "qint8": 1, "quint8": 1, "qint32": 4, "bfloat16": 2, "quint4x2": 1,
    "quint2x4": 1, "bits1x8": 1, "bits2x4": 1, "bits4x2": 1, "bits8": 1, "bits16": 2, "float8_e5m2": 1,
    "float8_e4m3fn": 1, "float8_e5m2fnuz": 1, "float8_e4m3fnuz": 1, "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip
SCALAR_TYPES: Final = tuple(ELEMENT_BYTES)


def scalar_type(number: int) -> str:
    """Return the name of a type of elements."""
    return SCALAR_TYPES[number] if 0 <= number < len(SCALAR_TYPES) else f"scalar type {number}"
