"""Operations and bytes of one call of each op, by hand from the ops' schemas: what is read and written, odd sizes, masks,
groups of heads, forward and backward."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest

from tests.sql.test_op_efficiency import APPLY, H100, HALF, launched, op, tensor
from tests.trace_builders import trace
from tests.warehouses import empty_warehouse

LONG, INT, INT8, FP8 = "long int", "int", "signed char", "c10::Float8_e4m3fn"
COMPLEX = "c10::complex<float>"
UNWRITTEN = "the trace lacks an argument that its formula needs"
LENGTHS = "the trace lacks the lengths of its sequences"
WINDOW = "it has a window, or the alignment of its mask is unknown"
AT_LEAST = "bytes: a lower bound; it also moves bytes that sizes don't show"
NONE = None

Inputs = list[Any]
Row = tuple[int | None, int | None, str | None]


def half(*sizes: int) -> tuple[list[int], str]:
    return tensor(*sizes, type=HALF)


# 2 sequences of 10 queries and 14 keys; 6 heads of queries, 2 of keys and values; of 32 elements.
QUERY, KEY = half(2, 10, 6, 32), half(2, 14, 2, 32)
Q, K, LSE = 2 * 10 * 6 * 32, 2 * 14 * 2 * 32, 2 * 10 * 6
SAME = [QUERY, half(2, 10, 2, 32), half(2, 10, 2, 32)]
K_SAME = 2 * 10 * 2 * 32
SUMS = tensor(2, 6, 10)
# The same sequences in one tensor, with where they begin.
PACKED, PACKED_KEY, STARTS = half(20, 6, 32), half(28, 2, 32), tensor(3, type=INT)
FORWARD = 2 * 2 * Q * 14
FORWARD_BYTES = 2 * (Q + 2 * K + Q) + 4 * LSE
BACKWARD = 5 * 2 * Q * 14
# Read: gradient, queries, keys, values, output, sums; written: three gradients.
BACKWARD_BYTES = 2 * (3 * Q + 2 * K) + 4 * LSE + 2 * (Q + 2 * K)

ATTENTION: dict[str, tuple[Inputs, Row]] = {
    "aten::_flash_attention_forward": (
        [QUERY, KEY, KEY, NONE, NONE, "10", "14", "0.", "False", "False", "0.17", NONE, NONE],
        (FORWARD, FORWARD_BYTES, None),
    ),
    "aten::_flash_attention_forward, causal": (
        [*SAME, NONE, NONE, "10", "10", "0.", "True", "False", "0.17", NONE, NONE],
        (Q * 2 * 10, 2 * (2 * Q + 2 * K_SAME) + 4 * LSE, None),
    ),
    "aten::_flash_attention_forward, causal of different lengths": (
        [QUERY, KEY, KEY, NONE, NONE, "10", "14", "0.", "True", "False", "0.17", NONE, NONE],
        (None, FORWARD_BYTES, WINDOW),
    ),
    "aten::_flash_attention_forward, with a window": (
        [QUERY, KEY, KEY, NONE, NONE, "10", "14", "0.", "False", "False", "0.17", "4", "4"],
        (None, FORWARD_BYTES, WINDOW),
    ),
    # Two sequences of the greatest length, each.
    "aten::_flash_attention_forward, packed": (
        [PACKED, PACKED_KEY, PACKED_KEY, STARTS, STARTS, "10", "14", "0.", "False", "False", "0.17", NONE, NONE],
        (FORWARD, FORWARD_BYTES + 2 * 3 * 4, None),
    ),
    "aten::_flash_attention_forward, packed of different lengths": (
        [PACKED, PACKED_KEY, PACKED_KEY, STARTS, STARTS, "11", "15", "0.", "False", "False", "0.17", NONE, NONE],
        (None, FORWARD_BYTES + 2 * 3 * 4, LENGTHS),
    ),
    "aten::_flash_attention_backward": (
        [QUERY, QUERY, KEY, KEY, QUERY, SUMS, NONE, NONE, "10", "14", "0.", "False", NONE, NONE, "0.17", NONE, NONE],
        (BACKWARD, BACKWARD_BYTES, None),
    ),
    "aten::_flash_attention_backward, causal": (
        [QUERY, *SAME, QUERY, SUMS, NONE, NONE, "10", "10", "0.", "True", NONE, NONE, "0.17", NONE, NONE],
        (5 * Q * 10, 2 * (4 * Q + 4 * K_SAME) + 4 * LSE, None),
    ),
    # Sums of exponentials of 32 queries for 10.
    "aten::_efficient_attention_forward": (
        [QUERY, KEY, KEY, NONE, NONE, NONE, NONE, NONE, "0.", "0", "True", "0.17", NONE, NONE],
        (FORWARD, 2 * (2 * Q + 2 * K) + 4 * 2 * 6 * 32, None),
    ),
    "aten::_efficient_attention_forward, causal": (
        [*SAME, NONE, NONE, NONE, NONE, NONE, "0.", "1", "False", "0.17", NONE, NONE],
        (Q * 2 * 10, 2 * (2 * Q + 2 * K_SAME), None),
    ),
    "aten::_efficient_attention_backward": (
        [QUERY, QUERY, KEY, KEY, NONE, QUERY, NONE, NONE, "10", "14", tensor(2, 6, 32), "0.", NONE, NONE, "0", "False",
         "0.17", NONE, NONE, "False"],
        (BACKWARD, BACKWARD_BYTES + 4 * (2 * 6 * 32 - LSE), None),
    ),
    "flash_attn::_flash_attn_backward": (
        [QUERY, QUERY, KEY, KEY, QUERY, SUMS, QUERY, KEY, KEY, "0.", "0.17", "False", "-1", "-1", "0.", NONE, "False"],
        (BACKWARD, BACKWARD_BYTES, None),
    ),
    "flash_attn::_flash_attn_backward, causal": (
        [QUERY, *SAME, QUERY, SUMS, *SAME, "0.", "0.17", "True", "-1", "0", "0.", NONE, "False"],
        (5 * Q * 10, 2 * (4 * Q + 4 * K_SAME) + 4 * LSE, None),
    ),
    "flash_attn::_flash_attn_varlen_forward": (
        [PACKED, PACKED_KEY, PACKED_KEY, STARTS, STARTS, "10", "14", "0.", "0.17", "False", "-1", "-1", "0.", NONE, "False",
         NONE, NONE, NONE, "False"],
        (FORWARD, FORWARD_BYTES + 2 * 3 * 4, None),
    ),
    # The keys of pages.
    "flash_attn::_flash_attn_varlen_forward, paged": (
        [PACKED, PACKED_KEY, PACKED_KEY, STARTS, STARTS, "10", "14", "0.", "0.17", "False", "-1", "-1", "0.", NONE, "False",
         tensor(2, 4, type=INT), NONE, NONE, "False"],
        (None, FORWARD_BYTES + 2 * 3 * 4 + 2 * 4 * 4, LENGTHS),
    ),
    "flash_attn::_flash_attn_varlen_backward": (
        [PACKED, PACKED, PACKED_KEY, PACKED_KEY, PACKED, tensor(6, 20), PACKED, PACKED_KEY, PACKED_KEY, STARTS, STARTS, "10",
         "14", "0.", "0.17", "False", "-1", "-1", "0.", NONE, "False"],
        (BACKWARD, BACKWARD_BYTES + 2 * 3 * 4, None),
    ),
    "flash_attn_3::fwd": (
        [QUERY, KEY, KEY, *[NONE] * 20, "0.17", "False", "-1", "-1", "0", "0."],
        (FORWARD, FORWARD_BYTES, None),
    ),
    "flash_attn_3::fwd into a tensor, causal": (
        [*SAME, NONE, NONE, NONE, QUERY, *[NONE] * 16, "0.17", "True", "-1", "0", "0", "0."],
        (Q * 2 * 10, 2 * (2 * Q + 2 * K_SAME) + 4 * LSE, None),
    ),
    "flash_attn_3::bwd": (
        [QUERY, QUERY, KEY, KEY, QUERY, SUMS, QUERY, KEY, KEY, *[NONE] * 6, "0.17", "False", "-1", "-1", "0."],
        (BACKWARD, BACKWARD_BYTES, None),
    ),
    "aiter::mha_fwd": (
        [QUERY, KEY, KEY, "0.", "0.17", "False", "-1", "-1", "0", "True", "False", NONE, NONE, NONE],
        (FORWARD, FORWARD_BYTES, None),
    ),
    "aiter::mha_varlen_fwd": (
        [PACKED, PACKED_KEY, PACKED_KEY, STARTS, STARTS, "10", "14", "0", "0.", "0.17", "0.", "False", "False", "-1", "-1", "0",
         "False", "False", NONE, NONE],
        (FORWARD, FORWARD_BYTES - 4 * LSE + 2 * 3 * 4, None),
    ),
    "aiter::mha_bwd": (
        [QUERY, QUERY, KEY, KEY, QUERY, SUMS, "0.", "0.17", "False", "-1", "-1", "False", NONE, NONE, NONE],
        (BACKWARD, BACKWARD_BYTES, None),
    ),
    "aiter::fmha_v3_bwd": (
        [QUERY, QUERY, KEY, KEY, QUERY, SUMS, "0.", "0.17", "False", "-1", "-1", "False", "True", "1", QUERY, KEY, KEY],
        (BACKWARD, BACKWARD_BYTES, None),
    ),
    "aiter::mha_varlen_bwd": (
        [PACKED, PACKED, PACKED_KEY, PACKED_KEY, PACKED, tensor(6, 20), STARTS, STARTS, "10", "14", "0.", "0.17", "False",
         "False", "-1", "-1", "False", PACKED, PACKED_KEY, PACKED_KEY],
        (BACKWARD, BACKWARD_BYTES + 2 * 3 * 4, None),
    ),
}  # fmt: skip

GEMMS: dict[str, tuple[Inputs, Row]] = {
    "bitsandbytes::int8_linear_matmul": (
        [tensor(7, 96, type=INT8), tensor(40, 96, type=INT8)], (2 * 7 * 40 * 96, 7 * 96 + 40 * 96 + 4 * 7 * 40, None),
    ),
    "bitsandbytes::int8_scaled_mm": (
        [tensor(7, 96, type=INT8), tensor(40, 96, type=INT8), tensor(7), tensor(40), NONE, "5"],
        (2 * 7 * 40 * 96, 7 * 96 + 40 * 96 + 4 * 47 + 2 * 7 * 40, None),
    ),
    "primus_turbo_cpp_extension::hipblaslt_gemm": (
        [half(7, 96), half(40, 96), "15", "False", "True", "False"],
        (2 * 7 * 40 * 96, 2 * (7 * 96 + 40 * 96 + 7 * 40), None),
    ),
    "primus_turbo_cpp_extension::hipblaslt_gemm, both transposed": (
        [half(96, 7), half(40, 96), "15", "True", "True", "False"],
        (2 * 7 * 40 * 96, 2 * (7 * 96 + 40 * 96 + 7 * 40), None),
    ),
    "primus_turbo_cpp_extension::hipblaslt_gemm_fp8": (
        [tensor(96, 7, type=FP8), tensor(1), tensor(96, 40, type=FP8), tensor(1), "15", "True", "False", "False", '"TENSORWISE"'],
        (2 * 7 * 40 * 96, 7 * 96 + 40 * 96 + 8 + 2 * 7 * 40, None),
    ),
    # 50 rows of 3 groups.
    "primus_turbo_cpp_extension::ck_grouped_gemm": (
        [half(50, 96), half(3, 40, 96), tensor(3, type=LONG), tensor(4, type=LONG), "False", "True"],
        (2 * 50 * 40 * 96, 2 * (50 * 96 + 3 * 40 * 96 + 50 * 40) + 8 * 7, None),
    ),
    "primus_turbo_cpp_extension::ck_grouped_gemm_variable_k": (
        [half(50, 96), half(50, 40), tensor(3, type=LONG), tensor(4, type=LONG), "True", "False"],
        (2 * 50 * 40 * 96, 2 * (50 * 96 + 50 * 40 + 3 * 96 * 40) + 8 * 7, None),
    ),
    # Of 96, whichever of its factors is transposed.
    "tex_ts::te_gemm_ts": (
        [half(40, 96), tensor(0), "0", "5", "1", half(7, 96), tensor(0), "0", "5", "0", half(7, 40)],
        (2 * 7 * 40 * 96, 2 * (7 * 96 + 40 * 96 + 7 * 40), None),
    ),
}  # fmt: skip

# 12 elements in rows of 4, and an index for 8 of them.
ROWS, PART, INDEX = tensor(3, 4), tensor(2, 4), tensor(2, 4, type=LONG)
CHOSEN: dict[str, tuple[Inputs, Row]] = {
    # Indices and what is copied; what is added to is read, too.
    "aten::scatter_": ([ROWS, "0", INDEX, PART], (0, 8 * 8 + 4 * 8 + 4 * 8, None)),
    "aten::scatter_ of a number": ([ROWS, "0", INDEX, "0"], (0, 8 * 8 + 4 * 8, None)),
    "aten::scatter_add_": ([ROWS, "0", INDEX, PART], (8, 8 * 8 + 3 * 4 * 8, None)),
    "aten::scatter_reduce_": ([ROWS, "0", INDEX, PART, '"amax"', "True"], (8, 8 * 8 + 3 * 4 * 8, None)),
    # As torch 2.13 writes it: nothing of the indices.
    "aten::index": ([ROWS, NONE], (0, None, "bytes: the trace lacks the sizes of its indices")),
    "aten::index_add_": ([ROWS, "0", tensor(2, type=LONG), PART, "1"], (8, 8 * 2 + 3 * 4 * 8, None)),
    "aten::index_copy_": ([ROWS, "0", tensor(2, type=LONG), PART], (0, 8 * 2 + 2 * 4 * 8, None)),
    "aten::index_fill_": ([ROWS, "1", tensor(2, type=LONG), "0"], (0, 8 * 2 + 4 * 6, None)),
    "aten::index_put_": ([ROWS, [[2]], PART, "False"], (0, 2 * 4 * 8, AT_LEAST)),
    "aten::index_put_ that adds": ([ROWS, [[2]], PART, "True"], (8, 2 * 4 * 8, AT_LEAST)),
    "aten::index_put_ of a number": ([ROWS, [[3, 4]], tensor(), "False"], (0, 4, AT_LEAST)),
    "aten::masked_select": ([ROWS, tensor(3, 4, type="bool")], (0, 4 * 12 + 12, AT_LEAST)),
    "aten::nonzero": ([tensor(3, 4, type="bool")], (12, 12, AT_LEAST)),
    "aten::topk": ([tensor(6, 50), "5", "-1", "True", "True"], (300, 4 * 300 + 6 * 5 * (4 + 8), None)),
    "aten::topk of the first dimension": ([tensor(50, 6), "5", "0", "True", "True"], (300, 4 * 300 + 6 * 5 * (4 + 8), None)),
    "aten::topk into tensors": (
        [tensor(6, 50), "5", "-1", "True", "True", tensor(6, 5), tensor(6, 5, type=LONG)], (300, 4 * 300 + 6 * 5 * (4 + 8), None),
    ),
    "aten::sort": ([half(6, 64), "-1", "False"], (6 * 64 * 6, 6 * 64 * (2 + 2 + 8), None)),
    "aten::sort, stable": ([half(64, 6), "True", "0", "False"], (6 * 64 * 6, 6 * 64 * (2 + 2 + 8), None)),
    "aten::sort of 50": ([tensor(50), "0", "False"], (round(50 * log2(50)), 50 * (4 + 4 + 8), None)),
    "aten::cummax": ([ROWS, "0"], (12, 12 * (4 + 4 + 8), None)),
    "aten::kthvalue": ([ROWS, "2", "1", "False"], (12, 4 * 12 + 3 * (4 + 8), None)),
    "aten::tril": ([ROWS, "0"], (0, 2 * 4 * 12, None)),
    # 9 indices in 4 bags, of rows of 6: it also writes the bag of each index, and the size of each bag.
    "aten::_embedding_bag": (
        [tensor(100, 6), tensor(9, type=LONG), tensor(4, type=LONG), "False", "0", "False", NONE, "False", "-1"],
        (9 * 6, 4 * 9 * 6 + 8 * (9 + 4) + 4 * 4 * 6 + 8 * (9 + 4), None),
    ),
    "aten::_embedding_bag of means with weights": (
        [tensor(100, 6), tensor(9, type=LONG), tensor(5, type=LONG), "False", "1", "False", tensor(9), "True", "-1"],
        (2 * 9 * 6 + 4 * 6, 4 * 9 * 6 + 8 * (9 + 5) + 4 * 9 + 4 * 4 * 6 + 8 * (9 + 4), None),
    ),
    "aten::_embedding_bag_dense_backward": (
        [tensor(4, 6), tensor(9, type=LONG), tensor(9, type=LONG), tensor(4, type=LONG), tensor(0, type=LONG), "100", "False",
         "0", NONE, "-1"],
        (9 * 6, 4 * 24 + 8 * (9 + 9 + 4), AT_LEAST),
    ),
}  # fmt: skip

CLASSES, TARGETS = half(7, 96), tensor(7, type=LONG)
LOSSES: dict[str, tuple[Inputs, Row]] = {
    # An element for each target; the loss and the sum of weights.
    "aten::nll_loss_forward": ([CLASSES, TARGETS, NONE, "1", "-100"], (14, 8 * 7 + 2 * 7 + 2 * 2, None)),
    "aten::nll_loss_forward of each": ([CLASSES, TARGETS, NONE, "0", "-100"], (14, 8 * 7 + 2 * 7 + 2 * 7, None)),
    "aten::nll_loss_forward with weights": ([CLASSES, TARGETS, half(96), "2", "-100"], (21, 8 * 7 + 2 * 7 + 2 * 7 + 2 * 2, None)),
    "aten::nll_loss2d_forward": (
        [tensor(2, 5, 4, 3), tensor(2, 4, 3, type=LONG), NONE, "1", "-100"], (48, 24 * (8 + 4) + 4 * 2, None),
    ),
    "aten::nll_loss_backward": ([half(), CLASSES, TARGETS, NONE, "1", "-100", half()], (7, 8 * 7 + 2 * 2 + 2 * 7, None)),
    "aten::nll_loss2d_backward": (
        [tensor(), tensor(2, 5, 4, 3), tensor(2, 4, 3, type=LONG), NONE, "1", "-100", tensor()], (24, 24 * (8 + 4) + 2 * 4, None),
    ),
    "aten::huber_loss": ([ROWS, ROWS, "0", "1."], (6 * 12, 3 * 4 * 12, None)),
    "aten::smooth_l1_loss": ([ROWS, ROWS, "1", "1."], (7 * 12, 2 * 4 * 12 + 4, None)),
    "aten::smooth_l1_loss_backward": ([tensor(), ROWS, ROWS, "1", "1."], (6 * 12, 3 * 4 * 12 + 4, None)),
    "aten::binary_cross_entropy": ([ROWS, ROWS, NONE, "1"], (10 * 12, 2 * 4 * 12 + 4, None)),
    "aten::binary_cross_entropy_backward": ([tensor(), ROWS, ROWS, NONE, "1"], (6 * 12, 3 * 4 * 12 + 4, None)),
    # Sequences of 20 and 30 positions, of 5 and 8 labels: 20 * 11 + 30 * 17.
    "aten::_ctc_loss": (
        [tensor(30, 2, 12), tensor(2, 8, type=LONG), "[20, 30]", "[5, 8]", "0", "False"],
        (13 * 730, 4 * 720 + 8 * 16, AT_LEAST),
    ),
    "aten::_ctc_loss, lengths in tensors": (
        [tensor(30, 2, 12), tensor(2, 8, type=LONG), tensor(2, type=LONG), tensor(2, type=LONG), "0", "False"],
        (None, 4 * 720 + 8 * 20, LENGTHS),
    ),
    "aten::_ctc_loss_backward": (
        [tensor(2), tensor(30, 2, 12), tensor(2, 8, type=LONG), "[20, 30]", "[5, 8]", tensor(2), tensor(2, 30, 17), "0", "False"],
        (22 * 730 + 6 * 720, 4 * (2 + 720 + 2 + 1020) + 8 * 16 + 4 * 720, AT_LEAST),
    ),
}  # fmt: skip

SIGNAL, COMPLEX_SIGNAL = tensor(3, 6, 16), tensor(3, 6, 16, type=COMPLEX)
TRANSFORMS: dict[str, tuple[Inputs, Row]] = {
    "aten::_fft_c2c": ([COMPLEX_SIGNAL, "[2]", "0", "True"], (5 * 288 * 4, 2 * 8 * 288, None)),
    "aten::_fft_c2c of two dimensions": ([COMPLEX_SIGNAL, "[1, 2]", "0", "True"], (round(5 * 288 * log2(96)), 2 * 8 * 288, None)),
    # Half of the frequencies, and that of zero.
    "aten::_fft_r2c": ([SIGNAL, "[2]", "0", "True"], (5 * 288 * 4 // 2, 4 * 288 + 8 * 3 * 6 * 9, None)),
    "aten::_fft_r2c of all": ([SIGNAL, "[2]", "0", "False"], (5 * 288 * 4 // 2, 4 * 288 + 8 * 288, None)),
    "aten::_fft_c2r": ([tensor(3, 6, 9, type=COMPLEX), "[2]", "2", "16"], (5 * 288 * 4 // 2, 8 * 162 + 4 * 288, None)),
}  # fmt: skip

# 5 positions of 2 sequences of 24 elements; a state of 32; two layers, in both directions.
SEQUENCES, STATE, HIDDEN = tensor(5, 2, 24), tensor(4, 2, 32), 32
WEIGHTS = 4 * HIDDEN * (24 + HIDDEN) + 4 * HIDDEN * (2 * HIDDEN + HIDDEN)  # of one direction
BUFFER = tensor(2 * WEIGHTS + 2 * 2 * 8 * HIDDEN)
RECURRENT = ["2", "32", "0", "2", "False", "0.", "True", "True", "[]", NONE]
RNN = 2 * 10 * 2 * WEIGHTS
RNN_BYTES = 4 * (240 + BUFFER[0][0] + 2 * 256 + 10 * 64)
RNNS: dict[str, tuple[Inputs, Row]] = {
    "aten::_cudnn_rnn": ([SEQUENCES, [[1]] * 16, "4", BUFFER, STATE, STATE, *RECURRENT], (RNN, RNN_BYTES, AT_LEAST)),
    # Of three gates, one layer and direction, with a projection for none.
    "aten::_cudnn_rnn of a GRU": (
        [SEQUENCES, [[1]] * 4, "4", tensor(5568), tensor(1, 2, 32), NONE, "3", "32", "0", "1", "False", "0.", "True", "False", "[]",
         NONE],
        (2 * 10 * 3 * 32 * (24 + 32), 4 * (240 + 5568 + 64 + 10 * 32), AT_LEAST),
    ),
    # The state is projected from 32 to 8.
    "aten::_cudnn_rnn of a projection": (
        [SEQUENCES, [[1]] * 5, "5", tensor(4608), tensor(1, 2, 8), tensor(1, 2, 32), "2", "32", "8", "1", "False", "0.", "True",
         "False", "[]", NONE],
        (2 * 10 * (4 * 32 * (24 + 8) + 32 * 8), 4 * (240 + 4608 + 16 + 64 + 10 * 8), AT_LEAST),
    ),
    "aten::_cudnn_rnn_backward": (
        [SEQUENCES, [[1]] * 16, "4", BUFFER, STATE, STATE, tensor(5, 2, 64), tensor(5, 2, 64), NONE, NONE, *RECURRENT,
         tensor(999, type="unsigned char"), "[True, True, True, True]"],
        (2 * RNN, 4 * (240 + BUFFER[0][0] + 2 * 256 + 2 * 640 + 240), AT_LEAST),
    ),
    "aten::_cudnn_rnn_backward of the input": (
        [SEQUENCES, [[1]] * 16, "4", BUFFER, STATE, STATE, tensor(5, 2, 64), tensor(5, 2, 64), NONE, NONE, *RECURRENT,
         tensor(999, type="unsigned char"), "[True, False, False, False]"],
        (RNN, 4 * (240 + BUFFER[0][0] + 2 * 256 + 2 * 640 + 240), AT_LEAST),
    ),
    "aten::miopen_rnn": (
        [SEQUENCES, [[1]] * 16, "4", STATE, STATE, "2", "32", "2", "False", "0.", "True", "True", "[]", NONE],
        (RNN, 4 * (240 + 2 * 256 + 10 * 64), AT_LEAST),
    ),
    "aten::mkldnn_rnn_layer": (
        [SEQUENCES, tensor(128, 24), tensor(128, 32), tensor(128), tensor(128), tensor(2, 32), tensor(2, 32), "False", "[]", "2",
         "32", "1", "True", "False", "False", "True"],
        (2 * 10 * 128 * 56, 4 * (240 + 128 * 56 + 256 + 128 + 10 * 32), AT_LEAST),
    ),
    # Four gates of 64 elements; state, cell and gates are written.
    "aten::_thnn_fused_lstm_cell": (
        [tensor(2, 128), tensor(2, 128), tensor(2, 32), tensor(128), tensor(128)],
        ((22 + 8) * 64, 4 * (512 + 64 + 256) + 4 * 6 * 64, None),
    ),
    "aten::_thnn_fused_gru_cell": (
        [tensor(2, 96), tensor(2, 96), tensor(2, 32), NONE, NONE], (16 * 64, 4 * (384 + 64) + 4 * 6 * 64, None),
    ),
    "aten::_thnn_fused_lstm_cell_backward_impl": (
        [tensor(2, 32), NONE, tensor(2, 32), tensor(2, 32), tensor(2, 128), "True"], (23 * 64, 4 * (3 * 64 + 256) + 4 * 5 * 64, None),
    ),
    "aten::_thnn_fused_gru_cell_backward": ([tensor(2, 32), tensor(2, 160), "True"], (16 * 64, 4 * (64 + 320) + 4 * 7 * 64, None)),
}  # fmt: skip

IMAGE, SMALL, GRID = tensor(2, 3, 8, 6), tensor(2, 3, 4, 3), tensor(2, 4, 3, 2)
IMAGES: dict[str, tuple[Inputs, Row]] = {
    "aten::grid_sampler_2d": ([IMAGE, GRID, "0", "0", "False"], (7 * 72, 4 * 48 + 4 * 72, AT_LEAST)),
    "aten::grid_sampler_2d of the nearest": ([IMAGE, GRID, "1", "0", "False"], (0, 4 * 48 + 4 * 72, AT_LEAST)),
    "aten::cudnn_grid_sampler": ([IMAGE, GRID], (7 * 72, 4 * 48 + 4 * 72, AT_LEAST)),
    "aten::grid_sampler_3d": (
        [tensor(2, 3, 4, 4, 4), tensor(2, 2, 2, 2, 3), "0", "0", "False"], (15 * 48, 4 * 48 + 4 * 48, AT_LEAST),
    ),
    "aten::grid_sampler_2d_backward": (
        [SMALL, IMAGE, GRID, "0", "0", "False", "[True, True]"], ((8 + 24) * 72, 4 * (72 + 48) + 4 * 288, AT_LEAST),
    ),
    # 5 regions, of 2 x 2 with 2 x 2 samples each.
    "torchvision::roi_align": ([IMAGE, tensor(5, 5), "1.", "2", "2", "2", "True"], (33 * 60, 4 * 25 + 4 * 60, AT_LEAST)),
    "torchvision::roi_align, samples by regions": ([IMAGE, tensor(5, 5), "1.", "2", "2", "-1", "True"], (None, 4 * 25 + 4 * 60, UNWRITTEN)),
    "aten::upsample_bicubic2d": ([SMALL, "[8, 6]", "False", NONE, NONE], (35 * 288, 4 * (72 + 288), None)),
    "aten::upsample_trilinear3d": ([tensor(1, 2, 3, 3, 3), "[6, 6, 6]", "False"], (15 * 432, 4 * (54 + 432), None)),
    "aten::upsample_linear1d": ([tensor(1, 2, 3), "[6]", "False"], (3 * 12, 4 * (6 + 12), None)),
    "aten::upsample_bilinear2d_backward": ([IMAGE, "[8, 6]", "[2, 3, 4, 3]", "False"], (8 * 288, 4 * (288 + 72), None)),
    "aten::upsample_nearest2d_backward": ([IMAGE, "[8, 6]", "[2, 3, 4, 3]"], (288, 4 * (288 + 72), None)),
    # Windows of 2 x 2; the input isn't read.
    "aten::avg_pool2d_backward": (
        [SMALL, IMAGE, "[2, 2]", "[2, 2]", "[0, 0]", "False", "True", NONE], (5 * 72, 4 * (72 + 288), None),
    ),
    # Windows of 8 + 4 - 4 by 6 + 3 - 3, for each of 6 images.
    "aten::_adaptive_avg_pool2d_backward": ([SMALL, IMAGE], (6 * 8 * 6 + 72, 4 * (72 + 288), None)),
    "aten::adaptive_max_pool2d": ([IMAGE, "[4, 3]"], (6 * 8 * 6, 4 * 288 + 72 * (4 + 8), None)),
    "aten::adaptive_max_pool2d_backward": ([SMALL, IMAGE, tensor(2, 3, 4, 3, type=LONG)], (72, 4 * 72 + 8 * 72 + 4 * 288, None)),
    "aten::max_pool2d_with_indices_backward": (
        [SMALL, IMAGE, "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False", tensor(2, 3, 4, 3, type=LONG)],
        (72, 4 * 72 + 8 * 72 + 4 * 288, None),
    ),
    "aten::batch_norm_stats": ([IMAGE, "1e-05"], (4 * 288, 4 * 288 + 8 * 3, None)),
    "aten::batch_norm_elemt": ([IMAGE, *[tensor(3)] * 4, "1e-05"], (4 * 288, 2 * 4 * 288 + 4 * 12, None)),
    "aten::batch_norm_backward_reduce": (
        [IMAGE, IMAGE, tensor(3), tensor(3), tensor(3), "True", "True", "True"], (4 * 288, 2 * 4 * 288 + 4 * 9 + 16 * 3, None),
    ),
    "aten::batch_norm_backward_elemt": (
        [IMAGE, IMAGE, *[tensor(3)] * 5, tensor(2, type=INT)], (5 * 288, 3 * 4 * 288 + 4 * 15 + 4 * 2, None),
    ),
}  # fmt: skip

OTHERS: dict[str, tuple[Inputs, Row]] = {
    "aten::glu": ([tensor(3, 8), "-1"], (5 * 12, 4 * (24 + 12), None)),
    # A convolution of 2 x 3 x 6 x 6 by 4 windows of 3 x 2 x 2, to 2 x 4 x 5 x 5.
    "aten::cudnn_convolution_backward_weight": (
        ["[4, 3, 2, 2]", half(2, 4, 5, 5), half(2, 3, 6, 6), "[0, 0]", "[1, 1]", "[1, 1]", "1", "False", "False", "False"],
        (2 * 200 * 12, 2 * (200 + 216) + 2 * 48, None),
    ),
    "aten::cudnn_convolution_backward_input": (
        ["[2, 3, 6, 6]", half(2, 4, 5, 5), half(4, 3, 2, 2), "[0, 0]", "[1, 1]", "[1, 1]", "1", "False", "False", "False"],
        (2 * 200 * 12, 2 * (200 + 48) + 2 * 216, None),
    ),
    "aten::batch_norm": (
        [tensor(2, 3, 4, 4), *[tensor(3)] * 4, "False", "0.1", "1e-05", "True"], (4 * 96, 4 * (96 + 12) + 4 * 96 + 4 * 2 * 3, None),
    ),
    "aten::glu_backward": ([tensor(3, 4), tensor(3, 8), "-1"], (9 * 12, 4 * (12 + 24 + 24), None)),
    "aten::mish": ([ROWS], (4 * 12, 2 * 4 * 12, None)),
    "aten::mish_backward": ([ROWS, ROWS], (13 * 12, 3 * 4 * 12, None)),
    "aten::hardswish_backward": ([ROWS, ROWS], (5 * 12, 3 * 4 * 12, None)),
    "aten::softplus_backward": ([ROWS, ROWS, "1", "20"], (6 * 12, 3 * 4 * 12, None)),
    "aten::erfc": ([ROWS], (12, 2 * 4 * 12, None)),
    "aten::_fused_dropout": ([half(3, 4), "0.5", NONE], (2 * 12, 12 * (2 + 2 + 1), None)),
    "aten::std_mean": ([ROWS, "[1]", "1", "False"], (4 * 12 + 3 * 3, 4 * 12 + 2 * 4 * 3, None)),
    "aten::count_nonzero": ([ROWS, "[0]"], (2 * 12, 4 * 12 + 8 * 4, None)),
    "aten::empty": (["[3, 4]", "6", NONE, NONE, NONE, NONE], (0, 0, None)),
    "aten::_local_scalar_dense": ([tensor()], (0, 8, None)),
    "aten::lerp": ([ROWS, ROWS, "0.1"], (3 * 12, 3 * 4 * 12, None)),
    "aten::addcdiv": ([ROWS, ROWS, ROWS, "1"], (2 * 12, 4 * 4 * 12, None)),
    "aten::sigmoid_backward": ([ROWS, ROWS], (3 * 12, 3 * 4 * 12, None)),
    "aten::tanh_backward": ([ROWS, ROWS], (3 * 12, 3 * 4 * 12, None)),
    "aten::silu_backward": ([ROWS, ROWS], (9 * 12, 3 * 4 * 12, None)),
    "aten::mse_loss": ([ROWS, ROWS, "1"], (3 * 12, 2 * 4 * 12 + 4, None)),
    "aten::mse_loss_backward": ([tensor(), ROWS, ROWS, "1"], (3 * 12, 4 + 3 * 4 * 12, None)),
    "aten::masked_fill_": ([ROWS, tensor(3, 4, type="bool"), "0."], (12, 12 * (4 + 1 + 4), None)),
    "aten::lt": ([ROWS, "0"], (12, 12 * (4 + 1), None)),
    "aten::elu": ([ROWS, "1", "1", "1"], (4 * 12, 2 * 4 * 12, None)),
    "aten::leaky_relu": ([ROWS, "0.1"], (2 * 12, 2 * 4 * 12, None)),
    "aten::native_dropout_backward": ([ROWS, tensor(3, 4, type="bool"), "2."], (2 * 12, 12 * (4 + 1 + 4), None)),
    "aten::var": ([ROWS, "[1]", "1", "False"], (4 * 12 + 2 * 3, 4 * 12 + 4 * 3, None)),
    "aten::prod": ([ROWS, NONE], (12, 4 * 12 + 4, None)),
    # 3 x 6 x 6 by 4 windows of 3 x 2 x 2, as above; with a bias.
    "aten::cudnn_convolution": (
        [half(2, 3, 6, 6), half(4, 3, 2, 2), "[0, 0]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"],
        (2 * 200 * 12, 2 * (216 + 48 + 200), None),
    ),
    "aten::miopen_convolution": (
        [half(2, 3, 6, 6), half(4, 3, 2, 2), half(4), "[0, 0]", "[1, 1]", "[1, 1]", "1", "False", "False"],
        (2 * 200 * 12, 2 * (216 + 48 + 4 + 200), None),
    ),
    "aten::max_pool3d_with_indices": (
        [tensor(1, 2, 4, 4, 4), "[2, 2, 2]", "[2, 2, 2]", "[0, 0, 0]", "[1, 1, 1]", "False"],
        (16 * 8, 4 * 128 + 16 * (4 + 8), None),
    ),
    "aten::cudnn_batch_norm": (
        [tensor(2, 3, 4, 4), *[tensor(3)] * 4, "True", "0.1", "1e-05"],
        (8 * 96, 4 * (96 + 12) + 4 * 96 + 4 * 2 * 3, None),
    ),
}  # fmt: skip

TWO = [[3, 4], [2, 4]]  # 20 parameters
STEPS: list[list[int]] = [[], []]
ADAM = APPLY.format("FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>", "float const*")
MAXIMA = APPLY.format("FusedAdamMathFunctor<float, 5, (at::native::ADAM_MODE)0, true>", "float const*")
SGD = APPLY.format("FusedSgdMathFunctor<c10::BFloat16, 3>", "double")
UNARY = APPLY.format("UnaryOpFunctor<c10::Half, 1, 1, 0>", "Sigmoid<float>")
# Calls of ops of lists, with the kernels that tell their types.
LISTS: dict[str, tuple[str, Inputs, Row]] = {
    "aten::_foreach_lerp_": (
        APPLY.format("TernaryOpScalarFunctor<float, 2, 2, 0>", "LerpFunctor<float>"), [TWO, TWO, "0.1"],
        (3 * 20, 3 * 4 * 20, None),
    ),
    # Read are parameters, gradients, means, squares and steps; parameters, means and squares are written.
    "aten::_fused_adamw_": (
        ADAM, [TWO, TWO, TWO, TWO, [], STEPS, "1e-3", "0.9", "0.999", "0.01", "1e-8", "False", "False", NONE, NONE],
        (15 * 20, 4 * (4 * 20 + 2) + 4 * 3 * 20, None),
    ),
    "aten::_fused_adam_ with maxima": (
        MAXIMA, [TWO, TWO, TWO, TWO, TWO, STEPS, "1e-3", "0.9", "0.999", "0.", "1e-8", "True", "False", NONE, NONE],
        (14 * 20, 4 * (5 * 20 + 2) + 4 * 4 * 20, None),
    ),
    "aten::_fused_adamw_ of a rate in a tensor": (
        ADAM, [TWO, TWO, TWO, TWO, [], STEPS, tensor(), "0.9", "0.999", "0.", "1e-8", "False", "False", NONE, NONE],
        (13 * 20, 4 * (4 * 20 + 3) + 4 * 3 * 20, None),
    ),
    "aten::_fused_sgd_": (
        SGD, [TWO, TWO, TWO, "0.1", "0.9", "1e-3", "0.", "True", "False", "False", NONE, NONE],
        ((2 + 2 + 3 + 2) * 20, 2 * 3 * 20 + 2 * 2 * 20, None),
    ),
    "aten::_fused_sgd_ without momentum": (
        SGD, [TWO, TWO, [], "0.", "0.", "1e-3", "0.", "False", "False", "False", NONE, NONE],
        (2 * 20, 2 * 2 * 20 + 2 * 20, None),
    ),
    "aten::_amp_foreach_non_finite_check_and_unscale_": (
        UNARY, [TWO, tensor(), tensor()], (2 * 20, 2 * 2 * 20 + 8, None),
    ),
    "aten::_foreach_sigmoid_": (UNARY, [TWO], (4 * 20, 2 * 2 * 20, None)),
}  # fmt: skip

KERNEL = "some_kernel"
TABLE = {
    name: (KERNEL, *rest)
    for part in (ATTENTION, GEMMS, CHOSEN, LOSSES, TRANSFORMS, RNNS, IMAGES, OTHERS)
    for name, rest in part.items()
} | LISTS


@pytest.fixture(scope="module")
def found() -> dict[str, Row]:
    """What `op_efficiency` says of the calls of the table, which take each another time."""
    events: list[dict[str, Any]] = []
    for at, (name, (kernel, inputs, _)) in enumerate(TABLE.items()):
        label = name.replace(",", "").split(" ", maxsplit=1)[0]
        events += [op(label, 1000 * at, 1000 * at + 9, *inputs), *launched(kernel, 1000 * at + 1, 5 + at, at + 1)]
    with empty_warehouse() as warehouse:
        warehouse.ingest(trace(*events, **H100), name="t")
        rows = warehouse.rows(
            "SELECT e.total, e.flops, e.bytes, e.reason FROM op_efficiency('t') AS e ORDER BY e.total"
        )[1]
    assert [total for total, *_ in rows] == [5 + at for at in range(len(TABLE))]
    return {name: (flops, moved, reason) for name, (_, flops, moved, reason) in zip(TABLE, rows, strict=True)}


@pytest.mark.parametrize("name", TABLE)
def test_by_hand(found: dict[str, Row], name: str) -> None:
    assert found[name] == TABLE[name][2]


def test_enough_kinds() -> None:
    assert len({name.replace(",", "").split(" ")[0] for name in TABLE}) >= 60
