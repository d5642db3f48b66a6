"""A board or another Linux machine, reached by ssh."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final

from etq.bench.hosts import HostError
from etq.bench.hosts.child import last_lines
from etq.bench.hosts.remote import ANSWER_SECONDS, RemoteHost
from etq.bench.hosts.system import LABEL_FILES, linux_labels

_FOLDER: Final = '"$HOME/.cache/etq-bench"'
_OPTIONS: Final = (
    *("-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
    *("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none"),
)
# What to do about what ssh says.
_REMEDIES: Final = {
    "Permission denied": "copy your key to it (ssh-copy-id {host}), and load it (ssh-add): no password is asked for",
    "Could not resolve hostname": "check its name, or add it to ~/.ssh/config",
    "Host key verification failed": "connect to it once by hand (ssh {host}), and check its key",
    "Connection refused": "start its ssh server, or name the port in ~/.ssh/config",
    "timed out": "check that it is on, and in the same network",
    "No route to host": "check that it is on, and in the same network",
}
_MOST_BYTES: Final = 2**16


class SshHost(RemoteHost):
    """A machine that `ssh HOST` reaches without a password; see `Host`. One connection serves all commands."""

    roots = ("sudo -n sh -c",)

    def __init__(self, host: str) -> None:
        if not re.fullmatch(r"[^\s-]\S*", host) or not host.isprintable():
            raise HostError(f"{host!r} is not the name of a machine; --ssh takes what ssh takes: HOST or USER@HOST")
        super().__init__(f"ssh {host}")
        self._host = host
        self._sockets = ""  # folder of the connection's socket
        self._master: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """See `Host`."""
        self._open()
        self.prepare(_FOLDER)

    def _open(self) -> None:
        """Start the ssh that the others share the connection of. It ends with its stdin, and so with this process."""
        self._sockets = tempfile.mkdtemp(prefix="etq-ssh-")
        mark = secrets.token_hex(8)
        script = f"echo {mark}; exec cat >/dev/null"
        try:
            self._master = subprocess.Popen(
                self._words(script, "yes"),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
            output = _output_until(self._master, mark.encode())
            if mark.encode() not in output:
                raise self._unreachable(output)
        except FileNotFoundError:
            self._disconnect()
            raise HostError("ssh: not found; install OpenSSH's client, and put it on PATH") from None
        except BaseException:
            self._disconnect()
            raise

    def _unreachable(self, output: bytes) -> HostError:
        lines = last_lines(output)
        said = lines[-1] if lines else f"no answer within {ANSWER_SECONDS:g} s"
        remedy = next((do for words, do in _REMEDIES.items() if words in said), "try it by hand: ssh {host}")
        return HostError(f"{self.name}: can't connect: {said}; {remedy.format(host=self._host)}", lines)

    def _words(self, script: str, master: str = "no") -> list[str]:
        is_shared = master == "yes" or (self._master is not None and self._master.poll() is None)
        path = f"{self._sockets}/s" if is_shared else "none"  # if it is lost, each has a connection of its own
        control = ("-o", f"ControlMaster={master}", "-o", f"ControlPath={path}")
        # The login shell may not be one that runs scripts of sh.
        return ["ssh", *_OPTIONS, *control, self._host, f"exec sh -c {quote(script)}"]

    def shell(self, script: str) -> list[str]:
        """See `RemoteHost`."""
        return self._words(script)

    def raw(self, script: str) -> list[str]:
        """See `RemoteHost`."""
        return self._words(script)

    def send(self, path: str, to: str, seconds: float) -> bytes:
        """See `RemoteHost`."""
        with open(path, "rb") as file:
            return self.ask(f"LC_ALL=C; export LC_ALL; cat >{quote(to)}", seconds=seconds, stdin=file).output

    def find_labels(self) -> dict[str, str]:
        """See `RemoteHost`."""
        return linux_labels(self.read(LABEL_FILES))

    def close(self) -> None:
        """See `Host`."""
        try:
            super().close()
        finally:
            self._disconnect()

    def _disconnect(self) -> None:
        master, self._master = self._master, None
        if master is not None:
            with suppress(OSError):
                assert master.stdin
                master.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                master.wait(1)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(master.pid, signal.SIGKILL)
            master.wait()
            if master.stdout is not None:
                master.stdout.close()
        if self._sockets:
            shutil.rmtree(Path(self._sockets), ignore_errors=True)
            self._sockets = ""


def _output_until(process: subprocess.Popen[bytes], mark: bytes) -> bytes:
    """Return what a process prints until it has printed a mark, ended, taken too long, or printed too much."""
    output, deadline = b"", time.monotonic() + ANSWER_SECONDS
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while mark not in output and len(output) < _MOST_BYTES and (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                part = os.read(process.stdout.fileno(), 2**12)
                if not part:
                    break
                output += part
    return output
