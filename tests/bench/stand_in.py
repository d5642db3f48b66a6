"""Stand-ins for adb and ssh that run a device's scripts on this machine, in a lab: `stand_in.py adb|ssh WORD…`.

The lab is the folder `$STAND_IN`. `root` has the device's files: /data/local/tmp, /sys and /proc/… in scripts are those
in it. `bin` has the device's own programs. `devices` is what `adb devices` lists. `fails.json` says how to fail: `how`,
and for which scripts, `when` they contain this. `calls` gets a line for each call.

What a script starts on the device is in a session of its own, as it lives on when a client is killed.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

LAB = Path(os.environ["STAND_IN"])
ROOT = LAB / "root"
# Absolute paths of the device that a script names.
PLACES = re.compile(
    r"(?<![\w.])/(?=data/local/tmp|home/\.cache|sys/|proc/loadavg|proc/meminfo|proc/cpuinfo|proc/sys/|proc/device-tree|etc/os-release)"
)
READING = "thermal_zone0/temp"


def main(client: str, words: list[str]) -> int:
    fails = json.loads((LAB / "fails.json").read_text())
    with (LAB / "calls").open("a") as calls:
        calls.write(f"{client} {' '.join(words)}\n".replace("\n", " ")[:5000] + "\n")
    if client == "ssh":
        while words[0].startswith("-"):
            words = words[2 if words[0] == "-o" else 1 :]
        return ssh(words[1], fails)
    if words[0] == "devices":
        print("* daemon not running; starting now at tcp:5037\n* daemon started successfully")
        print("List of devices attached\n" + (LAB / "devices").read_text())
        return 0
    assert words[0] == "-s", words
    if f"{words[1]}  " not in (LAB / "devices").read_text():
        print(f"adb: device '{words[1]}' not found", file=sys.stderr)
        return 1
    if words[2] == "push":
        return push(words[3], words[4], fails)
    status = run(words[3], fails, is_raw=words[2] == "exec-out", lost="error: closed")
    return 0 if fails["how"] == "old" else status


def push(path: str, to: str, fails: dict[str, str]) -> int:
    content, target = Path(path).read_bytes(), Path(located(to))
    if fails["how"] in ("full", "half"):
        target.write_bytes(content[: len(content) // 2])
        reason = "No space left on device" if fails["how"] == "full" else "connection reset"
        print(f"adb: error: failed to copy '{path}' to '{to}': remote couldn't write file: {reason}", file=sys.stderr)
        return 1
    target.write_bytes(content)
    print(f"{path}: 1 file pushed, 0 skipped. 31.4 MB/s ({len(content)} bytes in 0.001s)")
    return 0


def ssh(script: str, fails: dict[str, str]) -> int:
    refusals = {
        "denied": "board: Permission denied (publickey,password).",
        "unknown": "ssh: Could not resolve hostname board: Name or service not known",
        "refused": "ssh: connect to host board port 22: Connection refused",
        "key": "No ED25519 host key is known for board and you have requested strict checking.\nHost key verification failed.",
    }
    if fails["how"] in refusals:
        print(refusals[fails["how"]], file=sys.stderr)
        return 255
    if fails["how"] == "full":
        script = re.sub(r"cat >[^ |);]+part\b", "cat >/dev/full", script)
    return run(script, fails, is_raw=False, lost="client_loop: send disconnect: Broken pipe")


def located(text: str) -> str:
    return PLACES.sub(lambda _: f"{ROOT}/", text)


def run(script: str, fails: dict[str, str], *, is_raw: bool, lost: str) -> int:
    how = fails["how"] if fails.get("when", "") in script else ""
    cool(script)
    if how == "hang":
        time.sleep(1000)
    while how == "flood":
        os.write(1, b"y" * 2**16)
    environment = {
        **os.environ,
        "HOME": f"{ROOT}/home",
        "PATH": f"{LAB}/bin:{os.environ['PATH']}",
        "STAND_IN_ROOT": str(ROOT),
    }
    stdin = None if "cat >" in script else subprocess.DEVNULL
    device = subprocess.Popen(
        ["sh", "-c", located(script)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment, start_new_session=True, bufsize=0,
    )  # fmt: skip
    assert device.stdout
    if how == "lost":
        time.sleep(0.5)  # the script is running by then
        print(lost, file=sys.stderr)
        return 255
    if "exec cat" in script:  # the connection that the others share
        os.write(1, device.stdout.read(100))
        return device.wait()
    output = device.stdout.read().replace(str(ROOT).encode(), b"")
    if how == "half" and (is_raw or "cat " in script):
        output = output[: len(output) // 2]
    if how == "endless" and (is_raw or "cat " in script):
        output += b"more"
    if how == "old":
        output = output.replace(b"\n", b"\r\n")
    os.write(1, output) if len(output) < 2**16 else sys.stdout.buffer.write(output)
    return device.wait()


def cool(script: str) -> None:
    """Each reading of the temperature is the next of `cooling`, if there are some left."""
    cooling = LAB / "cooling"
    if READING.replace("0", "*") in script and cooling.exists():
        first, _, rest = cooling.read_text().partition("\n")
        if first:
            (ROOT / "sys/class/thermal" / READING).write_text(f"{first}\n")
        cooling.write_text(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
