-- One instruction of a method. Events of a run have the instruction_id of their instruction.
CREATE TABLE instructions (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    chain_index INTEGER NOT NULL,  -- chain of the method; current programs have one
    instruction_id INTEGER NOT NULL,  -- position in the chain
    kind VARCHAR NOT NULL,  -- kernel, delegate, move, jump_false or free
    op VARCHAR,  -- operator of a kernel, like aten::add; NULL for other kinds
    overload VARCHAR,  -- overload of a kernel's operator, like out; NULL if there is none
    delegate_index INTEGER,  -- index of the method's delegate that is called; NULL for other kinds
    arguments INTEGER[] NOT NULL,  -- indexes of values: the arguments of a kernel or delegate, outputs last; source and target of a move; the condition of a jump; the value that is freed
    jump_target INTEGER  -- instruction at which a jump continues if the condition is false; NULL for other kinds
);

-- One value of a method: a tensor, a number, a list, ...
CREATE TABLE program_values (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    value_index INTEGER NOT NULL,  -- position in the method, to which arguments refer
    kind VARCHAR NOT NULL,  -- null, int, bool, double, tensor, string, int_list, double_list, bool_list, tensor_list or optional_tensor_list
    scalar_type VARCHAR,  -- element type of a tensor, by torch's name; NULL for other kinds
    sizes INTEGER[],  -- sizes of a tensor; upper bounds if the shape is dynamic; NULL for other kinds
    size_bytes BIGINT,  -- size of a tensor in bytes; NULL for an unknown type or impossible sizes, and for other kinds
    dynamism VARCHAR,  -- for a tensor, static, dynamic_bound or dynamic_unbound; NULL for other kinds
    name VARCHAR,  -- name of a tensor in the model; NULL if the file doesn't have it
    constant_index BIGINT,  -- for a tensor with data in the file, index of its constant buffer, or, if memory is also planned for the tensor, of its mutable data; else NULL
    memory_id BIGINT,  -- for a tensor with planned memory, the buffer that contains it; else NULL
    memory_offset BIGINT,  -- for a tensor with planned memory, offset of its first byte in that buffer; else NULL
    is_constant BOOLEAN NOT NULL,  -- whether it is a tensor whose data is in this or another file, without planned memory
    is_external BOOLEAN NOT NULL,  -- whether it is a tensor whose data is in another file, under its name
    is_input BOOLEAN NOT NULL,  -- whether it is an input of the method
    is_output BOOLEAN NOT NULL,  -- whether it is an output of the method
    number DOUBLE,  -- value of an int, bool or double; NULL for other kinds
    text VARCHAR,  -- value of a string; NULL for other kinds
    items BIGINT[]  -- for an int_list, tensor_list or optional_tensor_list, indexes of its values, -1 for none; NULL for other kinds
);

-- One buffer of planned memory, which a runtime provides to a method.
CREATE TABLE planned_buffers (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    buffer_index INTEGER NOT NULL,  -- memory_id of the values in it; 0 is reserved
    size_bytes BIGINT NOT NULL  -- its size in bytes
);
