"""Reads files of object stores through deltalake, so that lakes and files have the same addresses and credentials."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from glob import has_magic
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from etq.errors import FormatError, MissingFileError, StoreError, WarehouseError, displayed

_ADDRESS: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
# The schemes of S3, Google Cloud Storage and Azure, as in the addresses of lakes.
_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
# A request takes up to 30 seconds, and is repeated a few times. So a store that doesn't answer soon causes an error; by
# default, this would take minutes.
_OPTIONS: Final = {"max_retries": "3", "retry_timeout": "30s"}
# First, the prefix of each further line of the library's errors. Second, the beginnings of lines that aren't shown:
# lines of a backtrace, and of a store's XML.
_ARROW: Final = re.compile("\x1b\\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}")
_NOT_SHOWN: Final = re.compile(r"\d+: |at |<")


class State(NamedTuple):
    """The size of a file in bytes, and the time when it was written. Writing it again changes one of the two."""

    size: int
    written_at: datetime | None


def is_address(path: str) -> bool:
    """Whether a path is the address of something in a store, such as s3://lab/raw/run.etdp."""
    return _ADDRESS.match(path) is not None


def state_of(address: str) -> State | None:
    """Return the state of a file, or None if the file doesn't exist. Raises `StoreError` if the store can't be read."""
    files, _, path = _split(address)
    with _answering(address):
        [found] = files.get_file_info([path])
    return State(found.size, found.mtime) if found.is_file else None


def size_of(address: str) -> int | None:
    """Return the size of a file in bytes, by one request, or None if the file doesn't exist.

    Raises `StoreError` if the store can't be read.
    """
    try:
        with opened(address) as file:
            return int(file.size())
    except MissingFileError:
        return None


def files_below(address: str) -> list[str]:
    """Return the addresses of all files below an address, or of all files that match a pattern, in any order. Files
    with a part of the path that begins with a dot are left out.

    Raises `StoreError` for a store that can't be read, or a bucket that doesn't exist.
    """
    from pyarrow.fs import FileSelector

    files, root, path = _split(address)
    parts = path.rstrip("/").split("/")
    fixed = next((place for place, part in enumerate(parts) if has_magic(part)), len(parts))
    below = "/".join(parts[:fixed])
    with _answering(address):
        found = files.get_file_info(FileSelector(below, recursive=True, allow_not_found=True))
    folders = {each.path for each in found if not each.is_file}
    # A folder that was made on a store's own pages is also an empty file.
    names = [each.path for each in found if each.is_file and (each.size or each.path not in folders)]
    names = [name for name in names if not any(part.startswith(".") for part in name[len(below) :].split("/"))]
    if fixed < len(parts):
        from fsspec.utils import glob_translate

        matches = re.compile(glob_translate(path)).match
        names = [name for name in names if matches(name)]
    return [root + name for name in names]


@contextmanager
def opened(address: str) -> Iterator[Any]:
    """Provide a file of a store, as pyarrow's.

    Raises `MissingFileError` and `FormatError` for a file that can't be read, and `StoreError` for a store that can't
    be read, also when the file is read within the block.
    """
    from pyarrow.fs import FileSelector

    files, _, path = _split(address)
    try:
        with files.open_input_file(path) as file:
            yield file
    except FileNotFoundError as error:
        raise MissingFileError(displayed(address)) from error
    except OSError as error:
        with _answering(address):
            files.get_file_info(FileSelector(path.rpartition("/")[0], allow_not_found=True))
        raise FormatError(displayed(address), f"can't be read: {reason(error)}") from error


@contextmanager
def _answering(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        what = f"can't be read: {reason(error)}"
        raise StoreError(f"{displayed(address)}: {what}; check the address, the credentials and the network") from error


def _split(address: str) -> tuple[Any, str, str]:
    """Split the address of a file into the file system of its bucket, the bucket's address, and the path in the bucket.

    Raises `StoreError` if the address is not one of a store.
    """
    scheme, _, rest = address.partition("://")
    bucket, _, path = rest.partition("/")
    if scheme.lower() not in _SCHEMES or not bucket:
        raise StoreError(f"{displayed(address)}: not the address of a store, as s3://lab/raw/; download the file")
    with _answering(address):
        password = urlsplit(address).password
    if password is not None:
        what = "an address with a password; give it by the environment variables of the store's own tools"
        raise StoreError(f"{scheme}://...: {what}")
    root = f"{scheme}://{bucket}/"
    with _answering(address):
        return _files_of(root), root, path


@lru_cache(8)
def _files_of(root: str) -> Any:
    """Return the file system of a bucket, with the credentials of the environment. Raises `OSError` and `ValueError`
    for an invalid address.
    """
    module = deltalake("files in a store need")
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    try:
        return PyFileSystem(DeltaStorageHandler(root, _OPTIONS, {}))
    except module.exceptions.DeltaError as error:
        raise ValueError(str(error)) from error


def deltalake(what: str = "a lake needs") -> Any:
    """Import deltalake. Raises `WarehouseError` if it isn't installed."""
    if "deltalake" not in sys.modules and "RUST_LOG" not in os.environ:
        # deltalake reads this variable on import. By default, it logs a warning for each place in which it finds no
        # credentials; these warnings would hide the error.
        os.environ["RUST_LOG"] = "error"
        try:
            return deltalake(what)
        finally:
            del os.environ["RUST_LOG"]
    try:
        import deltalake as module
    except ImportError:
        raise WarehouseError(f"{what} deltalake: pip install 'etq[lake]'") from None
    return module


def reason(error: object) -> str:
    """Return the first and the last line of an error of deltalake, without the layers between them."""
    lines = [each for line in str(error).splitlines() if (each := _ARROW.sub("", line).strip())]
    lines = [line for line in lines if not _NOT_SHOWN.match(line)]
    if any("credentials" in line or "IMDS" in line for line in lines):
        return (
            "the store needs credentials: set them as its own tools read them, such as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or in storage_options"
        )
    if any("No space left on device" in line for line in lines):
        return "no space left on device: free some"
    return ": ".join(dict.fromkeys((*lines[:1], *lines[-1:])))
