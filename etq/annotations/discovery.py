"""Labels found for a file: from its path by a pattern, from git, from a sidecar file."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from etq.database.locking import refuse_open
from etq.errors import ArgumentTypeError, EtqError, FormatError, displayed
from etq.ingest import stores

if TYPE_CHECKING:
    import subprocess

    import pyarrow as pa

SIDECARS: Final = (".json", ".toml")
# A sidecar has some labels and metrics. As Python objects, TOML takes hundreds of times its size.
_LARGEST: Final = 2**20
# Settings that keep git from running programs that a repository's configuration names, even to fetch missing objects.
_NO_PROGRAMS: Final = tuple(
    word
    for setting in ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "log.showSignature=false")
    for word in ("-c", setting)
)
# A time limit: if there are pipes or endless devices in place of files, git waits for the pipes, and reads the devices
# for ever.
_GIT_SECONDS: Final = 60
_GIT_BYTES: Final = 2**31
_NO_REMOTES: Final = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
# The hash of a commit and its time.
_FORMAT: Final = ("--format=%H %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")
# The beginning of a hash, as git accepts it.
_SHORTEST: Final = 4
_HASH: Final = re.compile(f"[0-9a-f]{{{_SHORTEST},64}}")
_FILTER: Final = re.compile(r"filter\..*\.(?:clean|smudge|process|required)\Z", re.DOTALL | re.IGNORECASE)
_HOLE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class Discovered(NamedTuple):
    """The annotations found for a file: labels by key, and the metrics of its sidecar."""

    labels: Mapping[str, str] = {}
    metrics: tuple[pa.RecordBatch, ...] = ()


def discover(
    path: str | None,
    pattern: str | None,
    repository: Repository | None,
    sidecar: bool,
    given: Mapping[str, str] | None = None,
) -> Discovered:
    """Return the annotations of a file. The sidecar overrides the pattern, and the pattern overrides git. If they, or a
    `given` label, name a commit, git only adds its time.

    Raises `FormatError` for a damaged sidecar, and `EtqError` for a path that doesn't fit the pattern, and for a commit
    that the repository doesn't have.
    """
    if not isinstance(given, Mapping | None):
        raise ArgumentTypeError(f"labels are a mapping of texts to texts, not {given!r}")
    labels: dict[str, str] = {}
    metrics: list[pa.RecordBatch] = []
    if pattern is not None:
        if path is None:
            raise EtqError("a pattern takes labels from a path, and bytes have none")
        labels |= labels_of_path(path, pattern)
    if sidecar and path is not None and (sidecar_path := sidecar_of(path)) is not None:
        from etq.ingest.metrics.sidecar import read_sidecar

        for table, rows in read_sidecar(_bytes(sidecar_path), displayed(sidecar_path)):
            if table == "labels":
                labels |= {row["key"]: row["value"] for row in rows.to_pylist()}
            else:
                metrics.append(rows)
    if repository is not None:
        named = {**labels, **(given or {})}
        labels = {**repository.labels(named.get("commit"), "commit_time" in named), **labels}
    return Discovered(labels, tuple(metrics))


class Repository:
    """A folder's git repository: it gives the state for captures that name no commit, and the times of commits.

    Raises `EtqError` as `labels_of_git` does.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder, self._head = folder, labels_of_git(folder)
        self._times: dict[str, dict[str, str]] = {}

    def labels(self, commit: str | None, is_time_known: bool) -> dict[str, str]:
        """Return the labels of captures of a commit; None: the checked-out one. For another commit, branch and dirty
        are unknown. Raises `EtqError` if the commit's time is needed and the commit is missing.
        """
        if commit is None or (len(commit) >= _SHORTEST and self._head["commit"].startswith(commit)):
            return self._head
        if is_time_known:
            return {}
        if commit not in self._times:
            self._times[commit] = self._of_commit(commit)
        return self._times[commit]

    def _of_commit(self, commit: str) -> dict[str, str]:
        try:
            if not _HASH.fullmatch(commit):
                raise EtqError("not a hash")
            line = _line(self._folder, "log", "-1", *_FORMAT, f"{commit}^{{commit}}", "--")
        except EtqError:
            shown = displayed(os.fspath(self._folder))
            what = f"has no commit {displayed(commit)}, which a capture is labelled with"
            raise EtqError(
                f"{shown}: {what}; leave out label_git (--label-git), or give a label commit_time, too"
            ) from None
        return dict(zip(("commit_time",), line.split()[1:], strict=False))


def _bytes(path: str) -> bytes:
    if stores.is_address(path):
        with stores.opened(path) as file:
            content = bytes(file.read(_LARGEST + 1))
    else:
        content = _bytes_of_file(path)
    if len(content) > _LARGEST:
        what = f"a sidecar has at most {_LARGEST:,} bytes; sidecar=False leaves sidecars out"
        raise FormatError(displayed(path), what)
    return content


def _bytes_of_file(path: str) -> bytes:
    refuse_open(path)
    try:
        # It may be a pipe, on which reading would wait.
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise FormatError(displayed(path), "not a regular file; sidecar=False leaves sidecars out")
            return file.read(_LARGEST + 1)
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise FormatError(displayed(path), f"can't be read: {what}; sidecar=False leaves sidecars out") from error


def sidecar_of(path: str) -> str | None:
    """Return the sidecar of a file: run.etdp.json or run.etdp.toml. Raises `EtqError` if both exist."""
    there = [path + ending for ending in SIDECARS if _is_there(path + ending)]
    if len(there) > 1:
        raise EtqError(f"{displayed(path)}: has two sidecars, {' and '.join(map(displayed, there))}; keep one")
    return there[0] if there else None


def _is_there(path: str) -> bool:
    return stores.size_of(path) is not None if stores.is_address(path) else os.path.lexists(path)


def labels_of_path(path: str, pattern: str) -> dict[str, str]:
    """Return the labels that a pattern like {model}/{device}/{build}.etdp reads from the end of a path.

    Each {key} matches one or more characters within a folder's or the file's name. {} does too, but its text becomes no
    label. {{ and }} match braces. Raises `EtqError` for a path that doesn't fit, or fits in more than one way.
    """
    keys = [key for _, key in _parts(pattern) if key is not None]
    if not any(keys):
        raise EtqError(f"{pattern!r} is not a pattern for labels: it has no {{key}}, as in {{model}}/{{device}}.etdp")
    if stores.is_address(path):
        whole = displayed(path.partition("://")[2])
    else:
        whole = displayed(os.path.abspath(path)).replace(os.sep, "/")  # noqa: PTH100 - links keep their names
    # If the shortest and the longest match are the same, the pattern fits in only one way.
    ways = [re.search(_expression(pattern, greed), whole, re.DOTALL) for greed in ("+?", "+")]
    if ways[0] is None or ways[1] is None:
        raise EtqError(f"{displayed(path)}: the path doesn't end as the pattern {pattern} does")
    for key, short, long in zip(keys, ways[0].groups(), ways[1].groups(), strict=True):
        if short != long:
            raise EtqError(
                f"{displayed(path)}: fits the pattern {pattern} in more than one way: {{{key}}} may be {short!r} or "
                f"{long!r}; give the label itself (--label)"
            )
    return {key: value for key, value in zip(keys, ways[0].groups(), strict=True) if key}


def _expression(pattern: str, greed: str) -> str:
    """Return a pattern as a regular expression, with a group for each {}."""
    expression = ""
    for text, key in _parts(pattern):
        expression += re.escape(text) if key is None else f"([^/]{greed})"
    return f"(?:^|/){expression}\\Z"


def _parts(pattern: str) -> Iterator[tuple[str, str | None]]:
    """Yield a pattern's parts: literal text and None, or no text and a key, which is empty for {}."""
    seen: set[str] = set()
    end = 0
    for hole in _HOLE.finditer(pattern):
        yield pattern[end : hole.start()], None
        end = hole.end()
        if hole[0] in ("{{", "}}"):
            yield hole[0][0], None
            continue
        key = hole[1]
        if key is None:
            raise EtqError(
                f"{pattern!r} is not a pattern for labels: it has an unmatched brace; write {{{{ for a brace"
            )
        if key in seen:
            raise EtqError(f"{pattern!r} is not a pattern for labels: it has {{{key}}} twice")
        if key:
            seen.add(key)
        yield "", key
    yield pattern[end:], None


def labels_of_git(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return the state of a folder's git repository: commit, commit_time (in UTC), branch, and dirty (true or false).

    Dirty means, as in `git describe --dirty`, that files tracked by git are changed; of submodules, only the commits
    are compared. A commit that is checked out without a branch has no branch. Programs that the repository names, such
    as filters, aren't run, so a rewritten file with a filter counts as changed.

    Raises `EtqError` if git is not installed, or the folder has no repository or no commit.
    """
    line = _line(folder, "log", "-1", *_FORMAT)
    # git prints no date for a commit whose date it can't read.
    labels = dict(zip(("commit", "commit_time"), line.split(), strict=False))
    if (branch := _line(folder, "branch", "--show-current")) != "":
        labels["branch"] = branch
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    changed = _git(folder, *status, without=_filters(folder))
    return {**labels, "dirty": "true" if changed else "false"}


def _filters(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of the settings of filters, which are programs that git runs to compare files."""
    names = os.fsdecode(_git(folder, "config", "--null", "--name-only", "--list")).split("\0")
    return [name for name in names if _FILTER.match(name)]


def _line(folder: str | os.PathLike[str], *arguments: str) -> str:
    return _git(folder, *arguments).decode(errors="backslashreplace").strip()


def _git(folder: str | os.PathLike[str], *arguments: str, without: Sequence[str] = ()) -> bytes:
    """Return what git prints, with its settings `without` empty."""
    import subprocess

    # Print in UTC and English, and don't take the lock that a concurrent commit needs.
    settings = {**os.environ, "TZ": "UTC", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **_NO_REMOTES}
    # As arguments, names with "=" would be parsed differently.
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    for place, name in enumerate(without, first):
        settings |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": ""}
    settings["GIT_CONFIG_COUNT"] = str(first + len(without))
    shown = displayed(os.fspath(folder))
    try:
        # A separate process group, so that git's child processes end with it.
        git = subprocess.Popen(
            ["git", *_NO_PROGRAMS, "-C", os.fspath(folder), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise EtqError("labels from git need git, which is not installed") from None
    with git:
        try:
            _limit_memory(git.pid)
            output, errors = git.communicate(timeout=_GIT_SECONDS)
        except BaseException as error:
            _kill_group(git)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            what = f"git gave no answer within {_GIT_SECONDS} s: look for pipes and devices in the repository"
            raise EtqError(f"{shown}: {what}, or give a label commit (--label)") from None
    if git.returncode != 0:
        message = errors.decode(errors="backslashreplace").strip().removeprefix("fatal: ").split("\n")[0]
        raise EtqError(f"{shown}: git failed: {message or f'it ended with {git.returncode}'}")
    return output


def _limit_memory(process: int) -> None:
    """Limit what a process allocates, where the system can: its files may be links to endless devices."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # the process has ended, or has a lower limit
            resource.prlimit(process, resource.RLIMIT_DATA, (_GIT_BYTES, _GIT_BYTES))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
