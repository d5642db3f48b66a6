"""The sides of a benchmark, by the options of `etq bench`, and how each is measured."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from etq.bench.bench import LABELS, Bench, Side, digest_of
from etq.bench.order import in_a_path
from etq.bench.runners import AnyCommand, ExecutorRunner, Runner, Wheel, find_runner, split
from etq.cli.options import is_given
from etq.database.temporary import temporary_folder
from etq.errors import EtqError, MissingFileError

if TYPE_CHECKING:
    from etq.bench.inputs import Input

# The runs of a capture before the measured ones.
WARMUP: Final = 5
# Seed of the order and of random inputs.
_SEED: Final = 0
# Options that decide what is measured: --resume must repeat them.
_KEPT: Final = ("runs", "method", "inputs")
# Options that say how etq runs a program; a command says this itself.
_OF_PROGRAMS: Final = ("runner", "method", "inputs", "runs")


@contextmanager
def made_bench(programs: Sequence[str], options: dict[str, Any]) -> Iterator[Bench]:
    """Yield the benchmark for options; files made for it, such as inputs, are removed at the end.

    Raises `click.UsageError` for options that don't go together, and `EtqError` for files that can't be measured.
    """
    _check(programs, options)
    name = _name_of(options)
    if taken := [key for key in options["labels"] if key in LABELS]:
        raise click.UsageError(f"--label {taken[0]}=…: the benchmark sets this label; choose another key")
    with temporary_folder() as folder:
        sides = _of_programs(programs, options, folder) if programs else _of_commands(options)
        settings = {key: options[key] for key in _KEPT if options[key] is not None}
        settings["sides"] = {side.name: _described(side) for side in sides}
        labels = {"bench_runner": sides[0].runner.name, **options["labels"]}
        place = f"bench-{in_a_path(name)}"
        yield Bench(name, place, sides, options["rounds"], _SEED, options["timeout"], labels, settings)


def ordered(names: Sequence[str], options: dict[str, Any]) -> Bench:
    """Return a benchmark of two sides whose captures are taken by hand."""
    if len(names) != 2 or options["form"] == "line":
        raise click.UsageError("--order takes two names, and has no --format line")
    name = _name_of(options)
    sides = [Side(side, AnyCommand(())) for side in names]
    try:
        return Bench(name, f"bench-{in_a_path(name)}", sides, options["rounds"], _SEED)
    except EtqError as error:
        raise click.UsageError(str(error)) from error


def _name_of(options: dict[str, Any]) -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}" if options["name"] is None else options["name"]


def _check(programs: Sequence[str], options: dict[str, Any]) -> None:
    has_commands = bool(options["base_command"] or options["new_command"])
    if not programs and not has_commands:
        raise click.UsageError("name one or two programs, or give --base and --new")
    if programs and has_commands:
        raise click.UsageError("give programs, or --base and --new, not both")
    if has_commands and (given := [f"--{name}" for name in _OF_PROGRAMS if is_given(name)]):
        raise click.UsageError(f"{given[0]} is for programs; write it into the commands of --base and --new")
    if len(programs) > 2:
        raise click.UsageError(f"{len(programs)} programs; at most two are compared")
    if options["resume"] and options["name"] is None:
        raise click.UsageError("--resume needs --name, the name of the benchmark to resume")


# Programs


def _of_programs(programs: Sequence[str], options: dict[str, Any], folder: str) -> list[Side]:
    names = ["base", "new"] if len(programs) == 2 else [Path(programs[0]).stem]
    sides = []
    for place, (name, program) in enumerate(zip(names, programs, strict=True)):
        record = options["etrecord"] or _record_of(program)
        for path in (program, record):
            if path is not None and not Path(path).is_file():
                raise MissingFileError(path)
        inputs = os.path.join(folder, str(place))
        Path(inputs).mkdir()
        runner = _runner(program, options, inputs)
        is_bundled = options["inputs"] == "bundled"
        sides.append(Side(name, runner, {"program": Path(program).name}, record, None if is_bundled else program))
    return sides


def _record_of(program: str) -> str | None:
    """The ETRecord beside a program: net.etrecord or net_etrecord.bin of net.pte."""
    stem = Path(program).with_suffix("")
    there = [f"{stem}{ending}" for ending in (".etrecord", "_etrecord.bin") if Path(f"{stem}{ending}").is_file()]
    return there[0] if there else None


def _runner(program: str, options: dict[str, Any], folder: str) -> Runner:
    found = find_runner(options["runner"])
    method, inputs = _inputs(program, options, folder)
    runs = options["runs"]
    if found is not None:
        named = method if options["method"] is not None else None
        return ExecutorRunner(found, str(Path(program).absolute()), named, inputs, WARMUP + runs)
    if options["inputs"] == "ones":
        raise click.UsageError("--inputs ones needs executor_runner, which was not found; use --inputs random")
    if (
        find_spec("executorch") is None or find_spec("torch") is None
    ):  # executorch imports torch, but doesn't require it
        raise EtqError(
            f"{program}: no executor_runner on PATH or in $ETQ_RUNNER, and no executorch and torch in this Python; "
            "give --runner PATH, or pip install 'etq[bench]'"
        )
    return Wheel(program, method or "forward", inputs, WARMUP, runs, options["inputs"] == "bundled")


def _inputs(program: str, options: dict[str, Any], folder: str) -> tuple[str | None, list[Input]]:
    """The method to run (None: the runner's first) and its inputs."""
    from etq.bench.inputs import inputs_of_file, method_of, random_inputs

    chosen = options["inputs"]
    if chosen == "bundled":
        return options["method"], []
    method = method_of(program, options["method"])
    if chosen == "ones":
        return method, []
    if chosen == "random":
        return method, random_inputs(program, method, _SEED, folder)
    return method, inputs_of_file(program, method, chosen, folder)


# Commands


def _of_commands(options: dict[str, Any]) -> list[Side]:
    commands = {"base": options["base_command"], "new": options["new_command"]}
    given = {side: command for side, command in commands.items() if command is not None}
    if "base" not in given:
        raise click.UsageError("--new without --base; for one side alone, give --base")
    record = options["etrecord"]
    if record is not None and not Path(record).is_file():
        raise MissingFileError(record)
    sides = []
    for side, command in given.items():
        try:
            words = split(command, f"--{side}")
        except EtqError as error:
            raise click.UsageError(str(error)) from None
        if not any("{out}" in word for word in words):
            raise click.UsageError(
                f"--{side}: the command has no {{out}}; put it in place of the ETDump that it writes"
            )
        sides.append(Side(side, AnyCommand(words), {}, record))
    return sides


def _described(side: Side) -> dict[str, Any]:
    """What identifies a side for `--resume`; files are identified by their content."""
    runner = side.runner
    if isinstance(runner, ExecutorRunner | Wheel):
        described = {"program": digest_of(runner.program), "by": runner.name}
        described["inputs"] = _digest_of_inputs(runner.inputs)
        return described
    return {"command": shlex.join(runner.words) if isinstance(runner, AnyCommand) else runner.name}


def _digest_of_inputs(inputs: Sequence[Input]) -> str:
    """The hash of the inputs, independent of the folder of their files."""
    digest = hashlib.sha256()
    for each in inputs:
        known = {**asdict(each), "path": None if each.path is None else digest_of(each.path)}
        digest.update(repr(sorted(known.items())).encode())
    return digest.hexdigest()
