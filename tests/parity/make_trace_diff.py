"""Answers of HolisticTraceAnalysis about pairs of made-up traces: `python -m tests.parity.make_trace_diff PYTHON`.

Writes the traces and the rows of its TraceDiff for each step into `tests/captures/torch_diff`. PYTHON has the package
HolisticTraceAnalysis; the answers here are of version 0.5.0.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.trace_pairs import Planted, trained

FOLDER: Final = Path(__file__).parents[1] / "captures" / "torch_diff"
STEPS: Final = 2
MADE: Final = {
    "base": Planted(),
    "slower": Planted(host={"aten::conv2d": 1.2}, device={"conv_kernel": 1.2}),
    "calls": Planted(calls={"aten::relu": 3, "aten::mul": 1}),
    "kernel": Planted(kernels={"aten::mul": "mul_kernel_v2", "aten::sum": None, "aten::linear": "extra_kernel"}),
}
ASK: Final = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_diff import TraceDiff, LabeledTrace, DeviceType
base, new, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
answers = []
for step in [*([each] for each in range(steps)), list(range(steps))]:
    for device in (DeviceType.CPU, DeviceType.GPU):
        rows = TraceDiff.compare_traces(
            LabeledTrace("base", trace_dir=base), LabeledTrace("new", trace_dir=new),
            control_iteration=step, test_iteration=step, device_type=device,
        )
        rows = json.loads(rows.reset_index().to_json(orient="records"))
        answers.append({"steps": step, "device": device.name, "rows": rows})
print(json.dumps(answers))
"""


def rounded(content: bytes) -> bytes:
    """The same trace with a rank, in whole microseconds: HolisticTraceAnalysis rounds starts up and ends down."""
    read: dict[str, Any] = json.loads(content)
    for each in read["traceEvents"]:
        start, end = round(each["ts"]), round(each["ts"] + each["dur"])
        each |= {"ts": start, "dur": end - start}
    return json.dumps({**read, "distributedInfo": {"rank": 0, "world_size": 1}}, separators=(",", ":")).encode()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, (name, planted) in enumerate(MADE.items()):
            content = rounded(trained(seed, planted, steps=STEPS))
            packed = gzip.compress(content, mtime=0)
            (FOLDER / f"{name}.pt.trace.json.gz").write_bytes(packed)
            side = Path(folder) / name
            side.mkdir()
            (side / "rank0.pt.trace.json.gz").write_bytes(packed)
        for name in list(MADE)[1:]:
            command = [sys.argv[1], "-c", ASK, f"{folder}/base", f"{folder}/{name}", str(STEPS)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            answers[name] = json.loads(output.splitlines()[-1])
    packed = gzip.compress(json.dumps(answers, separators=(",", ":")).encode(), mtime=0)
    (FOLDER / "trace_diff.json.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
