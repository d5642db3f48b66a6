"""Files whose every name is hostile: it clears screens, sets titles, turns lines around, is markup and a formula."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

from tests import prof_result_builders, program_builders
from tests.builders import (
    DebugEvent,
    Tensor,
    delegate_call,
    delegated,
    dump,
    execute,
    framework,
    kernel,
    operator_call,
    run,
)
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace

# Clears the screen, sets the title, colours by an 8-bit control, rings, overwrites the line, turns it around.
EVIL: Final = "\x1b[2J\x1b]0;pwned\x07\x9b31m\r\x08\u202e<b>{x}=1+1"
# What may stand in the name of a file: not all systems take all bytes.
EVIL_FILE: Final = "ru\x1b[2J\x9b31m\u202en"


def etdump(factor: int = 1) -> bytes:
    """Runs of an execute with kernels, delegates, allocators and logged values."""
    events = (
        framework(f"Method::init{EVIL}", 0, 5), execute(10, 100 * factor), operator_call(11, 30 * factor),
        kernel(f"add{EVIL}", 12, 29 * factor), delegate_call(31 * factor, 60 * factor, 1),
        delegated(f"conv{EVIL}", 32 * factor, 50 * factor, 1),
    )  # fmt: skip
    logged = DebugEvent(name=f"value{EVIL}", value=Tensor(sizes=(2,), strides=(1,)), instruction_id=0)
    runs = [run(f"Execute{EVIL}", *events, allocators=(f"pool{EVIL}",)) for _ in range(3)]
    return dump(*runs, run(f"Values{EVIL}", logged))


def prof_result() -> bytes:
    short = EVIL[:20]
    return prof_result_builders.block(
        short,
        prof_result_builders.execute(0, 60),
        prof_result_builders.Entry(f"native_call_{short[:8]}", 0, 0, 10, 30),
        allocators=[(1, short)],
        allocations=[(1, 64)],
    )


def torch_trace() -> bytes:
    stack: Any = {"Call stack": f"a.py(1): {EVIL}"}
    module: Any = {"Python id": 1, "Python module id": 0}
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 200),
        event(f"cpu_op{EVIL}", f"aten::mul{EVIL}", 1, 9, **stack),
        event("cpu_op", f"aten::add{EVIL}", 10, 40, external=1, shapes=[[8, 4]]),
        event("cuda_runtime", f"cudaLaunch{EVIL}", 20, 30, external=1, correlation=7),
        event("kernel", f"kernel{EVIL}", 50, 90, 7, external=1, correlation=7, device=0, blocks=0.5, occupancy=40),
        event("python_function", f"nn.Module: Net{EVIL}_0", 95, 110, **module),
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": EVIL}},
        {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": EVIL}},
    ]
    return trace(*events, deviceProperties=[{"id": 0, "name": EVIL, "totalGlobalMem": 2**30}])


def program() -> bytes:
    add = program_builders.method(
        f"forward{EVIL}", [program_builders.tensor(4, at=0, name=f"weight{EVIL}"), program_builders.tensor(4, at=16)],
        [program_builders.kernel(f"aten::add{EVIL}.out", 0, 1)], inputs=[0], outputs=[1],
        delegates=[program_builders.delegate(f"Backend{EVIL}", 0)],
    )  # fmt: skip
    return program_builders.program(add, blobs=[b"1234"])


def etrecord(origin: str = "convnet_xnn/convnet_xnn.etrecord") -> bytes:
    """A real record in which all texts of graphs and maps are hostile, except numbers and the keys of types."""
    file = io.BytesIO()
    with zipfile.ZipFile(CAPTURES / origin) as archive, zipfile.ZipFile(file, "w") as made:
        for name in archive.namelist():
            content = archive.read(name)
            if content[:1] in (b"{", b"["):
                content = json.dumps(_hostile(json.loads(content))).encode()
            made.writestr(name, content)
        made.writestr(f"other{EVIL}", b"{}")
    return file.getvalue()


def _hostile(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _hostile(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_hostile(each, key) for each in value]
    if key == "stack_trace" and isinstance(value, str):
        return re.sub(r'File "([^"]*)"', lambda found: f'File "{found[1]}{EVIL}"', value)
    if key in ("nn_module_stack", "target") and isinstance(value, str):
        return re.sub(r"(\w)(?=[,;]|$)", lambda found: found[1] + EVIL, value)
    return value


def written(folder: Path) -> dict[str, Path]:
    """All of them in a folder: paths by kind; beside the capture a sidecar with hostile labels and metrics."""
    contents = {
        "run": (f"{EVIL_FILE}.etdp", etdump()), "slow": ("slow.etdp", etdump(2)),
        "real": ("real.etdp", (CAPTURES / "convnet_xnn/convnet_xnn.etdp").read_bytes()),
        "old": ("old.prof_result.bin", prof_result()), "trace": ("net.pt.trace.json", torch_trace()),
        "program": (f"{EVIL_FILE}.pte", program()), "record": (f"{EVIL_FILE}.etrecord", etrecord()),
        "broken": (f"broken{EVIL_FILE}.etdp", b"\x1b[2J" * 9),
        "metrics": (f"{EVIL_FILE}.json", json.dumps({f"heat{EVIL}": {"value": 1, "unit": EVIL}}).encode()),
    }  # fmt: skip
    # Labels take no control characters; what turns a line around is none.
    output = {"device": "\u202ea<b>=1", "key\u202e": "x"}
    contents["sidecar"] = (f"{EVIL_FILE}.etdp.json", json.dumps(output).encode())
    paths = {}
    for kind, (name, content) in contents.items():
        paths[kind] = folder / name
        paths[kind].write_bytes(content)
    return paths
