"""Runners of a capture: executor_runner, the runtime of the executorch wheel, or any command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from etq.bench.inputs import Input
from etq.errors import EtqError

# The variable that names executor_runner if it isn't on PATH.
RUNNER: Final = "ETQ_RUNNER"
_HERE: Final = Path(__file__).parent


class Runner(Protocol):
    """Measures one side."""

    name: str
    has_ops: bool  # whether the captures have times of ops

    def command(self, out: str, values: Mapping[str, str]) -> list[str]:
        """Return the command for a capture whose file is to be `out`; `values` has the values of {round} and other
        placeholders.
        """


@dataclass
class ExecutorRunner:
    """executorch's executor_runner, built with the event tracer. Its first runs are the warm-up."""

    path: str
    program: str
    method: str | None  # None: the program's first method
    inputs: Sequence[Input]
    runs: int
    name: str = "executor_runner"
    has_ops: bool = True

    def __post_init__(self) -> None:
        for path in (given.path for given in self.inputs):
            if path is not None and "," in path:
                raise EtqError(f"{path}: executor_runner takes no inputs whose path has a comma; set TMPDIR")

    def command(self, out: str, values: Mapping[str, str]) -> list[str]:
        """See `Runner`."""
        words = [self.path, f"--model_path={self.program}", f"--etdump_path={out}", f"--num_executions={self.runs}"]
        if self.inputs:
            words.append(f"--inputs={','.join(given.path for given in self.inputs if given.path is not None)}")
        if self.method is not None:
            words.append(f"--method_name={self.method}")
        return words


@dataclass
class Wheel:
    """The runtime of the executorch wheel in this Python: captures have executes, but no ops."""

    program: str
    method: str
    inputs: Sequence[Input]
    warmup: int
    runs: int
    is_bundled: bool = False
    name: str = "the executorch wheel"
    has_ops: bool = False

    def command(self, out: str, values: Mapping[str, str]) -> list[str]:
        """See `Runner`."""
        settings = {
            "program": self.program,
            "method": self.method,
            "inputs": [asdict(given) for given in self.inputs],
            "is_bundled": self.is_bundled,
            "warmup": self.warmup,
            "runs": self.runs,
            "out": out,
        }
        return [sys.executable, str(_HERE / "execute.py"), json.dumps(settings)]


@dataclass
class AnyCommand:
    """A command that writes a capture. {out}, {round}, {side} and {number} in its words are replaced."""

    words: Sequence[str]
    name: str = "command"
    has_ops: bool = True

    def command(self, out: str, values: Mapping[str, str]) -> list[str]:
        """See `Runner`."""
        known = {**values, "out": out}
        pattern = r"\{(" + "|".join(map(re.escape, known)) + r")\}"
        # The inserted values are not searched for further placeholders.
        return [re.sub(pattern, lambda match: known[match[1]], word) for word in self.words]


def split(command: str, option: str) -> list[str]:
    """Return the words of an option's command, split as a shell would. Raises `EtqError` if it can't be split."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise EtqError(f"{option}: the command can't be split into words: {str(error).lower()}") from error
    if not words:
        raise EtqError(f"{option}: the command is empty")
    return words


def find_runner(given: str | None) -> str | None:
    """Return the path of executor_runner: the given one, else that in $ETQ_RUNNER, else the one on PATH; None if there
    is none.

    Raises `EtqError` if a named one can't be run.
    """
    named = given or os.environ.get(RUNNER)
    if not named:
        return shutil.which("executor_runner")
    found = shutil.which(str(Path(named).absolute()) if Path(named).is_file() else named)
    if found is None:
        what = "can't be run" if os.path.exists(named) else "no such file"
        raise EtqError(f"{named}: {what}; --runner takes the path of an executor_runner")
    return str(Path(found).absolute())
