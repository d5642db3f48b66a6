"""Copying the folder of a server that runs: a copy of one moment, with all files that it names."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from etq.database.publishing import fsync_file, fsync_folder, private_folder
from etq.errors import EtqError
from etq.team.folder import DATABASE, TeamFolder

# The folder in it with the files that wait to be stored, each by its hash.
FILES: Final = "files"


@contextmanager
def copied(source: TeamFolder, target: Path, *, overwrite: bool = False) -> Iterator[None]:
    """Copy a folder to another path, where the copy is when the with block has ended, and nothing if that fails.

    A warehouse that is copied in the block has all captures that are noted as stored: enter it before. A capture that
    is stored between the two waits in the copy as well; the same content is stored once.

    Raises `EtqError` for a path that exists, unless `overwrite`, and for what can't be read or written.
    """
    check_output(target, overwrite=overwrite)
    try:
        with new_folder(target, overwrite=overwrite) as fresh:
            copy_folder(source, fresh)
            yield
    except OSError as error:
        raise EtqError(f"{target}: can't be written: {(error.strerror or str(error)).lower()}") from error


def check_output(target: Path, *, overwrite: bool) -> None:
    """Raise `EtqError` for a path where no folder's copy is made."""
    if target.is_symlink() or (target.exists() and not (target.is_dir() and (target / DATABASE).is_file())):
        raise EtqError(f"{target}: not the folder of a server; name another output, or move it away")
    if target.exists() and not overwrite:
        raise EtqError(f"{target}: exists; overwrite it with --force")


@contextmanager
def new_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Provide an empty folder, which only its owner can read, and is moved to a path if the block raises no error."""
    with private_folder(target) as near:
        fresh, former = Path(near, "fresh"), Path(near, "former")
        fresh.mkdir(mode=0o700)
        yield fresh
        fsync_folder(fresh)
        if overwrite and target.exists():
            target.rename(former)
        fresh.rename(target)
        fsync_folder(target.parent)


def copy_folder(source: TeamFolder, target: Path) -> None:
    """Copy a folder into an empty one. Raises `EtqError`, `OSError`.

    Files come and go only while their rows may be changed. So most are copied while others write, and the few that came
    meanwhile, with the database, while nobody does: it ends however much is sent.
    """
    (target / FILES).mkdir(mode=0o700)
    for _ in range(2):
        _copy_files(source.path / FILES, target / FILES)
    with source.writing():
        _copy_files(source.path / FILES, target / FILES)
        named = _copy_database(source, target / DATABASE)
    for file in (target / FILES).iterdir():
        if file.name in named:
            fsync_file(file)
        else:
            file.unlink()
    fsync_folder(target / FILES)
    fsync_file(target / DATABASE)


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files that aren't there yet. They are named by their hashes: none is ever changed."""
    for file in source.glob("*"):
        copy = target / file.name
        if not copy.exists():
            with suppress(FileNotFoundError):  # stored since
                shutil.copyfile(file, copy)


def _copy_database(source: TeamFolder, target: Path) -> set[str]:
    """Copy the database as it is now; return the names of its files."""
    with source.reading() as connection, closing(sqlite3.connect(target)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # it is written to the disk by the caller, when others go on
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        named = {sha256 for (sha256,) in copy.execute("SELECT sha256 FROM files")}
    target.chmod(0o600)
    return named
