"""The tables of an ExecuTorch program, as data: slots, types, defaults.

Source: `schema/program.fbs` of ExecuTorch 1.4.1; one `table_type` here is one table there, its fields in slot order up
to the last one that is read. A union takes two slots: the number of its member, then the reference to that.
References are `string`, `vector` or `table`: the code that follows a reference gives the type of its target.
"""

from __future__ import annotations

from typing import Final

from etq.ingest.flatbuffers.reader import table_type

IDENTIFIER: Final = b"ET12"
BUNDLED_IDENTIFIER: Final = b"BP08"
# The header follows the identifier. It has these letters and the header's length (u32). As u64s, it then has the size
# of the FlatBuffers part including the header, the position of the segments, and, if it is 32 bytes long, the segments'
# size (`exir/_serialize/_program.py`).
HEADER: Final = b"eh00"
HEADER_LENGTH: Final = 24
HEADER_LENGTH_WITH_SEGMENT_SIZE: Final = 32

PROGRAM: Final = table_type(
    "Program",
    ("version", "u32"),
    ("execution_plan", "vector"),
    ("constant_buffer", "vector"),
    ("backend_delegate_data", "vector"),
    ("segments", "vector"),
    ("constant_segment", "table"),
    ("mutable_data_segments", "vector"),
    ("named_data", "vector"),
)
EXECUTION_PLAN: Final = table_type(
    "ExecutionPlan",
    ("name", "string"),
    ("container_meta_type", "table"),
    ("values", "vector"),
    ("inputs", "vector"),
    ("outputs", "vector"),
    ("chains", "vector"),
    ("operators", "vector"),
    ("delegates", "vector"),
    ("non_const_buffer_sizes", "vector"),
)
CHAIN: Final = table_type("Chain", ("inputs", "vector"), ("outputs", "vector"), ("instructions", "vector"))
OPERATOR: Final = table_type("Operator", ("name", "string"), ("overload", "string"))
BACKEND_DELEGATE: Final = table_type(
    "BackendDelegate", ("id", "string"), ("processed", "table"), ("compile_specs", "vector")
)
DATA_REFERENCE: Final = table_type("BackendDelegateDataReference", ("location", "i8"), ("index", "u32"))

INSTRUCTION: Final = table_type("Instruction", ("instr_args_type", "u8"), ("instr_args", "table"))
KERNEL_CALL: Final = table_type("KernelCall", ("op_index", "i32"), ("args", "vector"))
DELEGATE_CALL: Final = table_type("DelegateCall", ("delegate_index", "i32"), ("args", "vector"))
MOVE_CALL: Final = table_type("MoveCall", ("move_from", "i32"), ("move_to", "i32"))
JUMP_FALSE_CALL: Final = table_type("JumpFalseCall", ("cond_value_index", "i32"), ("destination_instruction", "i32"))
FREE_CALL: Final = table_type("FreeCall", ("value_index", "i32"))
# The kinds of instructions, by the number of the union's member; number 0 means no member.
INSTRUCTION_KINDS: Final = (None, "kernel", "delegate", "move", "jump_false", "free")

VALUE: Final = table_type("EValue", ("val_type", "u8"), ("val", "table"))
INT: Final = table_type("Int", ("int_val", "i64"))
BOOL: Final = table_type("Bool", ("bool_val", "bool"))
DOUBLE: Final = table_type("Double", ("double_val", "f64"))
TENSOR: Final = table_type(
    "Tensor",
    ("scalar_type", "i8"),
    ("storage_offset", "i32"),
    ("sizes", "vector"),
    ("dim_order", "vector"),
    ("requires_grad", "bool"),
    ("data_buffer_idx", "u32"),
    ("allocation_info", "table"),
    ("layout", "i8"),
    ("shape_dynamism", "i8"),
    ("extra_tensor_info", "table"),
)
STRING: Final = table_type("String", ("string_val", "string"))
LIST: Final = table_type("list", ("items", "vector"))
ALLOCATION: Final = table_type(
    "AllocationDetails", ("memory_id", "u32"), ("memory_offset_low", "u32"), ("memory_offset_high", "u32")
)
EXTRA_TENSOR_INFO: Final = table_type(
    "ExtraTensorInfo", ("mutable_data_segments_idx", "u64"), ("fully_qualified_name", "string"), ("location", "i8")
)
# The kinds of values, by the number of the union's member; number 0 means no member.
VALUE_KINDS: Final = (
    None, "null", "int", "bool", "double", "tensor", "string", "int_list", "double_list", "bool_list", "tensor_list",
    "optional_tensor_list",
)  # fmt: skip
# Width in bytes of an index in lists of value indexes.
INDEX_LISTS: Final = {"int_list": "i64", "tensor_list": "i32", "optional_tensor_list": "i32"}
DYNAMISMS: Final = ("static", "dynamic_bound", "dynamic_unbound")
LOCATIONS: Final = ("inline", "segment")
EXTERNAL: Final = 1

BUFFER: Final = table_type("Buffer", ("storage", "vector"))
INLINE_DATA: Final = table_type("BackendDelegateInlineData", ("data", "vector"))
SEGMENT: Final = table_type("DataSegment", ("offset", "u64"), ("size", "u64"))
SUBSEGMENTS: Final = table_type("SubsegmentOffsets", ("segment_index", "u32"), ("offsets", "vector"))
NAMED_DATA: Final = table_type("NamedData", ("key", "string"), ("segment_index", "u32"))
