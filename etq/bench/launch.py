"""Starts a command, waits for it, and reports its end: `launch.py REPORT INPUT WORD…`.

This file is run by its path, in a session of its own. The peak memory of a process includes that of the process that
started it. So commands are started by this small process. REPORT is the descriptor to which it writes one line, "ended
STATUS SECONDS PEAK_BYTES" or "failed ERRNO"; INPUT is the descriptor of the command's stdin. Its own stdin is a pipe
from etq. When etq ends for any reason, this process ends the command and its children.
"""

import os
import select
import signal
import sys
import time
from typing import NoReturn


def main(report: int, stdin: int, words: list[str]) -> None:
    """Run the command in this process's group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is for the command, whose end this process reports
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(report, stdin, words)
    for each in (1, 2, stdin):
        os.close(each)  # the command's children end with it
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready:
            os.killpg(0, signal.SIGKILL)
        os.read(woken, 64)
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
    seconds = time.monotonic() - start
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    os.write(report, f"ended {os.waitstatus_to_exitcode(status)} {seconds!r} {peak}\n".encode())


def _become(report: int, stdin: int, words: list[str]) -> NoReturn:
    """Make this process the command, or report why that fails."""
    signal.set_wakeup_fd(-1)
    for each in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(each, signal.SIG_DFL)
    os.set_inheritable(report, False)
    os.dup2(stdin, 0)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        os.write(report, f"failed {error.errno}\n".encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
