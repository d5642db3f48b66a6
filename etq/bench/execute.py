"""Runs a program in the runtime of the executorch wheel and writes an ETDump of its executes.

This file is run by its path, in the environment that has executorch. That environment need not have etq. Its argument
is a JSON object: program, method, inputs, is_bundled, warmup, runs, out. The wheel's runtime is built without the event
tracer. So the ETDump only has the times that are measured here: Program::load_method and each Method::execute, in
nanoseconds.
"""

import gc
import json
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any


def main(settings: dict[str, Any]) -> None:
    from executorch.extension.pybindings import portable_lib as runtime

    content = Path(settings["program"]).read_bytes()
    if settings["is_bundled"]:
        content, inputs = _bundled(content, settings["method"])
    else:
        inputs = [_input(each) for each in settings["inputs"]]
    loading = perf_counter_ns()
    program = runtime._load_program_from_buffer(content)
    method = program.load_method(settings["method"])
    loaded = perf_counter_ns()
    executes = []
    gc.disable()
    for _ in range(settings["warmup"] + settings["runs"]):
        # Inputs are copied because their memory may be reused after they are read.
        method.set_inputs(inputs)
        start = perf_counter_ns()
        method.execute()
        executes.append((start, perf_counter_ns()))
    runs = [("Default", [("Program::load_method", loading, loaded)])]
    runs += [("Execute", [("Method::execute", *execute)]) for execute in executes[settings["warmup"] :]]
    Path(settings["out"]).write_bytes(_etdump(runs))


def _input(each: dict[str, Any]) -> Any:
    import torch

    if each["kind"] != "tensor":
        return each["value"]
    kind = getattr(torch, each["scalar_type"])
    content = bytearray(Path(each["path"]).read_bytes())
    flat = torch.frombuffer(content, dtype=kind) if content else torch.empty(0, dtype=kind)
    return flat.reshape(each["sizes"])


def _bundled(content: bytes, method: str) -> tuple[bytes, list[Any]]:
    """The program within a bundled program, and the inputs of a method's first test case."""
    import torch
    from executorch.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program

    bundled = deserialize_from_flatbuffer_to_bundled_program(content)
    suites = [suite for suite in bundled.method_test_suites if suite.method_name == method]
    if not suites or not suites[0].test_cases:
        sys.exit(f"the bundled program has no inputs of method {method}")
    types = {3: torch.int32, 4: torch.int64, 6: torch.float32, 7: torch.float64, 11: torch.bool}
    inputs: list[Any] = []
    for value in (each.val for each in suites[0].test_cases[0].inputs):
        if not hasattr(value, "sizes"):
            inputs.append(next(iter(vars(value).values())))
        elif (kind := types.get(int(value.scalar_type))) is None:
            sys.exit(f"inputs of type {value.scalar_type} are not read from a bundled program")
        else:
            inputs.append(torch.frombuffer(bytearray(value.data), dtype=kind).reshape(value.sizes))
    return bytes(bundled.program), inputs


def _etdump(runs: list[tuple[str, list[tuple[str, int, int]]]]) -> bytes:
    """The bytes of an ETDump, as etdump_schema_flatcc.fbs in executorch declares it."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)

    def references(offsets: list[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def event(name: str, start: int, end: int) -> int:
        text = builder.CreateString(name)
        builder.StartObject(8)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        builder.PrependInt32Slot(1, -1, 0)
        builder.PrependInt32Slot(2, 0, -1)
        builder.PrependUint64Slot(6, start, 0)
        builder.PrependUint64Slot(7, end, 0)
        profiled = builder.EndObject()
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, profiled, 0)
        return int(builder.EndObject())

    def run(name: str, events: list[tuple[str, int, int]]) -> int:
        listed = references([event(*each) for each in events])
        text = builder.CreateString(name)
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(3, listed, 0)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        return int(builder.EndObject())

    listed = references([run(*each) for each in runs])
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, listed, 0)
    builder.FinishSizePrefixed(builder.EndObject(), b"ED00")
    return bytes(builder.Output())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
