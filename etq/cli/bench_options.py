"""What the options of `etq bench` ask for: the sides, and how each is measured."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from etq.annotations.discovery import labels_of_git
from etq.bench.bench import LABELS, Bench, Side, digest_of
from etq.bench.hosts import Host
from etq.bench.order import in_a_path
from etq.bench.runners import AnyCommand, ExecutorRunner, Runner, Script, Wheel, find_runner, split
from etq.errors import EtqError

if TYPE_CHECKING:
    from etq.bench.inputs import Input

# Options that decide what is measured: --resume has to find them as they were.
_KEPT = ("runs", "warmup", "cold", "seed", "method", "inputs", "adb", "ssh", "etdump", "script", "base_git")
_KINDS = {"programs": "programs", "commands": "--base and --new", "script": "--script"}


@contextmanager
def made_bench(programs: Sequence[str], rounds: int, options: dict[str, Any]) -> Iterator[Bench]:
    """Yield the benchmark that options ask for; what was made for it, such as worktrees, is removed at the end.

    Raises `click.UsageError` for options that don't go together, and `EtqError` for files that can't be measured.
    """
    kind = _kind(programs, options)
    name = options["name"] or f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = options["out_dir"] or f"bench-{in_a_path(name)}"
    if taken := [key for key in options["labels"] if key in LABELS]:
        raise click.UsageError(f"--label {taken[0]}=… is the benchmark's own")
    with ExitStack() as stack:
        inputs_folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="etq-bench-"))
        if kind == "programs":
            sides = _of_programs(programs, options, inputs_folder)
        else:
            sides = _of_commands(options) if kind == "commands" else _of_script(options, stack)
        settings = {key: options[key] for key in _KEPT if options[key] is not None}
        settings["sides"] = {side.name: _described(side) for side in sides}
        yield Bench(
            name,
            folder,
            sides,
            rounds,
            options["seed"],
            options["timeout"],
            {"bench_runner": sides[0].runner.name, **options["labels"]},
            settings,
            options["max_celsius"],
            options["pause"] or 0.0,
            options["time_scale"],
        )


def _kind(programs: Sequence[str], options: dict[str, Any]) -> str:
    """What is measured: programs, commands, or a script."""
    given = {
        "programs": bool(programs),
        "commands": bool(options["base_command"] or options["new_command"]),
        "script": options["script"] is not None,
    }
    named = [kind for kind, is_given in given.items() if is_given]
    if not named:
        raise click.UsageError("name one or two programs, or give --base and --new, or --script")
    if len(named) > 1:
        raise click.UsageError(f"{_KINDS[named[0]]} and {_KINDS[named[1]]} don't go together")
    [kind] = named
    if len(programs) > 2:
        raise click.UsageError(f"{len(programs)} programs; at most two are compared")
    for option in ("etdump", "pull"):
        if options[option] is not None and kind != "commands":
            raise click.UsageError(f"--{option} goes with --base and --new")
    if options["base_git"] is not None and kind != "script":
        raise click.UsageError("--base-git goes with --script")
    if options["adb"] is not None and options["ssh"] is not None:
        raise click.UsageError("--adb and --ssh don't go together")
    chosen = {name for name in ("runs", "warmup", "rounds", "until") if _is_given(name)}
    if options["cold"] and chosen & {"runs", "warmup"}:
        raise click.UsageError("--cold is one run without a warm-up; leave out --runs and --warmup")
    if {"rounds", "until"} <= chosen and options["until"] is not None:
        raise click.UsageError("--until N and --rounds don't go together: both say how many rounds")
    if options["resume"] and options["name"] is None:
        raise click.UsageError("--resume needs --name, the name of the benchmark to go on with")
    return kind


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _host(options: dict[str, Any], folder: str | None = None) -> Host:
    """The machine on which is measured; `folder` is where commands of this machine run."""
    if options["adb"] is not None:
        from etq.bench.hosts.adb import AdbHost

        return AdbHost(options["adb"] or None)
    if options["ssh"] is not None:
        from etq.bench.hosts.ssh import SshHost

        return SshHost(options["ssh"])
    from etq.bench.hosts.local import LocalHost

    return LocalHost(folder)


def _words(command: str, option: str) -> list[str]:
    try:
        return split(command, option)
    except EtqError as error:
        raise click.UsageError(str(error)) from None


def _runs(options: dict[str, Any]) -> tuple[int, int]:
    """The numbers of runs of the warm-up and after it."""
    return (0, 1) if options["cold"] else (options["warmup"], options["runs"])


# Programs


def _of_programs(programs: Sequence[str], options: dict[str, Any], folder: str) -> list[Side]:
    host = _host(options)
    names = [options["base_name"], options["new_name"]] if len(programs) == 2 else [Path(programs[0]).stem]
    pythons = [options["base_python"], options["new_python"]]
    own = [options["base_etrecord"], options["new_etrecord"]]
    sides = []
    for place, (name, program) in enumerate(zip(names, programs, strict=True)):
        if not Path(program).is_file():
            raise EtqError(f"{program}: no such file")
        inputs = os.path.join(folder, str(place))
        Path(inputs).mkdir()
        record = own[place] or options["etrecord"] or _record_of(program)
        if record is not None and not Path(record).is_file():
            raise EtqError(f"{record}: no such file")
        runner = _runner(program, pythons[place], ("--base-python", "--new-python")[place], options, inputs)
        is_bundled = options["inputs"] == "bundled"
        sides.append(Side(name, runner, host, {"program": Path(program).name}, record, None if is_bundled else program))
    return sides


def _record_of(program: str) -> str | None:
    """The ETRecord beside a program: net.etrecord or net_etrecord.bin of net.pte."""
    stem = Path(program).with_suffix("")
    there = [f"{stem}{ending}" for ending in (".etrecord", "_etrecord.bin") if Path(f"{stem}{ending}").is_file()]
    return there[0] if there else None


def _runner(program: str, python: str | None, option: str, options: dict[str, Any], folder: str) -> Runner:
    found = find_runner(options["runner"]) if python is None else None
    method, inputs = _inputs(program, options, folder)
    warmup, runs = _runs(options)
    if found is not None:
        named = method if options["method"] is not None else None
        return ExecutorRunner(found, program, named, inputs, warmup + runs)
    if options["inputs"] == "ones":
        raise click.UsageError("--inputs ones are those of executor_runner, which was not found; use random")
    host_python = python or ("python3" if options["ssh"] is not None else sys.executable)
    if options["adb"] is not None:
        raise EtqError("no executor_runner for the device; give one that is built for it with --runner PATH")
    if python is None and options["ssh"] is None:
        _check_wheel(program, option)
    elif python is not None and options["ssh"] is None and which(python) is None:
        raise EtqError(f"{python}: no such program; {option} takes a Python that has executorch")
    return Wheel(host_python, program, method or "forward", inputs, warmup, runs, options["inputs"] == "bundled")


def _check_wheel(program: str, option: str) -> None:
    from importlib.util import find_spec

    if find_spec("executorch") is None:
        raise EtqError(
            f"{program}: no executor_runner on PATH or in $ETQ_RUNNER, and no executorch in this Python; give "
            f"--runner PATH, or pip install 'etq[bench]', or name a Python that has executorch with {option}"
        )


def _inputs(program: str, options: dict[str, Any], folder: str) -> tuple[str | None, list[Input]]:
    """The method that is run, None where it is the runner's first, and its inputs."""
    from etq.bench.inputs import inputs_of_file, method_of, random_inputs

    chosen = options["inputs"]
    if chosen == "bundled":
        return options["method"], []
    method = method_of(program, options["method"])
    if chosen == "ones":
        return method, []
    if chosen == "random":
        return method, random_inputs(program, method, options["seed"], folder)
    return method, inputs_of_file(program, method, chosen, folder)


# Commands


def _of_commands(options: dict[str, Any]) -> list[Side]:
    commands = {"base": options["base_command"], "new": options["new_command"]}
    given = {side: command for side, command in commands.items() if command is not None}
    if "base" not in given:
        raise click.UsageError("--new without --base; for one side alone, give --base")
    host = _host(options)
    pull = None if options["pull"] is None else _words(options["pull"], "--pull")
    if pull is not None and not any("{out}" in word for word in pull):
        raise click.UsageError("--pull: the command has no {out}; put it in place of the file that it writes")
    sides = []
    for side, command in given.items():
        words = _words(command, f"--{side}")
        if options["etdump"] is None and pull is None and not any("{out}" in word for word in words):
            raise click.UsageError(
                f"--{side}: the command has no {{out}}; put it in place of the file that it writes, or give --etdump"
            )
        runner = AnyCommand(words, options["etdump"], pull)
        record = options[f"{side}_etrecord"] or options["etrecord"]
        sides.append(Side(options[f"{side}_name"], runner, host, {}, record))
    return sides


# Scripts of PyTorch


def _of_script(options: dict[str, Any], stack: ExitStack) -> list[Side]:
    words = _words(options["script"], "--script")
    warmup, runs = _runs(options)
    reference = options["base_git"]
    if options["adb"] is not None or options["ssh"] is not None:
        raise click.UsageError("--script is run on this machine; run etq bench on the other")
    pythons = [options["base_python"] or sys.executable, options["new_python"] or sys.executable]
    if reference is None and options["base_python"] is None and options["new_python"] is None:
        runner = Script([pythons[0], *words], warmup, runs)
        return [Side(Path(words[0]).stem, runner, _host(options))]
    folder = None if reference is None else stack.enter_context(_worktree(reference))
    sides = []
    for place, side in enumerate(("base", "new")):
        where = folder if side == "base" else None
        host = _host(options, where)
        labels = {} if reference is None else labels_of_git(where or Path.cwd())
        sides.append(Side(options[f"{side}_name"], Script([pythons[place], *words], warmup, runs), host, labels))
    return sides


@contextmanager
def _worktree(reference: str) -> Iterator[str]:
    """Check out a commit of this folder's repository into a temporary worktree, and yield the same folder in it."""
    with tempfile.TemporaryDirectory(prefix="etq-bench-") as parent:
        folder = os.path.join(parent, "base")
        top = _git("rev-parse", "--show-toplevel")
        _git("worktree", "add", "--detach", folder, reference)
        try:
            yield os.path.join(folder, os.path.relpath(Path.cwd(), top))
        finally:
            _git("worktree", "remove", "--force", folder)


def _git(*words: str) -> str:
    import subprocess

    try:
        done = subprocess.run(["git", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError:
        raise EtqError("git: can't be run; --base-git needs it") from None
    if done.returncode:
        what = (done.stderr.strip().splitlines() or ["failed"])[-1]
        raise EtqError(f"git {shlex.join(words[:2])}: {what}")
    return done.stdout.strip()


def _described(side: Side) -> dict[str, Any]:
    """What a side is, for `--resume`: of files by their content."""
    runner = side.runner
    if isinstance(runner, ExecutorRunner | Wheel):
        described = {"program": digest_of(runner.program), "by": runner.name}
        described["inputs"] = _digest_of_inputs(runner.inputs)
        return described
    return {"command": shlex.join(runner.words) if isinstance(runner, AnyCommand | Script) else runner.name}


def _digest_of_inputs(inputs: Sequence[Input]) -> str:
    """The hash of the inputs, whatever the folder of their files."""
    digest = hashlib.sha256()
    for each in inputs:
        known = {**asdict(each), "path": None if each.path is None else digest_of(each.path)}
        digest.update(repr(sorted(known.items())).encode())
    return digest.hexdigest()
