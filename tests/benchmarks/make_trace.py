"""Make a large PyTorch trace quickly: `make_trace.py IN OUT EVENTS` repeats a real trace's events, one copy behind the other.

Each copy lies later on the clock, and has ids of its own, so that nothing is shared but names and shapes.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

IDS = ("External id", "Ev Idx", "correlation", "Python id", "Python parent id")


def make_trace(source: Path, target: Path, wanted: int) -> tuple[int, int]:
    """Write the large trace; returns its events and its bytes."""
    with gzip.open(source, "rt") as file:
        trace = json.load(file)
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and event.get("cat") != "Trace"]
    others = [event for event in trace["traceEvents"] if event.get("ph") == "M"]
    begin = min(event["ts"] for event in events)
    length = max(event["ts"] + event["dur"] for event in events) - begin + 10
    highest = max(event["args"].get(name) or 0 for event in events for name in IDS) + 1
    copies = -(-wanted // len(events))
    repeated: list[Any] = []
    for copy in range(copies):
        for event in events:
            args = {
                name: value + copy * highest if name in IDS and isinstance(value, int) else value
                for name, value in event["args"].items()
            }
            repeated.append({**event, "ts": round(event["ts"] + copy * length, 3), "args": args})
    trace["traceEvents"] = others + repeated[:wanted]
    target.write_text(json.dumps(trace))
    return len(trace["traceEvents"]), target.stat().st_size


if __name__ == "__main__":
    print(*make_trace(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
