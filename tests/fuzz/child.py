"""The process that takes inputs one after the other; started by `tests.fuzz.runner`, not by hand."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections import Counter
from typing import Any

from tests.fuzz import checks
from tests.fuzz.inputs import made
from tests.fuzz.runner import parse_seeds

# Seconds of processor time for an input.
HANGS = 20


def say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def main() -> None:
    seeds, ingested, kind = parse_seeds(sys.argv[1:])
    warnings.simplefilter("error")
    lab = checks.Lab()
    checks.limit_memory()
    counts = Counter[str]()
    for seed in seeds:
        say({"at": seed})
        # The system ends a process that hangs, also in C code, which never checks a clock.
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + HANGS, resource.RLIM_INFINITY))
        given = made(seed, kind)
        is_ingested = counts[f"{given.kind} inputs"] % ingested == 0
        counts[f"{given.kind} inputs"] += 1
        try:
            refusal = checks.read(given)
            if is_ingested:
                counts[f"{given.kind} ingested"] += 1
                lab.check(given, seed // ingested)
        except Exception as error:
            refusal = "failed"
            is_slow = isinstance(error, checks.SlowError)
            failure = str(error) if isinstance(error, checks.FaultError) else checks.kind_of_error(error)
            say({"failure": failure, "seed": seed, "edits": list(given.edits), "is_slow": is_slow})
            lab.close()
            lab = checks.Lab()
        counts[f"{given.kind} read"] += refusal is None
    lab.close()
    say({"counts": counts})


if __name__ == "__main__":
    main()
