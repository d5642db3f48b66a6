"""Commands on this machine: their ends, their output, their memory, and what they leave behind."""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from pathlib import Path

import pytest

from etq.bench.child import last_lines
from etq.bench.machine import CommandError, run
from tests.processes import command_lines, process

MB = 2**20


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *words]


def test_words_are_not_interpreted() -> None:
    words = ["a b", "$HOME", "`id`", "'", '"', "\\", "*", "; exit 3", "", "\n", "é"]
    ended = run(python("import sys; print(sys.argv[1:])", *words))
    assert (ended.status, last_lines(ended.output)) == (0, [repr(words)])


def test_only_the_last_lines_of_an_endless_output_are_kept() -> None:
    code = "import os\nfor _ in range(300): os.write(1, b'y' * 99999 + b'\\n')\nos.write(2, b'\\x1b[1mred\\rlast')"
    output = last_lines(run(python(code)).output)
    assert output[-2:] == ["\\x1b[1mred", "last"]
    assert len(output) <= 100 and max(map(len, output)) <= 500


def test_peak_memory_is_the_commands_own() -> None:
    """Not that of this process, which the system counts as that of what it starts."""
    held = b"1" * (300 * MB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > 300 * MB
    small = run(python("pass")).peak_bytes
    large = run(python(f"x = bytearray({100 * MB})\nfor at in range(0, len(x), 4096): x[at] = 1")).peak_bytes
    assert small is not None and large is not None
    assert small < 40 * MB and 100 * MB < large < 140 * MB
    assert len(held) == 300 * MB


def test_what_cannot_be_started(tmp_path: Path) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign"
    text.write_text("x")
    foreign.write_bytes(b"\x7fELF\2\1\1")
    foreign.chmod(0o755)
    for words, message in (
        (["etq-no-such"], "etq-no-such: no such program; give its path, or put it on PATH"),
        ([str(text)], f"{text}: may not be run; chmod +x makes a program of it"),
        ([str(foreign)], f"{foreign}: is not a program of this machine; build it for this one"),
    ):  # fmt: skip
        with pytest.raises(CommandError) as raised:
            run(words)
        assert str(raised.value) == message


@pytest.mark.long
@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_a_time_limit_ends_the_whole_group(stubborn: str) -> None:
    long = long_time()
    script = f"{stubborn}echo begun; sleep {long} & sleep {long}"
    with pytest.raises(CommandError, match=r"sh took more than 5 s and was ended; raise --timeout") as raised:
        run(["sh", "-c", script], seconds=5)
    assert raised.value.output == ["begun"]
    assert processes_with(long) == []


def test_what_a_command_leaves_is_ended() -> None:
    """It isn't waited for, though it holds the output."""
    long = long_time()
    assert last_lines(run(["sh", "-c", f"sleep {long} & echo left"]).output) == ["left"]
    assert processes_with(long) == []


def test_a_command_ends_with_a_killed_etq() -> None:
    long = long_time()
    code = f"from etq.bench.machine import run; run(['sh', '-c', 'sleep {long}; true'])"
    with process([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as etq:
        while not sleeping(long):
            assert etq.poll() is None
            time.sleep(0.05)
        etq.kill()
    assert processes_with(long) == []


def sleeping(word: str) -> bool:
    return ["sleep", word] in command_lines()


_NUMBERS = itertools.count()


def long_time() -> str:
    """Seconds to sleep that no other process sleeps, of another test or of another run of the tests."""
    return f"4700.{os.getpid()}{next(_NUMBERS):03}"


def processes_with(word: str) -> list[list[str]]:
    """The processes that have a word among theirs, those that are ending left out after a moment."""
    for _ in range(1200):
        found = [words for words in command_lines() if word in words]
        if not found:
            break
        time.sleep(0.05)
    return found
