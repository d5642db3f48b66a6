"""What is run for a capture: executor_runner, the runtime of the executorch wheel, a script of PyTorch, any command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from etq.bench.hosts import Host
from etq.bench.inputs import Input
from etq.errors import EtqError

# Names executor_runner, if it isn't on PATH.
RUNNER: Final = "ETQ_RUNNER"
# Where the profiled script writes its trace; see profiled/sitecustomize.py.
TRACE: Final = "ETQ_BENCH_TRACE"
_HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Command:
    """A command on a machine, and the file of the machine that it writes."""

    words: Sequence[str]
    writes: str
    environment: Mapping[str, str] = field(default_factory=dict)
    pull: Sequence[str] | None = None  # run on this machine to copy the file to its {out}; None: the machine's `pull`


class Runner(Protocol):
    """What measures one side."""

    name: str
    suffix: str  # of the files that it writes
    has_ops: bool  # whether these have the times of ops

    def prepare(self, host: Host) -> None:
        """Put on the machine what is run. Raises `HostError` if the machine refuses it."""

    def command(self, out: str, values: Mapping[str, str]) -> Command:
        """Return the command for a capture whose file is to be `out` on the machine; `values` are those of {round}
        and other placeholders.
        """


@dataclass
class ExecutorRunner:
    """executorch's executor_runner, built with the event tracer. Its first runs are the warm-up."""

    path: str
    program: str
    method: str | None  # None: the program's first
    inputs: Sequence[Input]
    runs: int
    name: str = "executor_runner"
    suffix: str = ".etdp"
    has_ops: bool = True

    def prepare(self, host: Host) -> None:
        """See `Runner`."""
        self._runner, self._program = host.push(self.path), host.push(self.program)
        self._inputs = [host.push(each.path) for each in self.inputs if each.path is not None]
        if any("," in path for path in self._inputs):
            raise EtqError(f"{self._inputs[0]}: executor_runner takes no inputs whose path has a comma; use --out-dir")

    def command(self, out: str, values: Mapping[str, str]) -> Command:
        """See `Runner`."""
        words = [self._runner, f"--model_path={self._program}", f"--etdump_path={out}", f"--num_executions={self.runs}"]
        if self._inputs:
            words.append(f"--inputs={','.join(self._inputs)}")
        if self.method is not None:
            words.append(f"--method_name={self.method}")
        return Command(words, out)


@dataclass
class Wheel:
    """The runtime of the executorch wheel in an environment of Python: captures have executes, no ops."""

    python: str
    program: str
    method: str
    inputs: Sequence[Input]
    warmup: int
    runs: int
    is_bundled: bool = False
    name: str = "the executorch wheel"
    suffix: str = ".etdp"
    has_ops: bool = False

    def prepare(self, host: Host) -> None:
        """See `Runner`."""
        self._script, self._program = host.push(str(_HERE / "execute.py")), host.push(self.program)
        self._inputs = [replace(each, path=each.path and host.push(each.path)) for each in self.inputs]

    def command(self, out: str, values: Mapping[str, str]) -> Command:
        """See `Runner`."""
        settings = {
            "program": self._program,
            "method": self.method,
            "inputs": [asdict(each) for each in self._inputs],
            "is_bundled": self.is_bundled,
            "warmup": self.warmup,
            "runs": self.runs,
            "out": out,
        }
        return Command([self.python, self._script, json.dumps(settings)], out)


@dataclass
class Script:
    """A script of PyTorch, run with the profiler on: `profiled/sitecustomize.py` writes a trace of its steps."""

    words: Sequence[str]
    warmup: int
    runs: int
    name: str = "torch.profiler"
    suffix: str = ".pt.trace.json"
    has_ops: bool = True

    def prepare(self, host: Host) -> None:
        """See `Runner`."""

    def command(self, out: str, values: Mapping[str, str]) -> Command:
        """See `Runner`."""
        known = [str(_HERE / "profiled"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            "PYTHONPATH": os.pathsep.join(known),
            TRACE: out,
            "ETQ_BENCH_WARMUP": str(self.warmup),
            "ETQ_BENCH_STEPS": str(self.runs),
        }
        return Command(_filled(self.words, {**values, "out": out}), out, environment)


@dataclass
class AnyCommand:
    """A command that writes a capture; {out}, {round}, {side} and {number} in its words are replaced."""

    words: Sequence[str]
    etdump: str | None  # the file of the machine that it writes; None: {out}
    pull: Sequence[str] | None
    name: str = "command"
    suffix: str = ".etdp"
    has_ops: bool = True

    def prepare(self, host: Host) -> None:
        """See `Runner`."""

    def command(self, out: str, values: Mapping[str, str]) -> Command:
        """See `Runner`."""
        known = {**values, "out": out}
        writes = out if self.etdump is None else _filled([self.etdump], known)[0]
        return Command(_filled(self.words, known), writes, pull=self.pull)


def split(command: str, option: str) -> list[str]:
    """Return the words of an option's command, split as a shell would. Raises `EtqError` if it can't be split."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise EtqError(f"{option}: the command can't be split into words: {str(error).lower()}") from error
    if not words:
        raise EtqError(f"{option}: the command is empty")
    return words


def _filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace placeholders; their values are not searched for others."""
    pattern = r"\{(" + "|".join(map(re.escape, values)) + r")\}"
    return [re.sub(pattern, lambda match: values[match[1]], word) for word in words]


def with_out(words: Sequence[str], out: str) -> list[str]:
    """Return a command with {out} replaced."""
    return _filled(words, {"out": out})


def find_runner(given: str | None) -> str | None:
    """Return the path of executor_runner: the one given, else $ETQ_RUNNER's, else the one on PATH; None without any.

    Raises `EtqError` if the one that is named can't be run.
    """
    named = given or os.environ.get(RUNNER)
    if not named:
        return shutil.which("executor_runner")
    found = shutil.which(str(Path(named).absolute()) if Path(named).is_file() else named)
    if found is None:
        what = "can't be run" if os.path.exists(named) else "no such file"
        raise EtqError(f"{named}: {what}; --runner takes the path of an executor_runner")
    return str(Path(found).absolute())
