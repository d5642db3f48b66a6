"""A commit between DuckDB's reading of a file's headers and its lock on the file is not lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import etq
from tests.sharing import captures

ROOT = Path(__file__).parents[2]
# Holds the first write lock back: makes the file $HELD_BACK, and goes on once that is gone.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
static int held = 0;
static int hold(int fd, int cmd, void *arg, const char *name) {
    int (*next)(int, int, void *) = dlsym(RTLD_NEXT, name);
    if (cmd == F_SETLK && arg && ((struct flock *)arg)->l_type == F_WRLCK && !held) {
        held = 1;
        close(open(getenv("HELD_BACK"), O_CREAT | O_WRONLY, 0600));
        for (int wait = 0; wait < 6000 && access(getenv("HELD_BACK"), F_OK) == 0; wait++) usleep(10000);
    }
    return next(fd, cmd, arg);
}
int fcntl(int fd, int cmd, ...) {
    va_list rest; va_start(rest, cmd); void *arg = va_arg(rest, void *); va_end(rest);
    return hold(fd, cmd, arg, "fcntl");
}
int fcntl64(int fd, int cmd, ...) {
    va_list rest; va_start(rest, cmd); void *arg = va_arg(rest, void *); va_end(rest);
    return hold(fd, cmd, arg, "fcntl64");
}
"""
WRITER = "import sys; from tests.sharing.captures import ingest; ingest(sys.argv[1], sys.argv[2], [int(sys.argv[3])])"


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("holding a lock back takes Linux and a C compiler")
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def test_a_commit_before_the_lock_stays(shim: Path, tmp_path: Path) -> None:
    path, held_back = tmp_path / "lab.duckdb", tmp_path / "held_back"
    etq.open(path).close()
    captures.write(tmp_path, range(2))
    command = [sys.executable, "-c", WRITER, str(path), str(tmp_path)]
    environment = os.environ | {"LD_PRELOAD": str(shim), "HELD_BACK": str(held_back)}
    with subprocess.Popen([*command, "0"], cwd=ROOT, env=environment) as late:
        while not held_back.exists():
            assert late.poll() is None
            time.sleep(0.01)
        # The other process has read the headers, and has no lock.
        subprocess.run([*command, "1"], cwd=ROOT, check=True)
        held_back.unlink()
        assert late.wait() == 0
    with etq.open(path, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.name FROM captures AS c ORDER BY c.capture_id")[1] == [("c1",), ("c0",)]
        assert captures.torn(warehouse) == []
