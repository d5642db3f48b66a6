"""Devices by adb and boards by ssh, with stand-ins for both: what they do, and each way in which they fail."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest

from etq.bench.hosts import HostError
from etq.bench.hosts.adb import AdbHost, devices
from etq.bench.hosts.remote import RemoteHost
from etq.bench.hosts.ssh import SshHost
from tests.bench.lab import PIXEL, Lab, interrupted, long_time, make_lab, processes_with

MB = 2**20
KINDS: dict[str, Callable[[], RemoteHost]] = {"adb": AdbHost, "ssh": lambda: SshHost("board")}
FOLDERS = {"adb": "/data/local/tmp/etq-bench", "ssh": "/home/.cache/etq-bench"}
CLIENTS = {"adb": "adb 1A2B3C", "ssh": "ssh board"}
# In the scripts of commands that are measured, and in no others.
RUN = "3>&1"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return make_lab(tmp_path / "lab", monkeypatch)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def host(lab: Lab, kind: str) -> Iterator[RemoteHost]:
    made = KINDS[kind]()
    made.connect()
    yield made
    lab.fail("")
    made.close()


def on_device(lab: Lab, kind: str, name: str = "") -> Path:
    """A file of the device's folder. The home of the one by ssh is on this machine, and so are its paths."""
    return lab.root / FOLDERS[kind].lstrip("/") / name


def test_what_it_is(host: RemoteHost, kind: str) -> None:
    assert host.name == CLIENTS[kind]
    assert (
        host.labels()
        == {
            "adb": {
                "device": "Google Pixel 8",
                "soc": "Google Tensor G3",
                "os": "Android 14",
                "os_build": "google/shiba/shiba:14/AP2A.240805.005/12025142:user/release-keys",
            },
            "ssh": {
                "device": "Raspberry Pi 5 Model B Rev 1.0",
                "os": "Debian GNU/Linux 12 (bookworm)",
                "os_build": "6.6.31+rpt-rpi-v8",
                "host": "board7",
            },
        }[kind]
    )


def test_words_are_not_interpreted(host: RemoteHost) -> None:
    words = ["a b", "$HOME", "`id`", "'", '"', "\\", "\\\\n", "*", "; exit 3", "", "#", "é", "-n"]
    shown = "import sys, os; print(sys.argv[1:], os.environ['ETQ_X'])"
    ended = host.run(["python3", "-c", shown, *words], environment={"ETQ_X": "$(id) '\""})
    assert (ended.status, ended.output) == (0, [f"{words!r} $(id) '\""])


def test_it_runs_in_its_folder(host: RemoteHost, lab: Lab, kind: str) -> None:
    assert host.run(["touch", "here"]).output == []
    assert lab.pushed() == ["here"] and on_device(lab, kind, "here").exists()


@pytest.mark.parametrize(
    ("script", "status"), [("exit 3", 3), ("kill -9 $$", -9), ("kill -6 $$", -6), ("exit 255", 255)]
)
def test_statuses(host: RemoteHost, lab: Lab, script: str, status: int) -> None:
    ended = host.run(["sh", "-c", f"echo out; echo err >&2; {script}"])
    assert (ended.status, ended.output[:2]) == (status, ["out", "err"])
    assert lab.pushed() == []


def test_an_old_adb_that_tells_no_status(lab: Lab) -> None:
    """It ends lines as a terminal does, and always with status 0."""
    lab.fail("old")
    host = AdbHost()
    host.connect()
    ended = host.run(["sh", "-c", "echo a; echo b; exit 4"])
    assert (ended.status, ended.output) == (4, ["a", "b"])
    assert host.read(["/proc/loadavg"]) == {"/proc/loadavg": "2.05 1.70 1.20 3/2345 12345\n"}


@pytest.mark.skipif(which("time") is None, reason="GNU time tells the peak memory, as toybox does on Android")
def test_peak_memory(host: RemoteHost) -> None:
    code = f"x = bytearray({100 * MB})\nfor at in range(0, len(x), 4096): x[at] = 1"
    peak = host.run(["python3", "-I", "-S", "-c", code]).peak_bytes
    assert peak is not None and 100 * MB < peak < 140 * MB


def test_a_machine_without_setsid_and_time(lab: Lab, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = long_time()
    for name in ("setsid", "toybox", "busybox"):
        lab.program(f"bin/{name}", "exit 127\n")
    monkeypatch.setattr("etq.bench.hosts.remote._TIMERS", ("toybox time",))
    host = KINDS[kind]()
    host.connect()
    ended = host.run(["sh", "-c", "exit 5"])
    assert (ended.status, ended.peak_bytes) == (5, None)
    with pytest.raises(HostError, match=r"sh took more than 0\.5 s and was ended"):
        host.run(["sh", "-c", f"sleep {long} & sleep {long}"], seconds=0.5)
    host.close()
    assert processes_with(long) == []


def test_no_such_program(host: RemoteHost, kind: str) -> None:
    with pytest.raises(HostError) as raised:
        host.run(["etq-no-such"])
    assert str(raised.value) == (
        f"{CLIENTS[kind]}: etq-no-such: no such program there; "
        "give the path that it has on that machine, and a program built for it"
    )


def test_only_what_is_not_there_is_pushed(host: RemoteHost, lab: Lab, kind: str, tmp_path: Path) -> None:
    net, other = tmp_path / "net, 1.pte", tmp_path / "other"
    other.mkdir()
    for path, content in ((net, b"base\0\r\n" * 9999), (other / net.name, b"new")):
        path.write_bytes(content)
    net.chmod(0o755)
    places = [host.push(str(path)) for path in (net, other / net.name, net)]
    assert places[0] == places[2] != places[1]
    names = [f"{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}-net__1.pte" for path in (net, other / net.name)]
    assert lab.pushed() == sorted(names) and [Path(place).name for place in places] == [*names, names[0]]
    assert on_device(lab, kind, names[0]).read_bytes() == net.read_bytes()
    assert [os.access(on_device(lab, kind, name), os.X_OK) for name in names] == [True, False]
    sent = {"adb": " push ", "ssh": "cat >"}[kind]
    assert lab.calls(sent) == 2 + (kind == "ssh")  # the connection has a cat of its own
    on_device(lab, kind, names[1]).write_bytes(b"old")  # as long
    host.push(str(other / net.name))
    assert on_device(lab, kind, names[1]).read_bytes() == b"new"
    assert host.push(str(net), "name").endswith("/name") and "name" in lab.pushed()


def test_without_sha256sum_size_and_md5_tell_what_is_there(
    host: RemoteHost, lab: Lab, kind: str, tmp_path: Path
) -> None:
    lab.program("bin/sha256sum", "exit 127\n")
    path = tmp_path / "net.pte"
    path.write_bytes(b"base")
    place = on_device(lab, kind, Path(host.push(str(path))).name)
    changed = place.stat().st_mtime_ns
    host.push(str(path))
    assert (place.stat().st_mtime_ns, place.read_bytes()) == (changed, b"base")


def test_pull(host: RemoteHost, lab: Lab, kind: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    on_device(lab, kind, "out put").write_bytes(content)
    target = tmp_path / "taken"
    assert host.pull(f"{host.folder}/out put", str(target)) and target.read_bytes() == content
    host.remove(f"{host.folder}/out put")
    assert lab.pushed() == []
    target.unlink()
    assert not host.pull(f"{host.folder}/out put", str(target)) and not target.exists()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("half", r"out came with 500 of its 1000 bytes; check its cable or network, and go on with --resume"),
        ("endless", r"out grows while it is copied; end what still writes to it"),
    ],
)
def test_nothing_is_pulled_by_half(
    host: RemoteHost, lab: Lab, kind: str, tmp_path: Path, how: str, message: str
) -> None:
    on_device(lab, kind, "out").write_bytes(bytes(1000))
    lab.fail(how)
    with pytest.raises(HostError, match=f"{CLIENTS[kind]}: .*/etq-bench/{message}"):
        host.pull(f"{host.folder}/out", str(tmp_path / "taken"))
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


def test_a_full_disk_of_this_machine(host: RemoteHost, lab: Lab, kind: str, tmp_path: Path) -> None:
    on_device(lab, kind, "out").write_bytes(bytes(MB))
    (tmp_path / "taken.copying").symlink_to("/dev/full")
    with pytest.raises(HostError, match=r"taken: can't be written: no space left on device$"):
        host.pull(f"{host.folder}/out", str(tmp_path / "taken"))
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


def test_a_full_disk_of_the_machine(host: RemoteHost, lab: Lab, kind: str, tmp_path: Path) -> None:
    (tmp_path / "net.pte").write_bytes(bytes(1000))
    lab.fail("full")
    message = (
        f"{CLIENTS[kind]}: net.pte was not copied there whole: it is full; "
        r"remove files there, such as those in \S*/etq-bench$"
    )
    with pytest.raises(HostError, match=message):
        host.push(str(tmp_path / "net.pte"))
    assert lab.pushed() == []


def test_a_file_that_is_pushed_by_half(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "net.pte").write_bytes(bytes(1000))
    host = AdbHost()
    host.connect()
    lab.fail("half")
    with pytest.raises(
        HostError, match=r"adb 1A2B3C: net\.pte was not copied there whole: adb: error: .*: connection reset$"
    ):
        host.push(str(tmp_path / "net.pte"))
    assert lab.pushed() == []


@pytest.mark.parametrize(("shell", "programs"), [("mksh", "toybox"), ("busybox", "busybox")])
def test_shells_of_devices(lab: Lab, shell: str, programs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Android's shell is mksh, with the programs of toybox; boards have busybox, whose time is wrong."""
    installed, others = which(shell), which(programs)
    if installed is None or others is None:
        pytest.skip(f"{shell} and {programs} are not installed")
    (lab.folder / "bin/sh").symlink_to(installed)
    for name in ("setsid", "time", "head", "grep", "cat", "rm", "mv", "wc", "sha256sum", "pgrep", "sleep", "mkdir"):
        (lab.folder / "bin" / name).symlink_to(others)
    monkeypatch.setattr("etq.bench.hosts.remote._TIMERS", (f"{programs} time",))
    host, long = AdbHost(), long_time()
    host.connect()
    ended = host.run(["sh", "-c", f'sleep {long} & echo "$1"; exit 3', "sh", "a  '$b\\"])
    assert (ended.status, ended.output) == (3, ["a  '$b\\"])
    assert (ended.peak_bytes is None) == (programs == "busybox")
    with pytest.raises(HostError, match="was ended"):
        host.run(["sh", "-c", f"sleep {long} & sleep {long}"], seconds=0.5)
    assert processes_with(long) == [] and lab.pushed() == []
    assert host.read(["/proc/loadavg"]) == {"/proc/loadavg": "2.05 1.70 1.20 3/2345 12345\n"}
    place = host.push(__file__)
    assert host.push(__file__) == place and lab.calls(" push ") == 1


def test_a_setsid_that_starts_another_process(lab: Lab, kind: str) -> None:
    """It waits for it, if told to with -w."""
    long = long_time()
    lab.program(
        "bin/setsid",
        'if [ "$1" = -w ]; then shift; exec /usr/bin/setsid -f -w "$@"; fi\nexec /usr/bin/setsid -f "$@"\n',
    )
    host = KINDS[kind]()
    host.connect()
    assert host.run(["sh", "-c", "sleep 0.3; exit 6"]).status == 6
    with pytest.raises(HostError, match="took more than"):
        host.run(["sh", "-c", f"sleep {long} & sleep {long}"], seconds=0.5)
    host.close()
    assert processes_with(long) == []


def test_what_a_command_leaves_there_is_ended(host: RemoteHost, lab: Lab) -> None:
    long = long_time()
    assert host.run(["sh", "-c", f"sleep {long} & echo left"]).output == ["left"]
    assert processes_with(long) == [] and lab.pushed() == []


def test_a_full_disk_where_a_command_runs(host: RemoteHost, lab: Lab, kind: str) -> None:
    lab.program("bin/setsid", "echo 'cannot create .time: No space left on device' >&3\n")
    with pytest.raises(HostError, match=f"{CLIENTS[kind]}: can't run true: it is full; remove files there"):
        host.run(["true"])


def test_a_time_limit_ends_the_command_there(host: RemoteHost, lab: Lab, kind: str) -> None:
    long = long_time()
    with pytest.raises(HostError) as raised:
        host.run(["sh", "-c", f"trap '' TERM; sleep {long} & sleep {long}"], seconds=0.5)
    assert str(raised.value) == f"{CLIENTS[kind]}: sh took more than 0.5 s and was ended; raise --timeout"
    assert processes_with(long) == [] and lab.pushed() == []


def test_an_interrupt_ends_the_command_there(host: RemoteHost, lab: Lab) -> None:
    long = long_time()
    with pytest.raises(KeyboardInterrupt), interrupted(0.5):
        host.run(["sleep", long])
    assert processes_with(long) == [] and lab.pushed() == []


def test_a_connection_that_is_lost_midway(host: RemoteHost, lab: Lab, kind: str) -> None:
    long = long_time()
    lab.fail("lost", when=RUN)
    with pytest.raises(HostError) as raised:
        host.run(["sleep", long])
    assert str(raised.value) == (
        f"{CLIENTS[kind]}: the connection was lost; check its cable or network, and go on with --resume"
    )
    assert raised.value.output == [{"adb": "error: closed", "ssh": "client_loop: send disconnect: Broken pipe"}[kind]]
    assert processes_with(long) == [] and lab.pushed() == []


def test_a_device_that_goes_offline_midway(lab: Lab) -> None:
    host = AdbHost()
    host.connect()
    (lab.folder / "devices").write_text(PIXEL.replace(" device ", " offline "))
    lab.fail("lost", when=RUN)
    with pytest.raises(HostError, match="is offline; reconnect its cable"):
        host.run(["true"])
    (lab.folder / "devices").write_text("\n")
    with pytest.raises(HostError) as raised:
        host.run(["true"])
    assert str(raised.value) == (
        "adb 1A2B3C: the connection was lost: adb: no device is connected; "
        "connect one, and allow USB debugging in its settings; the command may still run there"
    )


def test_a_machine_that_hangs(host: RemoteHost, lab: Lab, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.bench.hosts.remote.RemoteHost.ask", short(RemoteHost.ask))
    lab.fail("hang")
    with pytest.raises(HostError, match=f"{CLIENTS[kind]}: gave no answer within 0.3 s; check its cable or network"):
        host.read(["/proc/loadavg"])
    with pytest.raises(HostError, match=r"true took more than 0\.3 s and may still run there; raise --timeout"):
        host.run(["true"], seconds=0.3)


def short(ask: Callable[..., object]) -> Callable[..., object]:
    return lambda self, script, **_: ask(self, script, seconds=0.3)


def test_a_machine_that_answers_without_end(host: RemoteHost, lab: Lab, kind: str) -> None:
    lab.fail("flood")
    with pytest.raises(
        HostError, match=f"^{CLIENTS[kind]}: answers with more than 1 MB; look what its shell prints$"
    ) as raised:
        host.read(["/proc/loadavg"])
    assert len(raised.value.output) <= 100 and max(map(len, raised.value.output)) <= 500


def test_what_a_client_says_is_no_answer(lab: Lab, kind: str, tmp_path: Path) -> None:
    path = lab.folder / "clients" / kind
    path.write_text(path.read_text().replace("exec", "echo warning >&2; exec", 1))
    host = KINDS[kind]()
    host.connect()
    assert host.read(["/proc/loadavg"]) == {"/proc/loadavg": "2.05 1.70 1.20 3/2345 12345\n"}
    (tmp_path / "net.pte").write_bytes(b"net")
    assert host.pull(host.push(str(tmp_path / "net.pte")), str(tmp_path / "taken"))
    host.close()


def test_each_command_has_its_own_connection_if_the_shared_one_is_lost(lab: Lab) -> None:
    host = SshHost("board")
    host.connect()
    host.ask("true")
    assert host._master is not None and lab.calls("ControlPath=none") == 0
    host._master.kill()
    host._master.wait()
    assert host.run(["echo", "still there"]).output == ["still there"] and lab.calls("ControlPath=none") == 1
    host.close()


@pytest.mark.parametrize(
    ("listed", "serial", "message"),
    [
        ("", None, "adb: no device is connected; connect one, and allow USB debugging in its settings"),
        ("", "X1", "adb: no device is connected; connect one, and allow USB debugging in its settings"),
        (f"{PIXEL}emulator-5554  device\n", None, "adb: several devices are connected: 1A2B3C, emulator-5554; choose one with --adb SERIAL"),
        (PIXEL, "X1", "adb: no device X1 is connected; connected are 1A2B3C"),
        ("X1  offline\n", None, "adb X1: is offline; reconnect its cable, or run: adb reconnect offline"),
        ("X1  unauthorized usb:1-2\n", None, "adb X1: is unauthorized; unlock it, and accept this computer there (Allow USB debugging)"),
        (f"{PIXEL}X1  unauthorized\n", "X1", "adb X1: is unauthorized; unlock it, and accept this computer there (Allow USB debugging)"),
        (
            "X1  no permissions (missing udev rules? user is in the plugdev group); see [http://developer.android.com/tools/device.html]\n",
            None,
            "adb X1: may not be used by this user; add a rule of udev for it, see adb's documentation",
        ),
        ("X1  recovery\n", None, "adb X1: is in the state recovery; start Android on it"),
    ],
)  # fmt: skip
def test_devices_that_are_not_ready(lab: Lab, listed: str, serial: str | None, message: str) -> None:
    (lab.folder / "devices").write_text(listed)
    with pytest.raises(HostError) as raised:
        AdbHost(serial).connect()
    assert str(raised.value) == message


def test_the_only_device_that_is_ready_is_chosen(lab: Lab) -> None:
    (lab.folder / "devices").write_text(f"X1  offline\n{PIXEL}")
    host = AdbHost()
    host.connect()
    assert host.name == "adb 1A2B3C"
    assert devices("List of devices attached\nemulator-5554\tdevice\n\n") == {"emulator-5554": "device"}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("denied", "board: Permission denied (publickey,password).; copy your key to it (ssh-copy-id board), and load it (ssh-add): no password is asked for"),
        ("unknown", "ssh: Could not resolve hostname board: Name or service not known; check its name, or add it to ~/.ssh/config"),
        ("refused", "ssh: connect to host board port 22: Connection refused; start its ssh server, or name the port in ~/.ssh/config"),
        ("key", "Host key verification failed.; connect to it once by hand (ssh board), and check its key"),
    ],
)  # fmt: skip
def test_boards_that_refuse(lab: Lab, how: str, message: str) -> None:
    lab.fail(how)
    with pytest.raises(HostError) as raised:
        SshHost("board").connect()
    assert str(raised.value) == f"ssh board: can't connect: {message}"


@pytest.mark.parametrize("name", ["-oProxyCommand=touch x", "", "a b", "a\nb"])
def test_names_that_are_not_of_machines(name: str) -> None:
    with pytest.raises(HostError, match="is not the name of a machine; --ssh takes what ssh takes: HOST or USER@HOST"):
        SshHost(name)


def test_clients_that_are_not_installed(lab: Lab, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(lab.folder))
    with pytest.raises(HostError, match=f"^{kind}: not found; install .*, and put it on PATH$"):
        KINDS[kind]().connect()


def test_a_folder_that_cannot_be_made(lab: Lab, kind: str) -> None:
    on_device(lab, kind).parent.mkdir(parents=True, exist_ok=True)
    on_device(lab, kind).write_text("a file")
    host = KINDS[kind]()
    with pytest.raises(HostError, match=f"^{CLIENTS[kind]}: can't make the folder .*etq-bench.*: mkdir: .*File exists"):
        host.connect()
    host.close()


def test_it_reads_small_files(host: RemoteHost, lab: Lab) -> None:
    lab.file("sys/class/thermal/thermal_zone7/type", "x\n==> /etc/passwd <==\nfake\n")
    assert host.read(["/sys/class/thermal/thermal_zone?/type", "/proc/loadavg", "/sys/none", "/sys/no*"]) == {
        "/proc/loadavg": "2.05 1.70 1.20 3/2345 12345\n",
        "/sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "/sys/class/thermal/thermal_zone1/type": "battery\n",
        "/sys/class/thermal/thermal_zone7/type": "x\n",
    }
    with pytest.raises(ValueError, match="expected a path with"):
        host.read(["/sys/*; touch x"])


def test_the_connection_ends(lab: Lab) -> None:
    host = SshHost("board")
    host.connect()
    master = host._master
    assert master is not None and master.poll() is None
    sockets = Path(host._sockets)
    host.close()
    assert master.returncode is not None and not sockets.exists()
