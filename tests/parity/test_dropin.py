"""The drop-in Inspector against the recorded answers of executorch's, object by object.

`compat=True` always returns the answers of executorch's Inspector. Each deliberate difference is a test in
`test_dropin_differences`, which has both answers.
"""

from __future__ import annotations

import hashlib
import io
import math
import warnings
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq.inspector import Inspector, TimeScale
from tests.conftest import CAPTURES
from tests.parity import oracle
from tests.sampling import FEW, thinned

pytest.importorskip("pandas", reason="the drop-in Inspector's DataFrames need pandas")

BOTH = ("with_etrecord", "without_etrecord")


def files(name: str, what: str) -> dict[str, Any]:
    """The files that the oracle read, as arguments, without those that are not in the repository."""
    dump = oracle.capture_path(name)
    found = {"etdump_path": str(dump)}
    record, buffer = dump.parent / f"{dump.parent.name}.etrecord", dump.with_suffix(".bin")
    if what == "with_etrecord":
        found["etrecord"] = str(record)
    if buffer.exists():
        found["debug_buffer_path"] = str(buffer)
    return found


def opened(name: str, what: str, **options: Any) -> Inspector:
    """The drop-in of a capture, read with warnings ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Inspector(**files(name, what), **options)
        made.event_blocks  # noqa: B018 - read while warnings are ignored
    return made


@lru_cache(maxsize=16)
def inspector(name: str, what: str = "without_etrecord", **options: Any) -> Inspector:
    """The same, which several tests share and must not change."""
    return opened(name, what, **options)


ANSWERED = [
    (name, what)
    for what in BOTH
    for name in oracle.names(what)
    if oracle.answer(name, what)["construct"]["ok"] and all(Path(path).exists() for path in files(name, what).values())
]


def as_recorded(value: Any) -> Any:
    """A value as the oracle's answers were recorded: tensors, or arrays where torch isn't imported."""
    value = value.numpy() if hasattr(value, "detach") else value
    if isinstance(value, np.ndarray):
        flat = np.ascontiguousarray(value)
        return {
            "__tensor__": True,
            "dtype": f"torch.{value.dtype}",
            "shape": list(value.shape),
            "sha256": hashlib.sha256(flat.tobytes()).hexdigest(),
        }
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, bytes):
        return {"__bytes__": value.decode("latin1")}
    if isinstance(value, dict):
        return {str(key): as_recorded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_recorded(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def assert_same(ours: Any, theirs: Any, where: str = "") -> None:
    """Equal except for the last digits of floats and the details that the recording adds to tensors."""
    if isinstance(theirs, dict) and theirs.get("__tensor__"):
        assert ours == {key: theirs[key] for key in ("__tensor__", "dtype", "shape", "sha256")}, where
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key, their in theirs.items():
            assert_same(ours[key], their, f"{where}/{key}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list) and len(ours) == len(theirs), where
        for at, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, f"{where}[{at}]")
    elif isinstance(theirs, float):
        assert isinstance(ours, float) and math.isclose(ours, theirs, rel_tol=1e-12), f"{where}: {ours} != {theirs}"
    else:
        assert type(ours) is type(theirs) and ours == theirs, f"{where}: {ours!r} != {theirs!r}"


def recorded(frame: Any) -> dict[str, Any]:
    rows = [[as_recorded(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return {"columns": [str(column) for column in frame.columns], "rows": rows}


@pytest.mark.long
@pytest.mark.parametrize(("name", "what"), thinned(ANSWERED, {name for name, _ in ANSWERED} & {*FEW}), ids=str)
def test_answers(name: str, what: str) -> None:
    """Its tables, before and after its objects are made; the objects; what it prints; times of modules."""
    answer, made = oracle.answer(name, what), Inspector(**files(name, what), compat=True)
    check_tables(made, answer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks = made.event_blocks
    check_tables(made, answer)
    theirs = [{key: value for key, value in block.items() if key != "reference_output"} for block in answer["blocks"]]
    assert_same([block_of(block) for block in blocks], theirs, "blocks")
    assert printed(made.print_data_tabular) == answer["print_data_tabular_file"]["value"]
    if (delegates := answer.get("print_data_tabular_delegate_nounits")) is not None:
        options = {"include_units": False, "include_delegate_debug_data": True}
        assert printed(made.print_data_tabular, **options) == delegates["value"]
    if (tsv := answer.get("save_data_to_tsv")) is not None:
        assert_same_text(printed(made.save_data_to_tsv), tsv["value"])
    check_totals(made, answer)


def check_tables(made: Inspector, answer: dict[str, Any]) -> None:
    assert_same(recorded(made.to_dataframe()), answer["dataframe"]["value"], "dataframe")
    assert list(made.to_dataframe(include_units=False).columns) == answer["dataframe_no_units_columns"]["value"]
    if (delegates := answer.get("dataframe_delegate_debug")) is not None:
        assert_same(recorded(made.to_dataframe(include_delegate_debug_data=True)), delegates["value"], "delegates")


def check_totals(made: Inspector, answer: dict[str, Any]) -> None:
    for module, expected in answer["find_total_for_module"].items():
        assert math.isclose(made.find_total_for_module(module), expected, rel_tol=1e-12), module


def block_of(block: Any) -> dict[str, Any]:
    """An event block as the oracle recorded it."""
    return {
        "name": block.name,
        "bundled_input_index": block.bundled_input_index,
        "n_events": len(block.events),
        "run_output": as_recorded(block.run_output),
        "events": [
            {
                "name": event.name, "instruction_id": event._instruction_id, "debug_handles": event.debug_handles,
                "num_outputs": event.num_outputs, "op_types": event.op_types,
                "n_raw": None if event.perf_data is None else len(event.perf_data.raw),
                "delegate_debug_identifier": event.delegate_debug_identifier, "is_delegated_op": event.is_delegated_op,
                "delegate_backend_name": event.delegate_backend_name,
                "raw_delegate_debug_metadatas": as_recorded(event.raw_delegate_debug_metadatas[:3]),
                "start_time_first": event.start_time[0] if event.start_time else None,
                "debug_data": as_recorded(event.debug_data),
            }
            for event in block.events
        ],
    }  # fmt: skip


def printed(write: Callable[..., None], **options: Any) -> str:
    """What a method writes to a file."""
    file = io.StringIO()
    write(file, **options)
    return file.getvalue()


def assert_same_text(ours: str, theirs: str) -> None:
    """The same cells. Numbers are written in full, and their last digits may differ."""
    for our, their in zip(ours.split("\n"), theirs.split("\n"), strict=True):
        for cell, expected in zip(our.split("\t"), their.split("\t"), strict=True):
            assert cell == expected or math.isclose(float(cell), float(expected), rel_tol=1e-12), (cell, expected)


SCALES = [("ns", "ms"), ("ns", "us"), ("ns", "ns"), ("ns", "s"), ("us", "ms"), ("us", "ns"), ("ms", "s"), ("s", "ns")]


@pytest.mark.parametrize(("source", "target"), thinned([*SCALES, ("cycles", "cycles")], ["us", "cycles"]))
@pytest.mark.parametrize("name", thinned(oracle.names("time_scales"), ["demo_int"]))
def test_time_scales(name: str, source: str, target: str) -> None:
    answer = oracle.answer(name, "time_scales")[f"{source.upper()}->{target.upper()}"]
    made = opened(name, "with_etrecord", compat=True, source_time_scale=TimeScale(source), target_time_scale=target)
    frame = made.to_dataframe()[answer["dataframe"]["columns"]]
    assert_same(recorded(frame), answer["dataframe"], name)
    assert printed(made.print_data_tabular) == answer["print"]


PARSED = "delegate_converter_ns_to_us_and_parser"


@pytest.mark.parametrize(
    "name",
    thinned(
        [each for each in oracle.names("time_scales") if PARSED in oracle.answer(each, "time_scales")], ["demo_int"]
    ),
)
def test_the_users_converter_and_parser(name: str) -> None:
    def parse(logged: list[Any]) -> dict[str, Any]:
        return {
            "parsed_n": len(logged),
            "first": logged[0].decode() if logged and not isinstance(logged[0], str) else str(logged[:1]),
        }

    given: dict[str, Any] = {
        "delegate_time_scale_converter": lambda name, ticks: ticks / 1000.0,
        "delegate_metadata_parser": parse,
        "compat": True,
    }
    theirs = oracle.answer(name, "time_scales")[PARSED]["dataframe"]["value"]
    # Of objects that are made already, and of columns.
    for made in (opened(name, "with_etrecord", **given), Inspector(**files(name, "with_etrecord"), **given)):
        assert_same(recorded(made.to_dataframe(include_delegate_debug_data=True)), theirs, name)


@pytest.mark.parametrize("name", thinned(["convnet", "mlp_xnn"], ["mlp_xnn"]))
def test_a_record_of_another_program(name: str) -> None:
    answer = oracle.answer(f"mismatch__mlp.etdp__{name}.etrecord", "")
    made = Inspector(str(CAPTURES / "mlp/mlp.etdp"), etrecord=str(CAPTURES / f"{name}/{name}.etrecord"), compat=True)
    assert_same(recorded(made.to_dataframe()), answer["dataframe"]["value"], name)
    check_totals(made, answer)


@pytest.mark.parametrize(
    ("compat", "scalars"), [(True, {"scalar_tensor.default": 120}), (False, {"aten.scalar_tensor.default": 120})]
)
def test_names_of_torchs_own_ops_in_a_lowered_graph(compat: bool, scalars: dict[str, int]) -> None:
    """Counted in executorch 1.4.1: it leaves out the namespace of ops that have no edge dialect."""
    path = CAPTURES / "delegation" / "causal" / "causal"
    made = Inspector(f"{path}.etdp", etrecord=f"{path}.etrecord", compat=compat)
    ops = Counter(op for block in made.event_blocks for event in block.events for op in event.op_types)
    assert {op: count for op, count in ops.items() if "scalar_tensor" in op} == scalars
    assert ops["dim_order_ops._clone_dim_order.default"] == 60
