"""Stands in for the executor_runner of a device: writes an ETDump whose ops take what the program's last bytes say."""

import random
import sys
from pathlib import Path

from tests import builders

_NANOSECONDS = {"addmm": 60_000, "relu": 30_000}


def main() -> None:
    options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
    factor = 1.3 if Path(options["model_path"]).read_bytes().endswith(b"new") else 1.0
    assert Path(options["inputs"]).stat().st_size > 0
    runs = [run(factor) for _ in range(int(options["num_executions"]))]
    Path(options["etdump_path"]).write_bytes(builders.dump(*runs))


def run(factor: float) -> builders.Run:
    """One execute, in which the ops follow each other, each longer by chance by less than 1 %."""
    events, now = [], 1000
    for number, (name, length) in enumerate(_NANOSECONDS.items()):
        end = now + round(length * factor * random.uniform(1, 1.01))
        events.append(builders.kernel(name, now, end, number))
        now = end
    return builders.run("Execute", *events, builders.execute(1000, now))


if __name__ == "__main__":
    main()
