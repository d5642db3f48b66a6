"""The library that reads and writes Delta tables, and its errors."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Final

from etq.errors import WarehouseError

# The prefix of each further line of the library's errors, lines of a backtrace, and lines of a store's XML.
_ARROW: Final = re.compile("\x1b\\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}")
_NOT_SHOWN: Final = re.compile(r"\d+: |at |<")


def deltalake() -> Any:
    """The library. Raises `WarehouseError` if it isn't installed."""
    if "deltalake" not in sys.modules and "RUST_LOG" not in os.environ:
        # It reads this as it is imported. Its warnings, one for each place without credentials, hide the error.
        os.environ["RUST_LOG"] = "error"
        try:
            return deltalake()
        finally:
            del os.environ["RUST_LOG"]
    try:
        import deltalake as module
    except ImportError:
        raise WarehouseError("a lake needs deltalake: pip install 'etq[lake]'") from None
    return module


def reason(error: object) -> str:
    """The first and the last line of an error of the library, without the layers between them."""
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
