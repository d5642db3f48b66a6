"""The command that writes a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from etq.choices import given_options
from etq.cli import main
from etq.cli.compare import judging_options, sides
from etq.cli.job_targets import Job, found_job, opened_job
from etq.cli.options import method_option, query_limits, runs_option, unit_option, warehouse_option
from etq.cli.pages import check_page, file_name_of, open_option, write_page
from etq.cli.targets import FileOptions, file_options, open_target, opened, pop_file_options
from etq.cli.trends import order_options
from etq.errors import printable
from etq.render.progress import working

if TYPE_CHECKING:
    from etq.report.page import Report

# Options for only some kinds of report: of one capture, of two sides, of series.
OF_FILES: Final = FileOptions._fields
OF_SIDES: Final = ("quantile", "phase", "history", "alpha", "min_effect", "allow_mismatch", "step_name")
OF_SERIES: Final = ("over", "by", "since", "phase", "alpha", "min_effect")
TAKEN: Final = {
    "one capture": (*OF_FILES, "method", "runs"),
    "two sides": ("etrecord", *OF_SIDES),
    "series (--trend)": OF_SERIES,
    "a fleet (--fleet)": ("by", *(name for name in OF_SIDES if name not in ("history", "step_name"))),
    "a job": (),
    "what is slower (--home)": (),
}
_OF_MANY: Final = {"trend": "series (--trend)", "fleet": "a fleet (--fleet)", "home": "what is slower (--home)"}


@main.command()
@click.argument("captures", metavar="[CAPTURE | BASE NEW]", nargs=-1)
@click.option(
    "-o", "--output", metavar="FILE", help="Write to that file; - is stdout.  [default: named after the captures]"
)
@click.option("--force", is_flag=True, help="Overwrite any existing file, not only an earlier report of the same.")
@open_option
@click.option("--trend", is_flag=True, help="Report trends over all captures, or those of a selector.")
@click.option("--fleet", is_flag=True, help="Report each device, or value of --by, against all others.")
@click.option(
    "--home", is_flag=True, help="Report what is slower in the warehouse, as the first page of etq serve does."
)
@order_options
@click.option("--since", metavar="LABEL", help="For trends: only changes at this label or later.")
@judging_options
@method_option
@runs_option("typical")
@unit_option(None)
@query_limits
@warehouse_option
@file_options
def report(
    captures: tuple[str, ...],
    output: str | None,
    force: bool,
    opens: bool,
    trend: bool,
    fleet: bool,
    home: bool,
    unit: str | None,
    db: str,
    **options: Any,
) -> None:
    """Write a report about captures into one HTML file. The page needs no network.

    For one CAPTURE: where its time goes. For two sides, BASE and NEW: what differs, and whether the difference counts,
    as in etq compare. With --trend: totals and ops over builds, and since when they changed. With --fleet: which
    devices are slower than all others, and by which ops, as in etq fleet. With --home: what is slower anywhere, and all
    series.

    A capture is a name, a hash prefix, @latest, a selector (key=value,...) or a file, which is read and not stored.
    Each of two sides may be many: a selector, a folder, or a pattern in quotes.

    \b
    etq report run -o run.html --db lab.duckdb
    etq report run.etdp --open
    etq report run.etdp --etrecord model.etrecord --pte model.pte
    etq report build=41 build=42 -o difference.html
    etq report 'base/*.etdp' 'new/*.etdp' --etrecord net.etrecord
    etq report job=train --db lab.duckdb
    etq report --trend model=mlp --over build -o mlp.html
    etq report --fleet model=mlp,build=140 -o fleet.html
    etq report --home --db lab.duckdb -o lab.html
    """
    chosen = [name for name, is_given in (("trend", trend), ("fleet", fleet), ("home", home)) if is_given]
    if len(chosen) > 1:
        raise click.UsageError(f"give one of {' and '.join(f'--{name}' for name in chosen)}")
    of_many = _OF_MANY[chosen[0]] if chosen else None
    job = None if of_many or not captures else found_job(captures, db)
    kind = of_many or ("one capture" if len(captures) == 1 else "two sides")
    kind = kind if job is None else "a job"
    if of_many and len(captures) > 1:
        raise click.UsageError(f"--{chosen[0]} takes one selector, or none for all captures")
    if not of_many and job is None and len(captures) not in (1, 2):
        found = f"not {len(captures)}" if captures else "none is named"
        raise click.UsageError(
            f"a report needs one capture or two sides, {found}; put a pattern of files in quotes; use --trend for many "
            "captures in a series"
        )
    arguments = given_options(options)
    for name in (*arguments, *(["unit"] if unit and home else [])):
        if name not in TAKEN[kind]:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for a report of {kind}")
    check_page(output, force=force, opens=opens)
    with _subject(kind, job, captures, db, arguments | {"unit": unit}) as (make, of):
        path = f"{file_name_of(of)}.html" if output is None else output
        check_page(path, force=force, opens=opens)
        with working("Making the report", sys.stderr):
            made = make()
        write_page(made, path, f"the report of {printable(of)}", force=force, opens=opens)


@contextmanager
def _subject(
    kind: str, job: Job | None, captures: tuple[str, ...], db: str, arguments: dict[str, Any]
) -> Iterator[tuple[Callable[[], Report], str]]:
    """Provide a function that makes the report, and the report's subject."""
    from etq.report import report_of, trends_of
    from etq.report.fleet import fleet_of
    from etq.report.home import home_of
    from etq.report.jobs import job_of

    if job is not None:
        with opened_job(job, db) as warehouse:
            yield partial(job_of, warehouse, job.selector, job.name, **arguments), f"job {job.name}"
    elif kind == "one capture":
        with open_target(captures[0], db, pop_file_options(arguments)) as (warehouse, capture):
            yield partial(report_of, warehouse, [capture], **arguments), capture.name
    elif kind == "two sides":
        base, new = captures
        record = arguments.pop("etrecord", None)
        with sides(base, new, db, record) as (warehouse, *selectors):
            yield partial(report_of, warehouse, selectors, names=(base, new), **arguments), f"{base} and {new}"
    else:
        with opened(db) as warehouse:
            chosen = captures[0] if captures else None
            if kind == _OF_MANY["home"]:
                make = partial(home_of, warehouse, chosen, db)
            else:
                of_kind = trends_of if kind == _OF_MANY["trend"] else fleet_of
                make = partial(of_kind, warehouse, chosen, **arguments)
            yield make, chosen or Path(db).stem
