"""Arguments and input that are not UTF-8, as a terminal of another encoding or a file system may give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BAD = "\udcff"  # the byte 0xff, as Python has it in arguments


def refused(lab: str, *arguments: str, given: bytes = b"") -> str:
    """What a command prints that ends with an error in one line."""
    command = [sys.executable, "-m", "etq", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, cwd=Path(lab).parent, check=False)
    [line] = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (1, b"")
    return line


def test_queries(lab: str) -> None:
    query = f"SELECT '{BAD}'"
    assert refused(lab, "sql", query, "--db", lab) == "Error: the query: not UTF-8 text"
    assert refused(lab, "sql", "--db", lab, "-f", "-", given=b"SELECT 1 -- \xff") == "Error: stdin: not UTF-8 text"


def test_outputs(lab: str) -> None:
    found = refused(lab, "ops", "run", "--db", lab, "-o", f"{BAD}.parquet")
    assert found.endswith(": the path of a Parquet file must be UTF-8")
    found = refused(lab, "db", "merge", lab, "-o", f"{BAD}.duckdb")
    assert found.endswith(": the path of a warehouse must be UTF-8")
    assert sorted(each.name for each in Path(lab).parent.iterdir()) == ["lab.duckdb"]
