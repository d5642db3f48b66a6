"""Make the trace of `tests.counter_traces` and HolisticTraceAnalysis 0.5.0's answer on its counters: `make_counters.py`,
in its environment.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

from tests.counter_traces import INSTRUCTIONS, OTHERS, counted

FOLDER = Path(__file__).parents[1] / "captures" / "torch_counters"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    packed = gzip.compress(counted(), mtime=0)
    (FOLDER / "counters.pt.trace.json.gz").write_bytes(packed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank.json.gz"
        path.write_bytes(packed)
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=folder, include_last_profiler_step=True)
        [frame] = analysis.get_cupti_counter_data_with_operators()
    columns = ["name", "top_level_op", "bottom_level_op", "op_stack", *INSTRUCTIONS, *OTHERS]
    rows = frame.sort_values("ts")[columns].to_dict(orient="records")
    answer = gzip.compress(json.dumps(rows).encode(), mtime=0)
    (FOLDER / "counters.hta.json.gz").write_bytes(answer)
    print(len(rows), len(packed), len(answer))


if __name__ == "__main__":
    main()
