"""`calculate_numeric_gap` of the drop-in Inspector, against executorch's answers. Needs torch."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from etq import EtqError, Inspector
from etq.inspector.comparators import MSEComparator, NumericalComparatorBase
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


torch = pytest.importorskip("torch", reason="running a program needs torch")


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
        assert math.isclose(found.gap[0], expected["gap"][0], rel_tol=1e-9)
        assert {name: found.stacktraces[name] for name in expected["stacktraces"]} == expected["stacktraces"]


class Largest(NumericalComparatorBase):
    """A comparator of the user's, which looks at the pairs first, and can't compare some."""

    def preprocessing(self, mapping: Any) -> Any:
        assert self.inspector is not None
        return {key: (handles, 2 * value) for key, (handles, value) in mapping.items()}

    def element_compare(self, a: Any, b: Any) -> float:
        if a.shape[-1] != 32:
            raise ValueError("not these")
        return float(np.max(np.abs(2 * a - b)))


def test_a_custom_comparator() -> None:
    """A missing problem is None, also in a column with texts, which pandas 3 would fill with NaN."""
    frame = inspector("transformer").calculate_numeric_gap(Largest())
    assert {*frame["problem"]} == {"not these", None}
    for row in frame.itertuples():
        assert (row.problem is None) == (row.aot_intermediate_output.shape[-1] == 32)
        assert math.isnan(row.gap[0]) if row.problem else 0 <= row.gap[0] < 1e-5
