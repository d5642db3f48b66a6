-- One instruction of a method. An event of a run has the same instruction_id.
CREATE TABLE instructions (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    chain_index INTEGER NOT NULL,  -- the chain of the method; programs of today have one
    instruction_id INTEGER NOT NULL,  -- position in the chain
    kind VARCHAR NOT NULL,  -- kernel, delegate, move, jump_false or free
    op VARCHAR,  -- of a kernel: its operator, like aten::add
    overload VARCHAR,  -- of a kernel: the operator's overload, like out; NULL where it has none
    delegate_index INTEGER,  -- of a delegate's call: which of the method's delegates
    arguments INTEGER[] NOT NULL,  -- indexes of values: what is given to a kernel or delegate, outputs last; from and to of a move; the condition of a jump; what is freed
    jump_target INTEGER  -- of a jump: the instruction to go on with where the condition is false
);

-- One value of a method: a tensor, a number, a list, ...
CREATE TABLE program_values (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    value_index INTEGER NOT NULL,  -- position in the method, which arguments name
    kind VARCHAR NOT NULL,  -- null, int, bool, double, tensor, string, int_list, double_list, bool_list, tensor_list or optional_tensor_list
    scalar_type VARCHAR,  -- of a tensor: type of its elements, by torch's name
    sizes INTEGER[],  -- of a tensor: its sizes; upper bounds where the shape is dynamic
    byte_size BIGINT,  -- of a tensor: bytes of its elements; NULL where the type is unknown or the sizes are impossible
    dynamism VARCHAR,  -- of a tensor: static, dynamic_bound or dynamic_unbound
    name VARCHAR,  -- of a tensor: its name in the model, where the file says it
    constant_index BIGINT,  -- of a tensor with data in the file: which of the constant buffers, or of the mutable data where memory is planned for it, too
    memory_id BIGINT,  -- of a tensor with planned memory: the buffer that it lies in
    memory_offset BIGINT,  -- of a tensor with planned memory: its first byte in that buffer
    is_constant BOOLEAN NOT NULL,  -- whether it is a tensor whose data is in the file, or in another one, and that has no planned memory
    is_external BOOLEAN NOT NULL,  -- whether it is a tensor whose data is in another file, under its name
    is_input BOOLEAN NOT NULL,  -- whether it is an input of the method
    is_output BOOLEAN NOT NULL,  -- whether it is an output of the method
    number DOUBLE,  -- of an int, bool or double: its value
    text VARCHAR,  -- of a string: its value
    items BIGINT[]  -- of an int_list, tensor_list or optional_tensor_list: indexes of its values; -1 for none
);

-- One buffer of planned memory, which a runtime provides to a method.
CREATE TABLE planned_buffers (
    program_id INTEGER NOT NULL,  -- the program
    method VARCHAR NOT NULL,  -- the method
    buffer_index INTEGER NOT NULL,  -- the memory_id of the values that lie in it; 0 is reserved
    size_bytes BIGINT NOT NULL  -- its size
);
