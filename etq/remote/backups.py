"""Fetching a server's backup: the archive is unpacked as it comes, and is at its place when all of it has come."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final

from etq.database.publishing import new_file
from etq.errors import EtqError
from etq.remote.client import Client
from etq.team.copying import check_output, new_folder

# Seconds between two parts of the answer: the copy of a large warehouse takes minutes.
WAIT: Final = 3600.0
# Files of an archive, bytes that are read before one, and bytes that stay free on the disk.
MOST_FILES: Final = 200_000
LONGEST_HEAD: Final = 2**16
LEFT_FREE: Final = 500_000_000
# What an archive may have: a warehouse, and its server's folder.
_WAREHOUSE: Final = re.compile(r"[^/]+")
_TEAM: Final = re.compile(r"[^/]+\.team/(server\.sqlite|files/[0-9a-f]{64})")


def fetch_backup(url: str, output: str, *, overwrite: bool = False, token: str | None = None) -> list[str]:
    """Make a copy of a server's warehouse, and of its folder beside it with the ending `.team`; return their paths.

    Raises `EtqError` for an answer that isn't a whole backup, and for an output that can't be written.
    """
    target = Path(output).absolute()
    team = target.with_name(f"{target.name}.team")
    if target.exists() and not overwrite:
        raise EtqError(f"{output}: exists; overwrite it with --force")
    check_output(team, overwrite=overwrite)
    try:
        with Client(url, token).streamed("/backup", WAIT) as answer:
            return _unpacked(url, answer, target, team, overwrite=overwrite)
    except (OSError, http.client.HTTPException, tarfile.TarError) as error:
        raise EtqError(f"{url}: the backup was cut off or can't be written ({error}); repeat it") from error


def _unpacked(url: str, answer: http.client.HTTPResponse, target: Path, team: Path, *, overwrite: bool) -> list[str]:
    made: list[str] = []
    _check_room(url, target, answer.length)
    with ExitStack() as stack, tarfile.open(fileobj=answer, mode="r|", tarinfo=_Entry) as archive:
        folder: Path | None = None
        for number, entry in enumerate(archive):
            if number == MOST_FILES:
                raise EtqError(f"{url}: the archive has more than {MOST_FILES:,} files; is it etq serve?")
            content = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
            if content is not None and _TEAM.fullmatch(entry.name):
                if folder is None:
                    folder = stack.enter_context(new_folder(team, overwrite=overwrite))
                    made.append(str(team))
                _write(content, folder / entry.name.partition("/")[2])
            elif content is not None and _WAREHOUSE.fullmatch(entry.name) and str(target) not in made:
                written = Path(stack.enter_context(new_file(str(target), overwrite=overwrite)))
                made.append(str(target))
                _write(content, written)
            else:
                raise EtqError(f"{url}: {entry.name!r} is in the archive, and no part of a backup; is it etq serve?")
        answer.read()
        if answer.length:  # the connection ended early, perhaps between two files
            raise http.client.IncompleteRead(b"", answer.length)
        if not made:
            raise EtqError(f"{url}: an empty archive; is it etq serve?")
    return sorted(made)


class _Entry(tarfile.TarInfo):
    """An entry of an archive. Those before a file, of long names and sizes, are read into memory."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> Any:
        if self.type not in tarfile.REGULAR_TYPES and self.size > LONGEST_HEAD:
            raise tarfile.ReadError(f"an entry of {self.size:,} bytes before a file")
        return super()._proc_member(tarfile_)  # type: ignore[misc]


def _check_room(url: str, target: Path, size: int | None) -> None:
    """Raise `EtqError` unless an archive says how large it is, and there is room for it."""
    if size is None:
        raise EtqError(f"{url}: the answer doesn't say how large it is; is it etq serve?")
    free = shutil.disk_usage(target.parent).free
    if size > free - LEFT_FREE:
        raise EtqError(
            f"{target}: a backup of {size / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free; choose another disk"
        )


def _write(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("xb") as file:
        path.chmod(0o600)
        shutil.copyfileobj(content, file, 2**20)
        file.flush()
        os.fsync(file.fileno())
