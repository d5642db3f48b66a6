"""What all tests share: the captures kept beside them, and warehouses."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests import sampling
from tests.warehouses import empty_warehouse

# Tests start hundreds of processes: each would compile the libraries anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# As in the commands: threads of numpy's linear algebra would mostly wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest.register_assert_rewrite("tests.asserts", "tests.device_times")

CAPTURES = Path(__file__).parent / "captures"
# Byte for byte other captures, which they were made of to be given another debug buffer, or none.
COPIES = ("mlp_debug_nobin", "mlp_debug_shortbin")


def shared_file(path: str) -> Path:
    """A capture that others published: read where it lies, beside the checkout or in `$ETQ_SHARED`, never kept here."""
    found = Path(os.environ.get("ETQ_SHARED") or Path(__file__).parents[2] / "shared") / path
    if not found.exists():
        pytest.skip(
            f"other people's captures are not kept here: shared/{path} is missing; ETQ_SHARED tells where it is"
        )
    return found


def pytest_configure(config: pytest.Config) -> None:
    """With `-m long`, properties are tested by more of their examples; without it, each worker has a core of its own."""
    gc.disable()  # modules and tests stay until the end: looking for garbage among them takes a third of collecting them
    sampling.set_long_run(config.option.markexpr == "long")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and config.option.markexpr == "not long" and hasattr(os, "sched_setaffinity"):
        # Threads of a database that share the cores with those of other workers mostly wait for each other.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # files are run in the order below


# Their files take longest: they begin first, so that no process is left with one at the end.
SLOW_FOLDERS = ("statistics", "browser", "lake", "sharing")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the files of slow folders to the front."""
    items.sort(key=lambda item: item.path.parent.name not in SLOW_FOLDERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of a file run in one process, so that the warehouses that they share are made once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_collection_finish() -> None:
    """Collect garbage again, but of what tests make alone."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    """An empty warehouse in memory."""
    with empty_warehouse() as opened:
        yield opened


@pytest.fixture(scope="session")
def all_captures() -> Iterator[Warehouse]:
    """A warehouse of all dumps that are not damaged and no copies of others, by stem; not to be written to."""
    dumps = (path for path in sorted(CAPTURES.glob("*/*.etdp")) if path.parent.name != "malformed")
    paths = [path for path in dumps if path.stem not in COPIES]
    with etq.open() as opened:
        assert [getattr(each, "name", each) for each in opened.ingest_many(paths)] == [path.stem for path in paths]
        yield opened
