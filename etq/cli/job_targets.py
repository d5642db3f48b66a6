"""The job that a command is about: files of its ranks, a merged trace, or a selector of stored ranks."""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from etq.cli.messages import say
from etq.cli.targets import is_file, is_folder, is_there, is_warehouse, opened, refuse_db
from etq.errors import counted
from etq.render.progress import Progress, working

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


class Job(NamedTuple):
    """A job: its name, and the files of its ranks, a merged trace, or the selector of its captures."""

    name: str
    files: dict[int, str]
    merged: str | None = None
    selector: str | None = None


# The number of traces, of ranks and of jobs; no row if another capture is among them.
_SELECTED: Final = """
    SELECT count(*), count(DISTINCT r.value), list(DISTINCT j.value), bool_and(c.format = 'torch_trace')
    FROM _matching_captures($selector) AS m
    JOIN captures AS c USING (capture_id)
    LEFT JOIN labels AS r ON r.capture_id = c.capture_id AND r.key = 'rank'
    LEFT JOIN labels AS j ON j.capture_id = c.capture_id AND j.key = 'job'
"""


def found_job(arguments: Sequence[str], db: str) -> Job | None:
    """Return the job that the arguments name: a folder, a pattern, files, a merged trace, or a selector of a warehouse;
    None for anything else. Only the beginnings of files are read.
    """
    if len(arguments) == 1 and _is_selector(arguments[0]) and is_there(db) and not os.path.exists(arguments[0]):
        return _selected(arguments[0], db)
    are_files = [is_folder(each) or is_file(each, db) or _is_pattern(each) for each in arguments]
    if not arguments or not all(are_files) or any(map(is_warehouse, arguments)):
        return None
    return _of_files(arguments)


def _is_selector(argument: str) -> bool:
    return "=" in argument or argument.startswith("@")


def _is_pattern(argument: str) -> bool:
    """Whether files match a pattern; names of captures may contain characters of patterns."""
    return glob.has_magic(argument) and any(glob.iglob(argument, recursive=True))  # noqa: PTH207 - may have folders


def _of_files(arguments: Sequence[str]) -> Job | None:
    from etq.ingest.found_files import found_files
    from etq.ingest.recognition import has_several_ranks, rank_of

    files, _ = found_files(arguments)
    name = Path(os.path.commonpath([Path(file).resolve().parent for file in files])).name if files else ""
    if len(files) < 2:
        is_merged = len(files) == 1 and has_several_ranks(files[0])
        return Job(Path(files[0]).name.partition(".")[0], {}, files[0]) if is_merged else None
    ranks = {file: rank_of(file) for file in files}
    known = {file: rank for file, rank in ranks.items() if rank is not None}
    sizes = {size for _, size in known.values() if size is not None}
    if len(known) < len(files) or len(sizes) > 1:
        return None
    times = Counter(rank for rank, _ in known.values())
    if len(times) < 2:
        return None
    if double := [rank for rank, number in times.items() if number > 1]:
        say(
            f"Note: {counted(len(files), 'trace')} of {counted(len(times), 'rank')}, and rank {min(double)} has "
            f"{times[min(double)]}: not one recording of a job; name the files of one"
        )
        return None
    for argument in arguments:
        refuse_db(argument)
    return Job(name or "job", {rank: file for file, (rank, _) in known.items()})


def _selected(selector: str, db: str) -> Job | None:
    with opened(db) as warehouse:
        [(captures, ranks, jobs, are_traces)] = warehouse.rows(_SELECTED, selector=selector)[1]
        selector = warehouse.expanded(selector)
    names = [name for name in jobs or [] if name is not None]
    if captures < 2 or not are_traces or ranks < captures or len(names) != 1:
        return None
    return Job(names[0], {}, selector=selector)


@contextmanager
def opened_job(job: Job, db: str) -> Iterator[Warehouse]:
    """Provide a warehouse with a job, whose captures `job.selector` chooses; None: all captures."""
    from etq.warehouse.ephemeral import open_ephemeral_ranks

    if job.selector is not None:
        with opened(db) as warehouse:
            yield warehouse
    elif job.merged is not None:
        with working(f"Reading {job.merged}", sys.stderr), open_ephemeral_ranks(job.merged) as warehouse:
            yield warehouse
    else:
        with _read({job.name: job.files}) as warehouse:
            yield warehouse


def found_jobs(base: str, new: str, db: str) -> tuple[Job, Job] | None:
    """Return the two jobs that two arguments name, both of files or both stored; None if they name anything else."""
    found = [found_job([argument], db) for argument in (base, new)]
    if found[0] is None or found[1] is None or found[0].merged or found[1].merged:
        return None
    return None if bool(found[0].selector) != bool(found[1].selector) else (found[0], found[1])


@contextmanager
def opened_jobs(base: Job, new: Job, db: str) -> Iterator[tuple[Warehouse, str, str]]:
    """Provide a warehouse with two jobs, and their selectors."""
    if base.selector is not None and new.selector is not None:
        with opened(db) as warehouse:
            yield warehouse, base.selector, new.selector
    else:
        with _read({"base": base.files, "new": new.files}) as warehouse:
            yield warehouse, "job=base", "job=new"


@contextmanager
def _read(jobs: Mapping[str, Mapping[int, str]]) -> Iterator[Warehouse]:
    from etq.warehouse.ephemeral import open_ephemeral_jobs

    with (
        Progress("Reading ranks", sum(map(len, jobs.values())), sys.stderr) as progress,
        open_ephemeral_jobs(jobs, progress.advance) as warehouse,
    ):
        progress.clear()
        yield warehouse
