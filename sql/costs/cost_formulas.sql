-- One op whose cost is known, and how it is counted; `node_costs` applies the formula to sizes. A multiplication and an
-- addition are two operations; a comparison, division, square root, exponential, logarithm, sine, tanh, erf or rounding
-- is one; operations on integers count equally. A factor that belongs to an addition (alpha, beta) doesn't count. For
-- products, convolutions and attention the results equal those of torch's FlopCounterMode: a sum of K products is 2 K
-- operations, which includes the bias; padding counts as if it were multiplied; for attention, the two products count,
-- over all positions, masked or not, and over half of them if it is causal, as in FlashAttention's benchmarks.
-- FlopCounterMode has no formulas for other ops, nor for products with a vector (mv, addmv, dot); these are counted
-- here. In traces, a product or convolution of complex numbers counts four times as many operations as one of real
-- numbers, for its four multiplications and additions; FlopCounterMode does not count these. An elementwise addition of
-- complex numbers counts 2 and a multiplication 6; the operations of other ops of complex numbers are unknown.
-- Shown: op!, family!, counts, per_input#, per_output#, moves, formula!, sizes, writes
-- Columns:
--   op: the op without its overload: aten.addmm
--   counts: plain: per_input and per_output; else the name of the formula
--   per_input: operations for each element of its first argument
--   per_output: operations for each element of its first output
--   moves: bytes that go through memory: all: each argument read once, each output written once; nothing; chosen: reads as much as it writes, and indices; made: only writes; update: reads and writes the first argument; scattered: reads indices and as much as it writes, and, if it adds to its output, also what is there; looked up: reads a row for each index, and the other arguments; targets: reads an element for each target, and the other arguments; least: reads the arguments that its formula has, and writes its outputs, as far as sizes determine them; rotated: reads and writes what is rotated, and reads a row of the table for each position; slots: reads and writes as much as there are slots; latent: reads queries and the rows of the cache of all positions, writes the output; masked: at most each tensor that is named once; products: reads input, weight and gradient, writes those of input and weight; assumed experts: reads tokens and the weights of experts that are assumed, writes as much as tokens; paged: reads queries, and the keys and values of all positions, of the type of queries, writes the output; named: each tensor that is named once, if that fits into its time; cache, experts, depends: not determined by shapes
--   formula: how its operations are counted, as text
--   family: what it computes: GEMM, convolution, attention, MoE, normalization, softmax, reduction, pooling, elementwise, embedding, optimizer, recurrence, transform, copy, fill, view
--   sizes: how the sizes of its output follow from its arguments, for ops of traces: as the first, or as all of the first list, by broadcasting, as a product, ...; unknown where they don't follow from these
--   writes: types that it writes for each element of its output, for ops of traces: that of its first argument, the promoted type, ...
CREATE VIEW cost_formulas AS
-- A text for many columns: each constant of a view takes time in each query.
SELECT unnest(string_split(k.ops, ' ')) AS op, k.rule[2] AS counts, k.rule[3]::INTEGER AS per_input,
    k.rule[4]::INTEGER AS per_output, k.rule[5] AS moves, k.formula, k.rule[1] AS family, k.rule[6] AS sizes,
    k.rule[7] AS writes
FROM (
    SELECT v.ops, string_split(v.rule, '|') AS rule, v.formula
    -- In place of this row are those of `ingest/costs/formulas.toml`.
    FROM (VALUES ('ops', 'family|counts|0|0|moves|sizes|writes', 'text')) AS v (ops, rule, formula)
) AS k
ORDER BY 1;
