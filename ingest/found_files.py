"""The files that an argument names: a file, the profiling files of a folder, or the files that match a pattern, also in
a store.
"""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from etq.errors import ArgumentError, MissingFileError, counted, displayed
from etq.ingest.stores import files_below, is_address, size_of

# The most names of files that are listed for each reason to leave out files.
NAMED: Final = 3
# A file that was left out, and the reason, one of `etq.ingest.recognition`.
Left = tuple[str, str]


def found_files(arguments: Iterable[str]) -> tuple[tuple[str, ...], list[Left]]:
    """Return the files that arguments name, and those files of folders that are left out."""
    files: list[str] = []
    left: list[Left] = []
    for argument in arguments:
        found, others = files_of(argument)
        files += found
        left += others
    return tuple(files), left


def files_of(argument: str) -> tuple[list[str], list[Left]]:
    """Return the files that an argument names: a file itself, the profiling files in a folder and below, in the
    order of their names, or the files that match a pattern. Also return those files of folders that are left out, with
    the reason.

    Raises `ArgumentError` for a folder without profiling files, and `StoreError` for a store that can't be read. Raises
    `MissingFileError` if no file matches a pattern, or if an address in a store has no file.
    """
    argument = argument.removeprefix("file://") if argument.startswith("file:///") else argument
    if is_address(argument):
        return _files_of_store(argument)
    if glob.has_magic(argument) and not os.path.exists(argument):
        paths = sorted(glob.glob(argument, recursive=True), key=_by_number)  # noqa: PTH207 - of a pattern with folders
        if not paths:
            raise MissingFileError(argument, "no such files")
        files, left = found_files(paths)
        return [*files], left
    if not Path(argument).is_dir():
        return [argument], []
    return _chosen(argument, _paths_in(argument))


def _files_of_store(address: str) -> tuple[list[str], list[Left]]:
    """Do what `files_of` does for an address in a store: of a file, a pattern, or the beginning of files' addresses."""
    if not address.endswith("/") and size_of(address) is not None:
        return [address], []
    paths = sorted(files_below(address), key=_by_number)
    if not paths:
        raise MissingFileError(displayed(address), "no such files; check the address")
    return (paths, []) if glob.has_magic(address) else _chosen(address, paths)


def _chosen(argument: str, paths: Iterable[str]) -> tuple[list[str], list[Left]]:
    """Return the profiling files of a folder, and its other files. Raises the errors of `files_of`."""
    from etq.ingest.recognition import left_out

    reasons = {path: left_out(path) for path in paths}
    found = [path for path, reason in reasons.items() if reason is None]
    left = [(path, reason) for path, reason in reasons.items() if reason is not None]
    if not found:
        has = listed(left) if left else "no files"
        raise ArgumentError(f"{argument}: a folder without profiling files; it has {has}")
    return found, left


def listed(left: Sequence[Left], most: int = NAMED) -> str:
    """Return how many files were left out for each reason, with the first names."""
    from etq.ingest.recognition import PROGRAM, RECORD

    named: defaultdict[str, list[str]] = defaultdict(list)
    for path, reason in left:
        named[reason].append(Path(path).name)
    options = {RECORD: ", for --etrecord", PROGRAM: ", for --pte"}
    texts = []
    for reason, names in sorted(named.items()):
        count = f"{counted(len(names), reason)}{options.get(reason, '')}"
        texts.append(f"{count} ({', '.join(names[:most])}{', …' if len(names) > most else ''})")
    return "; ".join(texts)


def _by_number(path: str) -> list[tuple[str, int, str]]:
    """The sort key of a path: numbers in it are compared as numbers, so b9 comes before b30.

    Captures without a time of measurement are recorded in this order: the last one is @latest.
    """
    return [(text, int(digits or 0), digits) for text, digits in re.findall(r"(\D*)(\d*)", path)]


def _paths_in(folder: str) -> list[str]:
    """Return the files in a folder and below, in the order of their names, without hidden ones such as git's."""
    paths = []
    for within, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [str(Path(within, name)) for name in names if not name.startswith(".")]
    return sorted(paths, key=_by_number)
