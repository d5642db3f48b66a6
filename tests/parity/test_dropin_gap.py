"""`calculate_numeric_gap` of the drop-in Inspector, against executorch's answers. Needs torch."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from etq import EtqError, Inspector
from etq.inspector.comparators import L1Comparator, MSEComparator, NumericalComparatorBase, SNRComparator
from etq.inspector.gaps import _compared, _pairs
from etq.inspector.op_values import OpValue
from etq.inspector.tensors import tensor_of
from tests.conftest import CAPTURES
from tests.parity import oracle

COLUMNS = [
    *("aot_debug_handle", "aot_ops", "aot_intermediate_output", "runtime_ops", "runtime_debug_handle"),
    *("runtime_intermediate_output", "gap", "stacktraces"),
]


def inspector(model: str, **more: Any) -> Inspector:
    folder = CAPTURES / model
    given = {"etrecord": str(folder / f"{model}.etrecord"), "debug_buffer_path": str(folder / f"{model}_debug.bin")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Inspector(etdump_path=str(folder / f"{model}_debug.etdp"), **{**given, **more})


def test_required_arguments_are_named() -> None:
    for missing in ("etrecord", "debug_buffer_path"):
        with pytest.raises(EtqError, match=f"give {missing}"):
            inspector("mlp", **{missing: None}).calculate_numeric_gap("MSE")


@pytest.mark.parametrize("comparator", [MSEComparator(), L1Comparator(), SNRComparator()])
def test_what_comparators_refuse(comparator: Any) -> None:
    """As executorch's do, with a ValueError; sequences are not values there."""
    for other in (np.zeros(4), object()):
        with pytest.raises(ValueError):
            comparator.element_compare(np.zeros(3), other)
    with pytest.raises(TypeError):
        comparator.element_compare([1.0], [1.0])


torch = pytest.importorskip("torch", reason="running a program needs torch")


def assert_gap(found: Any, expected: dict[str, Any], distance: str) -> None:
    """The distance is that of the two values in the row, and its size that of the oracle's.

    The reference is run here, and another processor's kernels round otherwise: by some units of the last place of its
    largest value, which is all that most gaps are.
    """
    aot, runtime = (
        np.asarray(each, np.float64) for each in (found.aot_intermediate_output, found.runtime_intermediate_output)
    )
    noise = float(np.sqrt(np.mean((aot - runtime) ** 2)))
    power = float(np.mean(aot**2))
    by_hand = {"MSE": noise**2, "L1": float(np.abs(aot - runtime).sum()), "SNR": 10 * math.log10(power / noise**2)}
    assert math.isclose(found.gap[0], by_hand[distance], rel_tol=1e-9)
    ours, theirs = (_noise(gap, distance, aot.size, power) for gap in (found.gap[0], expected["gap"][0]))
    unit = float(np.finfo(np.float32).eps) * float(np.abs(aot).max())
    assert abs(ours - theirs) <= 2 * unit
    first = expected["aot_intermediate_output"]["first8"]
    assert np.allclose(aot.reshape(-1)[: len(first)], first, rtol=0, atol=16 * unit)


def _noise(gap: float, distance: str, elements: int, power: float) -> float:
    """The mean difference of an element that a distance tells of: of L1 the arithmetic mean, else the root of the
    mean square.
    """
    if distance == "L1":
        return gap / elements
    return math.sqrt(gap) if distance == "MSE" else math.sqrt(power) / 10 ** (gap / 20)


@pytest.mark.parametrize("distance", ["MSE", "L1", "SNR", MSEComparator()], ids=["MSE", "L1", "SNR", "comparator"])
@pytest.mark.parametrize("model", ["mlp", "convnet", "convnet_xnn"])
def test_gaps(model: str, distance: Any) -> None:
    frame = inspector(model).calculate_numeric_gap(distance)
    metric = distance if isinstance(distance, str) else "MSE"
    theirs = oracle.answer(f"{model}_debug", "with_etrecord")["numeric_gap"][f"{metric}/None"]["value"]
    assert list(frame.columns) == [*COLUMNS, "problem", "mapping"] and theirs["columns"] == COLUMNS
    ours = {row.aot_debug_handle[-1]: row for row in frame.itertuples() if row.problem is None}
    for row in theirs["rows"]:
        expected = dict(zip(COLUMNS, row, strict=True))
        found = ours[expected["runtime_debug_handle"][-1]]
        assert list(found.runtime_debug_handle) == expected["runtime_debug_handle"]
        assert set(found.aot_ops) == set(expected["aot_ops"])
        assert found.runtime_ops == expected["runtime_ops"]
        assert list(found.runtime_intermediate_output.shape) == expected["runtime_intermediate_output"]["shape"]
        assert_gap(found, expected, metric)
        assert {name: found.stacktraces[name] for name in expected["stacktraces"]} == expected["stacktraces"]


def test_an_op_of_several_outputs_has_a_row_for_each() -> None:
    """The linear layer of 3 x 32 features is split into query, key and value; executorch has no row for the split."""
    frame = inspector("transformer").calculate_numeric_gap("MSE")
    ours = frame[[len(ops) == 1 and ops[0].startswith("split") for ops in frame["aot_ops"]]]
    assert [tuple(value.shape) for value in ours["runtime_intermediate_output"]] == 6 * [(1, 16, 32)]
    assert {*ours["aot_debug_handle"]} == {(3,), (26,)} and max(gap for (gap,) in ours["gap"]) < 1e-12


class Largest(NumericalComparatorBase):
    """A comparator of the user's, which looks at the pairs first, and can't compare some."""

    def preprocessing(self, mapping: Any) -> Any:
        assert self.inspector is not None
        return {key: (handles, 2 * value) for key, (handles, value) in mapping.items()}

    def element_compare(self, a: Any, b: Any) -> float:
        if a.shape[-1] != 32:
            raise ValueError("not these")
        return float((2 * a - b).abs().max())


def test_a_custom_comparator() -> None:
    """A missing problem is None, also in a column with texts, which pandas 3 would fill with NaN."""
    frame = inspector("transformer").calculate_numeric_gap(Largest())
    assert {*frame["problem"]} == {"not these", None}
    for row in frame.itertuples():
        assert (row.problem is None) == (row.aot_intermediate_output.shape[-1] == 32)
        assert math.isnan(row.gap[0]) if row.problem else 0 <= row.gap[0] < 1e-5


def test_pairs_that_cant_be_compared_have_a_reason() -> None:
    """Others have a distance. Sizes of which one broadcasts to the other are different, but for dimensions of 1."""

    def value(*sizes: int) -> OpValue:
        return OpValue((1,), "op", "float32", list(sizes), np.ones(sizes, np.float32), "exact", None)

    sizes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((1, 6), (6,)), ((2,), (3,))]
    truths, given = ({("forward", at, 0): value(*pair[side]) for at, pair in enumerate(sizes)} for side in (0, 1))
    pairs = [*_pairs(truths, given)]
    assert [(pair.distances.get("MSE"), pair.problem) for pair in pairs] == [
        *((0, None), (None, "sizes differ"), (None, "sizes differ"), (0, None), (None, "sizes differ")),
    ]
    # A comparator of the user's is asked about each, and may broadcast; where it raises an error, there is its text.
    found = _compared(pairs, MSEComparator())
    assert [math.isnan(each.gap[0]) for each in found] == [False, True, True, True, True]
    assert [each.problem for each in found][1:3] == [
        *("values of shapes (2, 3) and (3,) can't be compared", "values of shapes (2, 3) and (3, 2) can't be compared"),
    ]


class Torch:
    """A comparator that is known by what it does, and asks for tensors."""

    inspector: Any = None

    def element_compare(self, a: Any, b: Any) -> float:
        assert isinstance(a, torch.Tensor) and a.dtype == b.dtype == torch.float32
        return float(torch.nn.functional.mse_loss(a.double(), b.double()))


def test_a_comparator_of_another_class() -> None:
    asked, comparator = inspector("mlp"), Torch()
    frame = asked.calculate_numeric_gap(comparator)
    assert comparator.inspector is asked and set(frame["problem"]) == {None}
    expected = asked.calculate_numeric_gap("MSE")["gap"]
    assert [gap for (gap,) in frame["gap"]] == pytest.approx([gap for (gap,) in expected], rel=1e-9)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (lambda mapping: [*mapping.items()], TypeError),
        (lambda mapping: {(1, truth): given for (_, truth), given in mapping.items()}, ValueError),
        (lambda mapping: {pair: (handles,) for pair, (handles, _) in mapping.items()}, ValueError),
        (lambda mapping: {pair: (("1",), given) for pair, (_, given) in mapping.items()}, ValueError),
    ],
    ids=["no dict", "handle", "no pair", "handles"],
)
def test_what_preprocessing_must_not_return(changed: Any, error: type[Exception]) -> None:
    comparator = Torch()
    comparator.preprocessing = changed  # type: ignore[attr-defined]
    with pytest.raises(error, match="preprocessing") as raised:
        inspector("mlp").calculate_numeric_gap(comparator)
    assert isinstance(raised.value, EtqError)


def test_pairs_that_preprocessing_leaves_out_or_makes() -> None:
    """Those left out have no row, and what is made of a pair has its ops; of sequences each member has a distance."""

    class Halves(Torch):
        def preprocessing(self, mapping: Any) -> Any:
            kept = list(mapping.items())[1:]
            return {(handles, value.flatten()): (given, other.flatten()) for (handles, value), (given, other) in kept}

    asked = inspector("mlp")
    whole, halves = asked.calculate_numeric_gap(Torch()), asked.calculate_numeric_gap(Halves())
    for column in ("aot_ops", "runtime_ops", "gap", "mapping"):
        assert [*halves[column]] == [*whole[column]][1:]


def test_an_unknown_distance_or_graph() -> None:
    with pytest.raises(ValueError, match="no distance 'cosine'"):
        inspector("mlp").calculate_numeric_gap("cosine")
    with pytest.raises(TypeError, match="element_compare"):
        inspector("mlp").calculate_numeric_gap(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no graph 'mine'; it has exported_program, edge_dialect"):
        inspector("mlp").calculate_numeric_gap("MSE", reference_graph="mine")


def test_two_graphs_of_one_inspector() -> None:
    """Each value that executorch compares has the same gap; a graph may be named as the record's file has it."""
    pytest.importorskip("executorch", reason="running the edge program needs executorch")
    asked = inspector("mlp")
    answers = oracle.answer("mlp_debug", "with_etrecord")["numeric_gap"]
    for graph in ("exported_program", "edge_dialect_exported_program", "edge_dialect_exported_program/forward"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = asked.calculate_numeric_gap("MSE", reference_graph=graph)
        found = {(row.runtime_debug_handle[-1], *row.aot_ops): row for row in frame.itertuples()}
        theirs = answers[f"MSE/{graph.partition('/')[0]}"]["value"]
        for row in theirs["rows"]:
            expected = dict(zip(COLUMNS, row, strict=True))
            key = (expected["runtime_debug_handle"][-1], *expected["aot_ops"])
            assert_gap(found[key], expected, "MSE")


def test_logged_values_are_tensors() -> None:
    """Where torch is imported, as here; those of events are those that gaps compare, with their types."""
    asked = inspector("mlp")
    logged = [value for block in asked.event_blocks for event in block.events for value in event.debug_data]
    assert logged and all(isinstance(value, torch.Tensor) for value in logged)
    given = asked.calculate_numeric_gap("MSE")["runtime_intermediate_output"]
    assert len(given) > 0
    for value in given:
        assert any(
            each.dtype == value.dtype and torch.equal(each.reshape(value.shape), value)
            for each in logged
            if each.numel() == value.numel()
        )
    assert tensor_of(np.ones((2, 1), np.float32), "bfloat16").dtype == torch.bfloat16
