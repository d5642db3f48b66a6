"""Ctrl-C at any moment of any command: it ends at once, with status 130 and without a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import etq
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.processes import process, wait_for_work

MLP = str(CAPTURES / "mlp/mlp.etdp")
# A query that no machine ends.
ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"
# Seconds after which a command is considered hanging, even on a busy machine.
HANGS = 120
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
# If the tests run in the background of a shell, Ctrl-C is ignored; child processes inherit that.
IS_INTERRUPTED = "import signal; signal.signal(2, signal.default_int_handler)"
RUN = "import runpy; runpy.run_module('etq', None, '__main__')"


def interrupted(arguments: Sequence[str], folder: Path, code: str = RUN) -> str:
    """The stderr of a command that Ctrl-C ends while it works."""
    with process(
        [sys.executable, "-c", f"{IS_INTERRUPTED}; {code}", *arguments], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, text=True, env=ENVIRONMENT,
    ) as started:  # fmt: skip
        # Its start takes less than a second.
        wait_for_work(started.pid, 2)
        started.send_signal(signal.SIGINT)
        started.wait(HANGS)
        message: str = started.communicate()[1]
    assert started.returncode == 130, message
    return message


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupts")
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest(MLP, name="run")
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("sql", ENDLESS),
        ("sql", "FROM range(1000000000000)", "--format", "parquet", "-o", "numbers.parquet"),
        ("sql", "--safe", ENDLESS, "--seconds", "3000"),
    ],
)
def test_it_ends_a_query_and_leaves_no_file(lab: Path, arguments: tuple[str, ...]) -> None:
    message = interrupted([*arguments, "--db", "lab.duckdb"], lab)
    assert message.strip() == ""
    assert [path.name for path in lab.iterdir()] == ["lab.duckdb"]


@pytest.mark.long
def test_it_ends_a_call_that_python_waits_for(lab: Path) -> None:
    """A library that doesn't check for signals, like most."""
    code = "import hashlib, sys, etq.cli.labels; from etq import cli; "
    code += "work = lambda **_: hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9); "
    code += "cli.main.commands['captures'].callback = work; sys.argv = ['etq', 'captures']; cli.run()"
    message = interrupted([], lab, code)
    assert message.strip() == ""


@pytest.mark.long
def test_what_was_ingested_stays(tmp_path: Path) -> None:
    """Files that were committed are whole, and none of the later ones is there."""
    for number in range(256):
        (tmp_path / f"f{number:03}.etdp").write_bytes(
            dump(run("Execute", kernel("add", 10, 30), execute(0, 60 + number)))
        )
    command = [sys.executable, "-c", f"{IS_INTERRUPTED}; {RUN}", "ingest", "*.etdp", "--verbose", "--db", "lab.duckdb"]
    with process(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as started:
        assert started.stderr is not None
        assert started.stderr.readline() == "f000: ingested\n"
        started.send_signal(signal.SIGINT)
        message = started.stderr.read()
    assert (started.returncode, "Traceback" in message) == (130, False)
    with etq.open(tmp_path / "lab.duckdb", read_only=True) as warehouse:
        [(captures, events)] = warehouse.rows("SELECT count(*), sum(s.events) FROM capture_summary AS s")[1]
    assert (64 <= captures < 256, events) == (True, 2 * captures)
    # On a busy machine, the process may be ended before it prints that.
    assert re.fullmatch(r"(f\d+: ingested\n)*\s*(Interrupted after \d+ of 256 files\s*)?", message), message


# Interrupts the process as the line of its number begins in the functions that run the command.
AT_A_LINE = """
import os, signal, sys
import etq.cli

at, seen = int(sys.argv.pop()), 0

def lines(frame, event, arg):
    global seen
    seen += event == "line"
    if event == "line" and seen == at:
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGINT)
    return lines

codes = {etq.cli.run.__code__, etq.cli._status.__code__}
signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # as `etq.__main__` does
sys.settrace(lambda frame, event, arg: lines if frame.f_code in codes else None)
etq.cli.run()
"""


# Interrupts the process as a module of the package begins, before the command has set up anything.
AT_A_MODULE = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
path, begins = sys.argv.pop(), sys.argv.pop()
sys.argv[0] = path

def tracer(frame, event, arg):
    if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == begins:
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.settrace(tracer)
from etq.__main__ import main
main()
"""


@pytest.mark.parametrize("path", ["-m", "/usr/bin/etq", "mine.py"])
@pytest.mark.parametrize("module", ["etq.errors", "etq.cli"])
def test_it_ends_while_the_package_is_imported(module: str, path: str) -> None:
    command = [sys.executable, "-c", AT_A_MODULE, "views", module, path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT)
    if path == "mine.py" and module != "etq.cli":
        assert done.stderr.endswith("KeyboardInterrupt\n"), "a program's own interrupts stay as they are"
    else:
        assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.long
def test_it_ends_between_any_two_lines_of_the_start_and_the_end(tmp_path: Path) -> None:
    ends: list[int] = []
    while 0 not in ends:
        command = [sys.executable, "-c", AT_A_LINE, "views", str(len(ends) + 1)]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT)
        assert (done.returncode in (0, 130), done.stderr) == (True, "")
        ends.append(done.returncode)
    assert len(ends) > 10
