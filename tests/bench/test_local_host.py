"""Commands on this machine: their ends, their output, their memory, and what they leave behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from etq.bench.hosts import HostError
from etq.bench.hosts.local import LocalHost
from tests.bench.lab import interrupted, long_time, processes_with

MB = 2**20


@pytest.fixture
def host() -> Iterator[LocalHost]:
    made = LocalHost()
    made.connect()
    yield made
    made.close()


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *words]


def test_words_are_not_interpreted(host: LocalHost) -> None:
    words = ["a b", "$HOME", "`id`", "'", '"', "\\", "*", "; exit 3", "", "\n", "é"]
    ended = host.run(python("import sys; print(sys.argv[1:])", *words))
    assert (ended.status, ended.output) == (0, [repr(words)])


def test_environment_and_folder(tmp_path: Path, host: LocalHost) -> None:
    shown = python("import os; print(os.getcwd(), os.environ['ETQ_X'], 'PATH' in os.environ)")
    assert host.run(shown, environment={"ETQ_X": "1 2"}).output == [f"{Path.cwd()} 1 2 True"]
    assert LocalHost(str(tmp_path)).run(shown, environment={"ETQ_X": "3"}).output == [f"{tmp_path} 3 True"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("import os; os.abort()", -6),
    ],
)
def test_statuses(host: LocalHost, code: str, status: int) -> None:
    assert host.run(python(code)).status == status


def test_only_the_last_lines_of_an_endless_output_are_kept(host: LocalHost) -> None:
    code = "import os\nfor _ in range(300): os.write(1, b'y' * 99999 + b'\\n')\nos.write(2, b'\\x1b[1mred\\rlast')"
    output = host.run(python(code)).output
    assert output[-2:] == ["\\x1b[1mred", "last"]
    assert len(output) <= 100 and max(map(len, output)) <= 500


def test_peak_memory_is_the_commands_own(host: LocalHost) -> None:
    """Not that of this process, which the system counts as that of what it starts."""
    held = bytearray(300 * MB)
    for at in range(0, len(held), 4096):
        held[at] = 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > 300 * MB
    small = host.run(python("pass")).peak_bytes
    large = host.run(python(f"x = bytearray({100 * MB})\nfor at in range(0, len(x), 4096): x[at] = 1")).peak_bytes
    assert small is not None and large is not None
    assert small < 40 * MB and 100 * MB < large < 140 * MB
    assert len(held) == 300 * MB


def test_what_cannot_be_started(host: LocalHost, tmp_path: Path) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign"
    text.write_text("x")
    foreign.write_bytes(b"\x7fELF\2\1\1")
    foreign.chmod(0o755)
    for words, message in (
        (["etq-no-such"], "etq-no-such: no such program; give its path, or put it on PATH"),
        ([str(text)], f"{text}: may not be run; chmod +x makes a program of it"),
        ([str(foreign)], f"{foreign}: is not a program of this machine; build it for this one, or name its own with --adb or --ssh"),
        (["echo", "\0"], "echo: can't be run: embedded null byte"),
        (["echo", "x" * 2**20], "echo: can't be run: argument list too long"),
    ):  # fmt: skip
        with pytest.raises(HostError) as raised:
            host.run(words)
        assert str(raised.value) == message


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_a_time_limit_ends_the_whole_group(host: LocalHost, stubborn: str) -> None:
    long = long_time()
    script = f"{stubborn}echo begun; sleep {long} & sleep {long}"
    with pytest.raises(
        HostError, match=r"this machine: sh took more than 0\.3 s and was ended; raise --timeout"
    ) as raised:
        host.run(["sh", "-c", script], seconds=0.3)
    assert raised.value.output == ["begun"]
    assert processes_with(long) == []


def test_what_a_command_leaves_is_ended(host: LocalHost) -> None:
    long = long_time()
    start = time.monotonic()
    assert host.run(["sh", "-c", f"sleep {long} & echo left"]).output == ["left"]
    assert time.monotonic() - start < 60  # it doesn't wait for the end of the output, which the left process holds
    assert processes_with(long) == []


def test_an_interrupt_ends_the_command(host: LocalHost) -> None:
    long = long_time()
    with pytest.raises(KeyboardInterrupt), interrupted(0.5):
        host.run(["sleep", long])
    assert processes_with(long) == []


def test_a_command_ends_with_a_killed_etq() -> None:
    long = long_time()
    code = f"from etq.bench.hosts.local import LocalHost; LocalHost().run(['sh', '-c', 'sleep {long}; true'])"
    etq = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    while not sleeping(long):
        assert etq.poll() is None
        time.sleep(0.05)
    etq.kill()
    etq.wait()
    assert processes_with(long) == []


def sleeping(word: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return any(line.split() == ["sleep", word] for line in listed.splitlines())


def test_files(host: LocalHost, tmp_path: Path) -> None:
    made = f"{host.folder}/out"
    assert host.run(["sh", "-c", f"echo 1 > {made}"]).status == 0
    target = tmp_path / "taken"
    assert host.pull(made, str(target)) and target.read_text() == "1\n"
    host.remove(made)
    host.remove(made)
    target.unlink()
    assert not host.pull(made, str(target)) and [*tmp_path.iterdir()] == []
    assert host.push(os.path.relpath(__file__)) == str(Path(__file__).absolute())
    with pytest.raises(HostError, match="nothing: no such file"):
        host.push("nothing")


def test_a_full_disk_leaves_no_part(host: LocalHost, tmp_path: Path) -> None:
    made = Path(host.folder) / "out"
    made.write_bytes(bytes(2 * MB))
    (tmp_path / "taken.copying").symlink_to("/dev/full")
    with pytest.raises(HostError, match=r"taken: can't be written: no space left on device$"):
        host.pull(str(made), str(tmp_path / "taken"))
    assert [*tmp_path.iterdir()] == []


def test_a_closed_host_leaves_nothing() -> None:
    host = LocalHost()
    host.connect()
    folder = Path(host.folder)
    assert folder.is_dir()
    host.close()
    assert not folder.exists()


def test_it_reads_small_files_and_writes_them_back(host: LocalHost, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "c").mkdir()
    assert host.read([f"{tmp_path}/?", "/no/such*", "dumpsys battery"]) == {
        f"{tmp_path}/{name}": f"{name}\n" for name in "ab"
    }
    assert host.write({f"{tmp_path}/a": "1", "/proc/version": "1"}) == [f"{tmp_path}/a"]
    host.close()
    assert (tmp_path / "a").read_text() == "a\n"


def test_labels(host: LocalHost) -> None:
    labels = host.labels()
    assert labels["os_build"] == os.uname().release and labels["host"] == os.uname().nodename and labels["device"]
