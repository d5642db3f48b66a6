-- One op whose cost is known, and how it is counted; `node_costs` applies the formula to sizes. A multiplication and an
-- addition are two operations. A comparison, division, square root, exponential, logarithm, sine, tanh, erf or rounding
-- is one operation. Operations on integers count like those on floats. A factor that belongs to an addition (alpha,
-- beta) isn't counted. For products, convolutions and attention, the results equal those of torch's FlopCounterMode: a
-- sum of K products is 2 K operations, which includes the bias; padding is counted as if it were multiplied; the two
-- products of attention are counted for all positions, masked or not. Unlike FlopCounterMode, only half of these
-- operations are counted if attention is causal, as in FlashAttention's benchmarks. FlopCounterMode has no formulas for
-- other ops, nor for a matrix by a vector (mv, addmv, dot); they are counted here. In traces, a product or convolution
-- of complex numbers has four times the operations of real numbers, for its four multiplications and additions;
-- FlopCounterMode doesn't multiply by four. An elementwise addition of complex numbers has 2 operations, a
-- multiplication 6. The formula of a transform already counts complex numbers, and copies have no operations. The
-- operations of other ops on complex numbers are unknown.
-- Shown: op!, family!, counts, per_input#, per_output#, moves, formula!, sizes, writes
-- Columns:
--   op: the op without its overload: aten.addmm
--   counts: plain, if operations are per_input for each element of the first argument plus per_output for each element of the first output; otherwise the name of the rule that computes them, which the column formula describes
--   per_input: operations for each element of the first argument; if counts isn't plain, a number that its rule uses
--   per_output: operations for each element of the first output; if counts isn't plain, a number that its rule uses
--   moves: which bytes go through memory. `all`: it reads each argument once and writes each output once. `nothing`: it moves no bytes. `chosen`: it reads the indices, and as many bytes as it writes. `made`: it only writes. `update`: it reads and writes the first argument. `scattered`: it reads the indices and as many elements of the source as it writes; if it adds, it also reads the elements that it adds to. `looked up`: it reads a row for each index, and all other arguments. `rows`: a lower bound, the arguments without the tables, and, for a lookup, a row for each index, of at least 4 elements if its size is unknown. `targets`: it reads an element for each target, and all other arguments. `least`: a lower bound, which counts only the arguments that are read whole and the outputs whose sizes follow from arguments. `rotated`: it reads and writes the rotated elements, and reads a row of the table for each position. `slots`: it reads and writes a row for each slot, and reads the numbers of the slots. `latent`: it reads the queries and the cache's rows of all positions, and writes the output. `masked`: the bytes are unknown, but each tensor argument moves at most once. `products`: it reads the input, the weight and the output's gradient, and writes the gradients of input and weight. `experts`: it reads the tokens and the weights of the experts that are used, and writes the output; the bytes are unknown if the number of these experts is unknown and there are several tokens. `assumed experts`: like `experts`, with assumed sizes of the weights. `paged`: it reads the queries, and the keys and values of all positions in the type of the queries, and writes the output. `named`: each tensor argument moves once, if the kernel's time is long enough for that. `cache`, `depends`: shapes don't determine the bytes
--   formula: how its operations are counted, as text
--   family: what it computes: GEMM, convolution, attention, MoE, normalization, softmax, reduction, pooling, elementwise, embedding, optimizer, recurrence, transform, copy, fill, view
--   sizes: for ops of traces, how the sizes of the output follow from the arguments: first: as the first argument, or as all tensors of the first list; broadcast: by broadcasting; product: as a product; and so on; unknown if the sizes don't follow
--   writes: for ops of traces, the types of the values that it writes for each element of the output: first: the type of the first argument; promoted: the type that torch's promotion gives; and so on
CREATE VIEW cost_formulas AS
-- A text for many columns: each constant of a view takes time in each query.
SELECT unnest(string_split(k.ops, ' ')) AS op, k.rule[2] AS counts, k.rule[3]::INTEGER AS per_input,
    k.rule[4]::INTEGER AS per_output, k.rule[5] AS moves, k.formula, k.rule[1] AS family, k.rule[6] AS sizes,
    k.rule[7] AS writes
FROM (
    SELECT v.ops, string_split(v.rule, '|') AS rule, v.formula
    -- This row stands for the rows of `ingest/costs/formulas.toml`.
    FROM (VALUES ('ops', 'family|counts|0|0|moves|sizes|writes', 'text')) AS v (ops, rule, formula)
) AS k
ORDER BY 1;
