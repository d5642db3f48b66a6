"""The tables of Vulkan's graphs, as data: slots, types, defaults.

Source: `backends/vulkan/serialization/schema.fbs`, `vulkan_graph_serialize.py` and `vulkan_graph_builder.py` of
ExecuTorch 1.4.1. A blob is a header (`VulkanDelegateHeader`), which has the place of the graph in the blob, and the
graph.
"""

from __future__ import annotations

from typing import Final

from etq.ingest.flatbuffers.reader import TableType, table_type

BACKEND: Final = "VulkanBackend"
# The identifiers at byte 4 of a graph, and of a header before it.
IDENTIFIERS: Final = (b"VK00",)
HEADER: Final = b"VH00"

GRAPH: Final = table_type(
    "VkGraph",
    ("version", "string"),
    ("chain", "vector"),
    ("values", "vector"),
    ("input_ids", "vector"),
    ("output_ids", "vector"),
)
# Arguments are positions in the list of values; the last one is the op's result.
OPERATOR_CALL: Final = table_type("OperatorCall", ("node_id", "u32"), ("name", "string"), ("args", "vector"))
VALUE: Final = table_type("VkValue", ("value_type", "u8"), ("value", "table"))
TENSOR: Final = table_type("VkTensor", ("datatype", "i8"), ("dims", "vector"), ("constant_id", "i32"))
STRING: Final = table_type("String", ("string_val", "string"))
# The kinds of values, by the number of the union's member from 1: numbers, and lists of numbers.
KINDS: Final = (
    *("Null", "Int", "Double", "Bool", "VkTensor"),
    *("IntList", "DoubleList", "BoolList", "ValueList", "String", "SymInt"),
)
NUMBERS: Final[dict[str, TableType]] = {
    "Int": table_type("Int", ("value", "i64")),
    "Double": table_type("Double", ("value", "f64")),
    "Bool": table_type("Bool", ("value", "bool")),
    "SymInt": table_type("SymInt", ("value", "i32")),
}
LISTS: Final[dict[str, tuple[TableType, str]]] = {
    name: (table_type(name, ("items", "vector")), type)
    for name, type in {"IntList": "i64", "DoubleList": "f64", "BoolList": "bool", "ValueList": "i32"}.items()
}
# Vulkan's element types, by number; 127 is unset.
DTYPES: Final = ("bool", "uint8", "int8", "int32", "float16", "float32", "float64", "int64")
