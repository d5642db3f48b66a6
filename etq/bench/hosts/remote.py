"""Machines that are reached by a client such as adb or ssh, which runs a script in the machine's shell.

What a machine answers is not trusted: it is read to a limit, and a word of it is never run here. Each script ends in a
line with a random mark and its exit status, as old versions of adb don't tell it; without that line the connection was
lost.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import IO, Any, Final

from etq.bench.hosts import Finished, HostError
from etq.bench.hosts.child import Ended, TimeLimitError, last_lines, run_child
from etq.bench.hosts.system import Changes
from etq.errors import displayed

# Seconds in which a machine answers what takes it no time, and the most bytes of an answer.
ANSWER_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 2**20
# The slowest transfer that is waited for, in bytes per second.
_SLOWEST: Final = 100_000
# The programs that tell a command's peak memory: GNU's, and toybox's on Android. Those of busybox and of GNU before 1.8
# take its kilobytes for pages, and tell a multiple.
_TIMERS: Final = ("/usr/bin/time", "/system/bin/time", "toybox time")
_PEAK: Final = re.compile(rb"(?:Maximum resident set size \(kbytes\)|Max RSS \(KiB\)): *(\d{1,15})\b")
_HEADER: Final = re.compile(r"^==> (.+) <==\n", re.MULTILINE)
_PATTERN: Final = re.compile(r"/[\w./:,*?-]+")
_FULL: Final = b"No space left on device"


@dataclass(frozen=True)
class Answer:
    """What a script printed, and its exit status."""

    status: int
    output: bytes


class RemoteHost(ABC):
    """A machine with a shell; see `Host`. Its clients are run on this machine, with a limit of time and of output."""

    folder = ""
    # What runs a script as root where this user isn't root but may be.
    roots: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self._changes = Changes()
        self._labels: dict[str, str] | None = None
        self._session = ""  # what starts a command as the leader of a group of processes, if there is such a program
        self._timer = ""

    @abstractmethod
    def connect(self) -> None:
        """See `Host`."""

    @abstractmethod
    def shell(self, script: str) -> list[str]:
        """Return the command of this machine that runs a script in the machine's shell."""

    @abstractmethod
    def raw(self, script: str) -> list[str]:
        """Return the one whose stdout is the script's, byte for byte."""

    @abstractmethod
    def send(self, path: str, to: str, seconds: float) -> bytes:
        """Copy a local file to the machine, and return what its client printed; the caller checks the copy."""

    @abstractmethod
    def find_labels(self) -> dict[str, str]:
        """Ask the machine what it is."""

    def lost(self, output: bytes) -> HostError:
        """Return the error for an answer without its end."""
        what = f"{self.name}: the connection was lost; check its cable or network, and go on with --resume"
        return HostError(what, last_lines(output))

    def prepare(self, folder: str) -> None:
        """Make the machine's folder, which is named as a word of a script, and find what runs commands there."""
        timers = " ".join(map(quote, _TIMERS))
        answer = self.ask(
            f'mkdir -p {folder} && cd {folder} && echo "folder $(pwd)" || exit 1; '
            # Some versions start another process, and don't wait for it if they aren't told to.
            "for s in setsid 'setsid -w'; do $s sh -c 'exit 7' & wait $!; "
            '[ $? = 7 ] && echo "session $s" && break; done; '
            f"for t in {timers}; do ( $t --version; $t -v true ) 2>&1 | grep -q -e '(GNU Time)' -e 'Max RSS (KiB)' && "
            'echo "timer $t" && break; done; true'
        )
        found = dict(re.findall(r"^(folder|session|timer) (.+)$", "\n".join(last_lines(answer.output)), re.MULTILINE))
        if answer.status or not re.fullmatch(r"/[^\\]*", found.get("folder", "")):
            raise self._refused(answer.output, f"can't make the folder {folder}")
        self.folder = found["folder"]
        self._session = found["session"] if found.get("session") in ("setsid", "setsid -w") else ""
        self._timer = f"{found['timer']} -v" if found.get("timer") in _TIMERS else ""

    def ask(self, script: str, *, seconds: float = ANSWER_SECONDS, stdin: IO[bytes] | None = None) -> Answer:
        """Run a script of the machine's shell. Raises `HostError` if the connection is lost, or the time is up."""
        mark, output = secrets.token_hex(8), bytearray()

        def take(part: bytes) -> None:
            output.extend(part)
            if len(output) > _ANSWER_BYTES:
                most = f"more than {_ANSWER_BYTES >> 20} MB"
                raise HostError(f"{self.name}: answers with {most}; look what its shell prints", last_lines(output))

        words = self.shell(f"( {script} ) 2>&1; s=$?; echo; echo {mark} $s")
        ended = self.call(words, seconds=seconds, stdin=stdin, sink=take)
        return self._answer(bytes(output), mark, ended.output)

    def _answer(self, output: bytes, mark: str, said: bytes = b"") -> Answer:
        """The output without the mark, in which lines end as on this machine; `said` is what the client said of it."""
        output = output.replace(b"\r\n", b"\n")
        found = re.search(rb"\n?^%s (\d{1,3})$\n?" % mark.encode(), output, re.MULTILINE)
        if found is None:
            raise self.lost(said or output)
        return Answer(int(found[1]), output[: found.start()] + output[found.end() :])

    def call(
        self,
        words: Sequence[str],
        *,
        seconds: float | None = ANSWER_SECONDS,
        stdin: IO[bytes] | None = None,
        sink: Callable[[bytes], None] | None = None,
    ) -> Ended:
        """Run a client. Raises `HostError` if it can't be run, or the time is up."""
        try:
            return self._call(words, seconds=seconds, stdin=stdin, sink=sink)
        except TimeLimitError as error:
            what = f"{self.name}: gave no answer within {seconds:g} s; check its cable or network, or restart it"
            raise HostError(what, last_lines(error.output)) from None

    def _call(self, words: Sequence[str], **options: Any) -> Ended:
        try:
            return run_child(words, environment={"LC_ALL": "C"}, **options)
        except FileNotFoundError:
            raise HostError(f"{words[0]}: not found; {_INSTALL[words[0]]}, and put it on PATH") from None

    def push(self, path: str, name: str | None = None) -> str:
        """See `Host`. Without a name it has one of its own for its content, as several may be called the same."""
        try:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                file.seek(0)
                md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise HostError(f"{displayed(path)}: can't be read: {(error.strerror or str(error)).lower()}") from None
        if name is None:
            name = f"{digest[:12]}-{re.sub(r'[^A-Za-z0-9._-]', '_', Path(path).name)[-100:]}"
        target = f"{self.folder}/{name}"
        if not self._has(target, size, digest, md5):
            self._push(path, target, size, digest, md5)
        return target

    def _has(self, path: str, size: int, digest: str, md5: str) -> bool:
        """Whether a file of the machine has these bytes; by their size and MD5 if it has no sha256sum."""
        at = quote(path)
        script = f"[ -f {at} ] || exit 3; wc -c <{at}; sha256sum <{at} || md5sum <{at}"
        words = self.ask(script, seconds=ANSWER_SECONDS + size / _SLOWEST / 100).output.split()
        return words[:1] == [b"%d" % size] and (digest.encode() in words or md5.encode() in words)

    def _push(self, path: str, target: str, size: int, digest: str, md5: str) -> None:
        part = f"{target}.part"
        at, to = quote(part), quote(target)
        try:
            output = self.send(path, part, ANSWER_SECONDS + size / _SLOWEST)
            if not self._has(part, size, digest, md5):
                raise self._refused(output, f"{Path(path).name} was not copied there whole")
            mode = 755 if os.access(path, os.X_OK) else 644
            answer = self.ask(f"chmod {mode} {at} && mv -f {at} {to}")
            if answer.status:
                raise self._refused(answer.output, f"can't put {Path(path).name} into {self.folder}")
        except BaseException:
            with suppress(HostError):
                self.ask(f"rm -f {at}", seconds=5)
            raise

    def _refused(self, output: bytes, what: str) -> HostError:
        """The error for what the machine doesn't do, with its reason if that is known."""
        lines = last_lines(output)
        if _FULL in output:
            what = f"{what}: it is full; remove files there, such as those in {self.folder or 'its folder'}"
        elif lines:
            what = f"{what}: {lines[-1]}"
        else:
            what = f"{what}; check its cable or network, and try again"
        return HostError(f"{self.name}: {what}", lines)

    def pull(self, path: str, to: str) -> bool:
        """See `Host`."""
        at = quote(path)
        answer = self.ask(f"if [ -f {at} ]; then wc -c <{at}; else echo none; fi")
        text = answer.output.strip()
        if text == b"none":
            return False
        if answer.status or not re.fullmatch(rb"\d{1,18}", text):
            raise self._refused(answer.output, f"can't read {path}")
        part = f"{to}.copying"
        try:
            self._pull(path, part, int(text))
            Path(part).replace(to)
        except OSError as error:
            raise HostError(f"{displayed(to)}: can't be written: {(error.strerror or str(error)).lower()}") from None
        finally:
            with suppress(OSError):
                Path(part).unlink(missing_ok=True)
        return True

    def _pull(self, path: str, part: str, size: int) -> None:
        with open(part, "wb") as file:

            def take(data: bytes) -> None:
                if file.tell() + len(data) > size:
                    raise HostError(f"{self.name}: {path} grows while it is copied; end what still writes to it")
                file.write(data)

            ended = self.call(self.raw(f"cat {quote(path)}"), seconds=ANSWER_SECONDS + size / _SLOWEST, sink=take)
            if file.tell() < size:
                what = f"{self.name}: {path} came with {file.tell()} of its {size} bytes; check its cable or network"
                raise HostError(f"{what}, and go on with --resume", last_lines(ended.output))

    def remove(self, path: str) -> None:
        """See `Host`."""
        answer = self.ask(f"rm -f {quote(path)}")
        if answer.status:
            raise self._refused(answer.output, f"can't remove {path}")

    def run(
        self, words: Sequence[str], *, seconds: float | None = None, environment: Mapping[str, str] | None = None
    ) -> Finished:
        """See `Host`."""
        mark = secrets.token_hex(8)
        try:
            ended = self._call(self.shell(self._run_script(words, environment or {}, mark)), seconds=seconds)
            answer = self._answer(ended.output, f"end {mark}")
        except BaseException as error:
            has_ended = self._end(mark)
            if isinstance(error, TimeLimitError):
                what = f"{displayed(words[0])} took more than {seconds:g} s"
                done = "was ended" if has_ended else "may still run there"
                raise HostError(f"{self.name}: {what} and {done}; raise --timeout", last_lines(error.output)) from None
            if isinstance(error, HostError) and not has_ended:
                raise HostError(f"{error}; the command may still run there", error.output) from None
            raise
        if answer.status:
            raise self._refused(answer.output, f"can't run {words[0]}")
        return self._finished(words, answer, mark, ended.seconds)

    def _run_script(self, words: Sequence[str], environment: Mapping[str, str], mark: str) -> str:
        """A script that runs a command in a group of processes of its own, which `_end` and a hang-up end.

        The inner shell tells the command's exit status, as programs that time a command tell it each in their own way.
        """
        inner = f'"$@" >&3 2>&3 3>&-; s=$?; echo >&3; echo status {mark} $s >&3'
        leader = f'echo $$ >.run-{mark}; exec {self._timer} sh -c {quote(inner)} sh "$@"'
        exports = "".join(f"export {key}={quote(value)}; " for key, value in environment.items())
        command = f"{self._session} sh -c {quote(leader)} sh {' '.join(map(quote, words))}"
        end = f'p=$(cat .run-{mark} 2>/dev/null); [ -n "$p" ] && kill -9 -$p 2>/dev/null'
        return (
            f"cd {quote(self.folder)} || {{ echo; echo end {mark} 1; exit; }}; {exports}"
            f"trap '{end}; rm -f .run-{mark} .time-{mark}; exit 129' HUP TERM PIPE; "
            f"{command} </dev/null 3>&1 >/dev/null 2>.time-{mark} & wait $!; {end}; "
            f"echo; echo time {mark} 0; cat .time-{mark}; rm -f .run-{mark} .time-{mark}; echo; echo end {mark} 0"
        )

    def _finished(self, words: Sequence[str], answer: Answer, mark: str, seconds: float) -> Finished:
        whole, peak = answer.output, None
        timed = whole.rfind(f"\ntime {mark} 0\n".encode())
        if timed >= 0 and (found := _PEAK.search(whole, timed)):
            peak = int(found[1]) * 1024
        output = whole[:timed] if timed >= 0 else whole
        found = re.search(rb"\n?^status %s (\d{1,3})$\n?" % mark.encode(), output, re.MULTILINE)
        if found is None:  # all of its group were killed, or it was not even started
            if _FULL in output:
                raise self._refused(output, f"can't run {words[0]}")
            return Finished(-signal.SIGKILL, last_lines(output), seconds, peak)
        status = int(found[1])
        output = output[: found.start()] + output[found.end() :]
        if status in (126, 127):
            what = "no such program there" if status == 127 else "can't be run there"
            what = f"{words[0]}: {what}; give the path that it has on that machine, and a program built for it"
            raise HostError(f"{self.name}: {what}", last_lines(output))
        return Finished(128 - status if 128 < status <= 192 else status, last_lines(output), seconds, peak)

    def _end(self, mark: str) -> bool:
        """End the command of a script and its children; return False if the machine doesn't answer."""
        at = f"{quote(self.folder)}/.run-{mark}"
        script = (
            # Without a group, its processes are those that it started.
            "k() { for c in $(pgrep -P $1); do k $c; done; kill -9 $1; }; "
            f'p=$(cat {at} 2>/dev/null); rm -f {at} {quote(self.folder)}/.time-{mark}; [ -n "$p" ] || exit 0; '
            "{ kill -TERM -$p || { k $p; exit 0; }; } 2>/dev/null; "
            "for i in 1 2; do kill -0 -$p 2>/dev/null || exit 0; sleep 1; done; kill -9 -$p 2>/dev/null; true"
        )
        try:
            return self.ask(script, seconds=10).status == 0
        except HostError:
            return False

    def read(self, patterns: Sequence[str]) -> dict[str, str]:
        """See `Host`."""
        files, services = [], []
        for pattern in patterns:
            if pattern.startswith("dumpsys "):
                services.append(pattern)
            elif set("*?") & set(pattern):
                if not _PATTERN.fullmatch(pattern):
                    raise ValueError(f"{pattern!r}: expected a path with * and ?")
                files.append(pattern)
            else:
                files.append(quote(pattern))
        script = f"head -n 400 /dev/null /dev/null {' '.join(files)} 2>/dev/null; "
        script += "".join(
            f"echo; echo '==> {each} <=='; {each} 2>/dev/null | head -n 400; "
            for each in services
            if each.isprintable()
        )
        parts = _HEADER.split(self.ask(f"{script}true").output.decode(errors="backslashreplace"))
        known = re.compile("|".join(map(_expression, patterns)))
        texts = zip(parts[1::2], parts[2::2], strict=True)
        return {name: text.rstrip("\n") + "\n" for name, text in texts if known.fullmatch(name)}

    def write(self, texts: Mapping[str, str]) -> list[str]:
        """See `Host`."""
        self._changes.remember(self.read([*texts]))
        return self._write(texts)

    def _write(self, texts: Mapping[str, str]) -> list[str]:
        script = " ".join(f"echo {quote(text)} >{quote(path)};" for path, text in texts.items()) + " true"
        attempts = [f'[ "$(id -u)" = 0 ] && {{ {script}; }}', *(f"{each} {quote(script)}" for each in self.roots)]
        attempts.append(script)
        self.ask(" || ".join(f"( {each} ) 2>/dev/null" for each in attempts))
        there = self.read([*texts])
        return [path for path, text in texts.items() if there.get(path, "").strip() == text]

    def labels(self) -> dict[str, str]:
        """See `Host`."""
        if self._labels is None:
            self._labels = self.find_labels()
        return dict(self._labels)

    def close(self) -> None:
        """See `Host`."""
        self._changes.undo(self._write, self.name)


_INSTALL: Final = {
    "adb": "install Android's platform tools",
    "ssh": "install OpenSSH's client",
}


def _expression(pattern: str) -> str:
    """The regular expression of a pattern."""
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(each) or re.escape(each) for each in pattern)
