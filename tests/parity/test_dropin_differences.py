"""Faults of executorch's Inspector: for each, its answer, which `compat=True` keeps, and etq's answer."""

from __future__ import annotations

import io
import math
import sys
import types
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq import EtqError, FormatError
from etq.inspector import Event, Inspector, frames
from etq.warehouse.ephemeral import open_ephemeral
from tests.builders import DebugEvent, ProfileEvent, Run, Tensor, delegate_call, delegated, dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.docs.pages import lines_are_tested
from tests.parity import oracle
from tests.parity.test_dropin import ANSWERED, BOTH, as_recorded, assert_same, files, inspector, printed, recorded
from tests.records import Maps, node, record, tensor
from tests.sampling import thinned

MLP = CAPTURES / "mlp"


def events(made: Inspector, name: str | None = None) -> list[Event]:
    return [event for block in made.event_blocks for event in block.events if name in (None, event.name)]


def both(name: str, what: str = "without_etrecord") -> tuple[Inspector, Inspector]:
    """The drop-in with executorch's answers, and with etq's."""
    return inspector(name, what, compat=True), inspector(name, what)


# Captures whose DataFrames show a fault that is tested below.
FAULTY = {name for name, _ in ANSWERED if name.startswith("maploop")} | {"mlp_wrap32", "mlp_debug_nobin"}
FAULTY_WITH_RECORD = {"mlp_block", "mlp_step"} | {name for name, _ in ANSWERED if "_xnn" in name}


@pytest.mark.parametrize(
    ("name", "what"),
    thinned(
        (
            (name, what)
            for name, what in ANSWERED
            if name not in FAULTY | {"scalars_debug"} and (what == BOTH[1] or name not in FAULTY_WITH_RECORD)
        ),
        ("convnet_xnn", "demo_int", "cond_mixed"),
    ),
)
def test_both_agree_where_nothing_is_wrong(name: str, what: str) -> None:
    theirs, ours = (recorded(each.to_dataframe()) for each in both(name, what))
    assert ours["columns"] == theirs["columns"]
    for our, their in zip(ours["rows"], theirs["rows"], strict=True):
        row = dict(zip(theirs["columns"], their, strict=True))
        our[9] = frames.shortened(our[9])
        if row["is_delegated_op"]:  # durations of delegated events are the subject of a test below
            loss = 4 * math.ulp(max(row["start_time"]) * 1e-6)
            numbers = ([*side[2], *side[3:9]] for side in (our, their))
            assert all(math.isclose(*each, rel_tol=1e-12, abs_tol=loss) for each in zip(*numbers, strict=True))
            our[2:9] = their[2:9]
        assert_same(our, their, f"{name}: {row['event_name']}")


def test_3_values_that_differ_between_runs_are_those_of_the_first() -> None:
    theirs = oracle.answer("mlp_debug5_diff", "without_etrecord")["construct"]
    assert theirs["error_type"] == "AssertionError"
    # From the raw file: the output that run 1, the first, logged, and those of the others.
    warehouse, _ = open_ephemeral(MLP / "mlp_debug5_diff.etdp")
    logged = warehouse.rows("SELECT byte_offset FROM debug_values WHERE is_output ORDER BY run_index")[1]
    content = (MLP / "mlp_debug5_diff.bin").read_bytes()
    outputs = [np.frombuffer(content, np.float32, 40, offset).reshape(4, 10) for (offset,) in logged]
    for compat in (False, True):
        made = Inspector(**files("mlp_debug5_diff", "without_etrecord"), compat=compat)
        with pytest.warns(UserWarning, match="values differ between runs; those of the first run are given"):
            [block] = [block for block in made.event_blocks if block.name == "Execute"]
        assert len(block.events[0].start_time or []) == 5
        [output] = block.run_output or []
        assert np.array_equal(output, outputs[0]) and not np.array_equal(output, outputs[1])


def test_4_a_half_written_record_is_told() -> None:
    assert oracle.answer("cond", "with_etrecord")["construct"]["error_type"] == "TypeError"
    with pytest.warns(UserWarning, match="half-written record: lacks debug_handle_map"):
        made = Inspector(**files("cond", "with_etrecord"))
    assert len(events(made)) == len(events(inspector("cond")))
    assert not any(event.op_types for event in events(made))
    with pytest.raises(EtqError, match="the record cond of cond is half-written"):
        made.find_total_for_module("linear")


def test_6_what_a_short_debug_buffer_lacks_is_unknown(tmp_path: Path) -> None:
    assert oracle.answer("mlp_debug_shortbin", "without_etrecord")["construct"]["error_type"] == "ValueError"
    half = tmp_path / "half.bin"
    half.write_bytes((MLP / "mlp_debug.bin").read_bytes()[:111_112])
    whole = [value for event in events(inspector("mlp_debug")) for value in event.debug_data]
    for made in both("mlp_debug_shortbin"):
        # Its 5,000 bytes contain none of the tensors; half of the whole buffer contains some.
        assert {value for event in events(made) for value in event.debug_data} == {None}
    for compat in (False, True):
        short = Inspector(MLP / "mlp_debug.etdp", debug_buffer_path=half, compat=compat)
        given = [value for event in events(short) for value in event.debug_data]
        known = [each for each in zip(whole, given, strict=True) if each[1] is not None]
        assert 0 < len(known) < len(given) and all(np.array_equal(*each) for each in known)


def test_7_every_iteration_of_a_loop_is_a_row_with_its_own_values() -> None:
    theirs, ours = (made.to_dataframe() for made in both("maploop"))
    assert (len(theirs), sum(map(len, theirs["raw"]))) == (21, 97)
    assert (len(ours), sum(map(len, ours["raw"]))) == (81, 397)
    loops = events(inspector("maploop"), "native_call_mul.out")
    assert max(event.occurrence for event in loops) == 5
    before, made = both("maploop_debug")
    assert any(event.occurrence for event in events(made))
    for event in events(before):
        iterations = [
            each for each in events(made) if (each.name, each._instruction_id) == (event.name, event._instruction_id)
        ]
        if len(iterations) > 1 and not event.name.startswith("DELEGATE"):
            own = [value for each in iterations for value in each.debug_data]
            assert as_recorded(own) == as_recorded(event.debug_data)
            assert {len(each.debug_data) for each in iterations} == {len(event.debug_data) // len(iterations)}


def test_8_methods_alike_are_one_block_for_both_and_it_is_said() -> None:
    with pytest.warns(UserWarning, match="method unknown: the methods big, forward of twins fit"):
        made = Inspector(**files("twins", "with_etrecord"))
    for each in (made, inspector("twins", compat=True)):
        runs = [(block.name, len(block.events[0].start_time or [])) for block in each.event_blocks]
        assert runs == [("Default", 2), ("Execute", 10)]


@pytest.mark.long
def test_9_a_module_is_a_path_not_a_part_of_one() -> None:
    theirs, ours = both("demo_int", "with_etrecord")
    expected = oracle.answer("demo_int", "with_etrecord")["find_total_for_module"]["act"]
    assert math.isclose(theirs.find_total_for_module("act"), expected, rel_tol=1e-12)
    calls = [event.perf_data.avg for event in events(ours, "DELEGATE_CALL") if event.perf_data is not None]
    # By path or by key: the time of the first call, without the second call and without counting children twice.
    totals = [ours.find_total_for_module(name) for name in ("act", "L__self__act", "act2")]
    assert totals == pytest.approx([calls[0], calls[0], calls[1]], rel=1e-12)
    assert ours.find_total_for_module("nosuchmodule") == theirs.find_total_for_module("nosuchmodule") == 0
    assert inspector("demo_int").find_total_for_module("act") == 0


@pytest.mark.long
def test_11_framework_and_user_events_belong_to_no_op() -> None:
    for name, event in (("mlp_block", "Runner::set_inputs"), ("mlp_step", "Method::step")):
        theirs, ours = (events(made, event) for made in both(name, "with_etrecord"))
        assert theirs[0].op_types == ["aten.permute_copy.default", "aten.addmm.default"]
        assert (ours[0].op_types, ours[0].debug_handles, ours[0].module_hierarchy) == ([], None, {})


def test_12_another_programs_record_is_told() -> None:
    given: dict[str, Any] = {"etdump_path": MLP / "mlp.etdp", "etrecord": CAPTURES / "convnet/convnet.etrecord"}
    with pytest.warns(UserWarning, match="foreign record: the record convnet is of another program"):
        ours = Inspector(**given)
    assert not any(event.op_types for event in events(ours))
    assert any(event.op_types for event in events(Inspector(**given, compat=True)))


class _Tensor:
    """The parts of torch.load's result that are used."""

    dtype = "torch.float32"

    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values, np.float32)
        self.detach: Callable[[], _Tensor] = lambda: self
        self.cpu = self.detach
        self.numpy: Callable[[], Any] = lambda: self.values


def _with_references(record: Path, target: Path) -> Path:
    """A record with reference outputs. With the torch of `torch_of`, their content does not matter."""
    with zipfile.ZipFile(record) as source, zipfile.ZipFile(target, "w") as copy:
        for member in source.namelist():
            copy.writestr(member, source.read(member))
        copy.writestr("reference_outputs", b"a torch archive")
    return target


def _torch_that_loads(outputs: Any) -> types.ModuleType:
    def load(file: io.BytesIO, *, weights_only: bool) -> Any:
        assert weights_only and file.read() == b"a torch archive"
        return outputs

    torch = types.ModuleType("torch")
    torch.__dict__.update(__spec__=types.SimpleNamespace(), load=load)
    return torch


@pytest.mark.long
def test_13_which_reference_output_is_meant_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = oracle.answer("mlp_bundled_idx", "with_etrecord")["blocks"]
    assert [block["bundled_input_index"] for block in theirs] == [-1, -1]
    assert theirs[0]["reference_output"] == theirs[1]["reference_output"] != None  # noqa: E711
    record = _with_references(MLP / "mlp.etrecord", tmp_path / "mlp.etrecord")
    given: dict[str, Any] = {"etdump_path": MLP / "mlp.etdp", "etrecord": record}

    def references(outputs: list[Any], **options: Any) -> list[Any]:
        monkeypatch.setitem(sys.modules, "torch", _torch_that_loads({"forward": outputs}))
        made = Inspector(**given, **options)
        assert [block.bundled_input_index for block in made.event_blocks] == [-1 if options else None] * 2
        return [as_recorded(block.reference_output) for block in made.event_blocks]

    first, second = [_Tensor([1, 2])], [_Tensor([3])]
    one, two = as_recorded([first[0].numpy()]), as_recorded([second[0].numpy()])
    assert references([first, second], compat=True) == [two, two]
    assert references([first, second]) == [None, None]
    # There is only one, and loading has no outputs.
    assert references([first]) == [None, one]


def test_14_without_a_debug_buffer_values_are_unknown() -> None:
    theirs, ours = (events(made)[2] for made in both("mlp_debug_nobin"))
    assert theirs.name == ours.name == "native_call_permute_copy.out"
    assert np.array_equal(theirs.debug_data, np.zeros((1, 64, 128)))
    assert ours.debug_data == [None]


def test_16_a_32_bit_clock_that_wraps_is_not_one_tick_short() -> None:
    theirs, ours = (
        [(event.name, run, round(value * 1e6)) for event in events(made) if event.perf_data
         for run, value in enumerate(event.perf_data.raw)]
        for made in both("mlp_wrap32")
    )  # fmt: skip
    # The three events that are open in run 1 when the counter passes zero.
    assert [each for each in zip(ours, theirs, strict=True) if each[0] != each[1]] == [
        ((name, 0, ticks), (name, 0, ticks - 1))
        for name, ticks in (
            ("native_call_permute_copy.out", 65037),
            ("OPERATOR_CALL", 73800),
            ("Method::execute", 4549519),
        )
    ]


def test_17_durations_of_delegated_events_are_exact() -> None:
    found = [
        event.perf_data.raw[0]
        for made in both("demo_int")
        for event in events(made)
        if 15643144 in (event.start_time or []) and event.perf_data is not None
    ]
    assert found == [0.027000000000001023, 0.027]


def test_18_an_output_that_is_no_tensor_is_an_output() -> None:
    theirs, ours = both("scalars_debug")
    [unnamed] = events(theirs, "")
    assert unnamed.debug_data == [7, 2.5, True] and unnamed.perf_data is None
    assert len(theirs.event_blocks[1].run_output or []) == 1
    assert events(ours, "") == []
    tensor, *rest = ours.event_blocks[1].run_output or []
    assert hasattr(tensor, "shape") and rest == [7, 2.5, True]
    assert len(ours.to_dataframe()) == len(theirs.to_dataframe()) - 1


def test_19_many_op_types_are_a_list_but_where_they_are_printed() -> None:
    theirs, ours = (made.to_dataframe()["op_types"] for made in both("mlp_xnn", "with_etrecord"))
    [text] = [each for each in theirs if isinstance(each, str)]
    assert text == "['aten.linear.default', 'aten.relu.default' ... 'aten.add.Tensor'] (15 total)"
    [full] = [each for each in ours if len(each) > 4]
    assert isinstance(full, list) and len(full) == 15
    assert all(text in printed(made.print_data_tabular) for made in both("mlp_xnn", "with_etrecord"))


def test_20_damaged_files_are_named() -> None:
    theirs = oracle.answer("malformed", "")
    damaged = CAPTURES / "malformed"
    for name, message in (
        ("mlp_concatenated", "several dumps: 2 ETDumps in one file"),
        ("mlp_trailing", "trailing bytes: 24 bytes after the last dump"),
    ):
        with pytest.warns(UserWarning, match=message):
            ours = Inspector(damaged / f"{name}.etdp")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            before = Inspector(damaged / f"{name}.etdp", compat=True)
        assert [[block.name, len(block.events)] for block in before.event_blocks] == theirs[f"{name}.etdp"]["value"]
        assert len(ours.event_blocks) >= len(before.event_blocks)
    assert theirs["mlp_trunc_minus1.etdp"]["ok"]
    for compat in (False, True):
        with pytest.raises(FormatError, match="the ETDump is truncated: its size prefix is 17244 bytes"):
            Inspector(damaged / "mlp_trunc_minus1.etdp", compat=compat)
    # executorch can't open this one, which only lacks the size prefix.
    assert not theirs["mlp_nosizeprefix.etdp"]["ok"]
    assert len(events(Inspector(damaged / "mlp_nosizeprefix.etdp"))) == len(events(inspector("mlp")))


@pytest.mark.long
def test_21_an_event_has_the_name_of_its_times() -> None:
    """By executorch 1.5.1, which gives the first the name of its value, and the others those here."""
    unnamed = ProfileEvent(None, 0, 1, start_time=100, end_time=200)
    value = DebugEvent(Tensor(6, (2,), (1,)), 0, 1, name="logged")
    given: dict[str, list[ProfileEvent | DebugEvent]] = {
        "native_call_add.out": [kernel("add", 100, 200, 1), value],
        "logged": [unnamed, value],
        "": [unnamed, replace(value, name=None)],
        "7": [replace(unnamed, delegate_debug_id_int=7), replace(value, delegate_debug_id_int=7)],
    }
    for name, logged in given.items():
        for compat in (False, True):
            [event] = events(Inspector(etdump_data=dump(run("Execute", *logged)), compat=compat))
            assert (event.name, event.start_time, len(event.debug_data)) == (name, [100], 1)


def test_22_runs_without_events() -> None:
    """A run without a list of events, not even an empty one, is in no block, as in executorch 1.5.1."""
    none, empty = Run("Execute", has_events=False), run("Empty")
    for compat in (False, True):
        made = Inspector(etdump_data=dump(none, empty, run("Execute", kernel("add", 100, 200))), compat=compat)
        found = [(block.name, [event.start_time for event in block.events]) for block in made.event_blocks]
        assert found == [("Empty", []), ("Execute", [[100]])]
        assert [*made.to_dataframe()["event_block_name"]] == ["Execute"]
        alone = Inspector(etdump_data=dump(none), compat=compat)
        assert alone.event_blocks == [] and len(alone.to_dataframe()) == 0


@pytest.mark.parametrize("compat", [False, True])
def test_23_calls_and_events_of_a_delegate_have_ops(compat: bool) -> None:
    """With executorch's answers, only calls: the backend's events have no map to nodes."""
    given = inspector("mlp_xnn", "with_etrecord", compat=compat)
    within = [event for event in events(given) if event.is_delegated_op]
    assert within and any(event.op_types for event in within) is not compat
    path = CAPTURES / "delegation/attention_lowered/attention_lowered"
    calls = events(Inspector(f"{path}.etdp", etrecord=f"{path}.etrecord", compat=compat), "DELEGATE_CALL")
    assert calls and all(event.op_types for event in calls)


def _dispatch(kernel: str, fields: str) -> str:
    return f'{{"operator": {{"name": "{kernel}", {fields}"args": [{{"sizes": [3, 1]}}]}}, "dispatch_id": 3}}'


def test_24_vulkans_dispatches_have_the_node_that_they_name(tmp_path: Path) -> None:
    """As its runtime writes them since August 2026; before, without a number, nothing says which node. executorch's
    Inspector takes the last key of the map that is anywhere in the text.
    """
    nodes = [node(f"aten.{op}.default", tensor(op, 3), handle, x=tensor("x", 3)) for handle, op in enumerate("abc", 4)]
    maps = Maps({0: [4, 5, 6]}, {0: {"1": [4], "2": [5], "3": [6]}}, "VulkanBackend")
    (tmp_path / "made.etrecord").write_bytes(record(*nodes, maps=maps))
    texts = [_dispatch("b", '"delegate_node_id": 2, '), _dispatch("a", '"delegate_node_id": 1, '), _dispatch("c", "")]
    call = replace(delegated("", 0, 50), name="DELEGATE_CALL", delegate_debug_id_str=None)
    within = [delegated(text, at, at + 5) for at, text in zip((10, 20, 30), texts, strict=True)]
    content = dump(run("Execute", execute(0, 60), call, *within))
    for compat, expected in ((False, [[5], [4], None]), (True, [[6], [6], [6]])):
        made = Inspector(etdump_data=content, etrecord=tmp_path / "made.etrecord", compat=compat)
        found = {event.name: event.debug_handles for event in events(made)}
        assert [found[text] for text in texts] == expected


def test_25_other_units_are_neither_times_nor_added() -> None:
    """executorch's Inspector takes bytes and cycles for ticks."""
    values = [
        delegated("load (cycles)", 0, 3_000),
        delegated("heap (bytes)", 0, 4_096),
        delegated("conv", 10_000, 30_000),
    ]
    content = dump(run("Execute", *values, delegate_call(1_000, 51_000), execute(1_000, 61_000)))
    theirs, ours = (
        Inspector(etdump_data=content, target_time_scale="us", compat=compat).to_dataframe() for compat in (True, False)
    )
    assert [*theirs["avg (us)"]] == pytest.approx([3, 4.096, 20, 50, 60], rel=1e-12)
    assert ours["avg (us)"].isna().tolist() == [True, True, False, False, False]
    assert [*ours["other_unit"]] == ["cycles", "bytes", None, None, None]
    warehouse, capture = open_ephemeral(content)
    query = "SELECT t.op, t.unit, t.per_execute, t.share_percent FROM op_totals($c, unit := 'us') AS t"
    assert {op: (unit, total, share) for op, unit, total, share in warehouse.rows(query, c=capture)[1]} == {
        "(delegate unaccounted)": ("us", 30, 50),
        "conv": ("us", 20, pytest.approx(100 / 3)),
        "(unattributed)": ("us", 10, pytest.approx(100 / 6)),
        "heap": ("bytes", 4_096, None),
        "load": ("cycles", 3_000, None),
    }


# Where each deliberate difference of the page is tested, by the beginning of its line: a test of this file, or of others.
TESTED = {
    "keeps the last of an event's": "test_7_every_iteration_of_a_loop_is_a_row_with_its_own_values",
    "computes times one tick": "test_16_a_32_bit_clock_that_wraps_is_not_one_tick_short",
    "scales start and end": "test_17_durations_of_delegated_events_are_exact",
    "finds no op in a record": "test_23_calls_and_events_of_a_delegate_have_ops",
    "finds no ops of a delegate's call": "test_23_calls_and_events_of_a_delegate_have_ops",
    "takes any key of a delegate's map": "test_24_vulkans_dispatches_have_the_node_that_they_name",
    "shortens long lists": "test_19_many_op_types_are_a_list_but_where_they_are_printed",
    "accepts any record": "test_12_another_programs_record_is_told",
    "raises at allocations": "parity/test_inspector.py: test_where_the_inspector_raises_there_is_an_answer",
    "uses zeros for tensors": "test_14_without_a_debug_buffer_values_are_unknown",
    "fails for the whole numeric gap": "parity/test_dropin_gap.py: test_pairs_that_cant_be_compared_have_a_reason",
    "compares no op of several": "parity/test_dropin_gap.py: test_an_op_of_several_outputs_has_a_row_for_each",
    "compares an op that a delegate": "parity/test_values.py: test_an_op_run_as_several_is_compared_by_the_last",
    "names ops that have no edge": "parity/test_dropin.py: test_names_of_torchs_own_ops_in_a_lowered_graph",
    "opens truncated": "test_20_damaged_files_are_named",
    "`find_total_for_module` adds": "docs/test_pages.py: test_examples",
    "`find_total_for_module` takes": "test_9_a_module_is_a_path_not_a_part_of_one",
    "adds times of different clocks": "test_25_other_units_are_neither_times_nor_added",
    "shows counters of delegates": "unit/test_inspector.py: test_counters_are_no_times",
    "names an event that has times": "test_21_an_event_has_the_name_of_its_times",
    "evaluates the sizes": "parity/test_reference.py: test_executorch_evaluates_no_size",
    "shows an output of the program": "test_18_an_output_that_is_no_tensor_is_an_output",
    "`to_dataframe` fails": "test_22_runs_without_events",
    "`calculate_numeric_gap` has": "parity/test_dropin_gap.py: test_gaps",
}


def test_each_difference_on_the_page_has_a_test() -> None:
    lines_are_tested("## executorch.devtools.Inspector", "Deliberate differences:", TESTED, __file__)
