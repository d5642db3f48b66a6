"""Commands over the traces of a job's ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.choices import UNITS
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import link_option, output_options, warehouse_option
from etq.cli.targets import is_file
from etq.errors import EtqError
from etq.render.writers import write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from etq.warehouse.warehouse import Warehouse

_unit_option = click.option("--unit", type=click.Choice(UNITS), help="Unit of times.  [default: us]")
# By job, how far clocks differ, if by more than the estimates are uncertain.
_DIFFERENCES: Final = """
    SELECT c.job, max(c.clock_offset) - min(c.clock_offset), min(c.unit)
    FROM clock_offsets({arguments}) AS c
    WHERE c.clock_offset IS NOT NULL
    GROUP BY c.job
    HAVING max(c.clock_offset) - min(c.clock_offset) > 2 * max(c.spread)
    ORDER BY c.job
"""
# By view, which ranks of a job lack what it computes, and why.
_WITHOUT_WAITS: Final = (
    """
    SELECT s.job, string_agg(DISTINCT s.rank::VARCHAR, ', ' ORDER BY s.rank::VARCHAR), count(DISTINCT s.rank)
    FROM stragglers({arguments}) AS s
    GROUP BY s.job HAVING count(s.waited) = 0 ORDER BY s.job
    """,
    "no rank ran a collective (NCCL, RCCL, gloo), so that nothing is known of what {ranks} waited for",
)
# The views of etq stragglers by what a row is, and what is shown of them to people.
_VIEWS: Final = {None: "stragglers", "rank": "stragglers", "step": "rank_steps"}
_UNKNOWN: Final = {
    "stragglers": _WITHOUT_WAITS,
    "rank_steps": _WITHOUT_WAITS,
    "clock_offsets": (
        """
        SELECT c.job, string_agg(c.rank::VARCHAR, ', ' ORDER BY c.rank), count(*)
        FROM clock_offsets({arguments}) AS c
        WHERE c.clock_offset IS NULL
        GROUP BY c.job ORDER BY c.job
        """,
        "the clock of {ranks} isn't known: no collective that ends for several ranks at once, such as an all-reduce, "
        "is in their traces and in those of others",
    ),
}


@main.command()
@click.argument("selector", required=False)
@click.option(
    "--by",
    type=click.Choice(("rank", "step", "collective", "call")),
    help="Each rank, each of its steps, each kind of collective, or each kernel of one.  [default: rank]",
)
@link_option
@_unit_option
@warehouse_option
@output_options
def stragglers(
    selector: str | None,
    by: str | None,
    link_bandwidth: float | None,
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Show which ranks of a job the others wait for. Each rank has a PyTorch Profiler trace.

    SELECTOR chooses the traces of the ranks, such as job=train; by default all. Their label rank is found at ingest.
    By collective and by call, time is parted into waiting for the last rank and the transfer, on clocks that etq
    clocks aligns; --link-bandwidth is what the bandwidth of the transfer is compared with.

    \b
    etq ingest 'traces/*.pt.trace.json.gz' --label job=train --db lab.duckdb
    etq stragglers job=train --db lab.duckdb
    etq stragglers job=train --by collective --db lab.duckdb
    """
    options = (format, output, force)
    if by in _VIEWS:
        if link_bandwidth is not None:
            raise EtqError("--link-bandwidth is for --by collective and --by call")
        _show_ranks(_VIEWS[by], selector, unit, db, options, notes_clocks=True)
        return
    given = {"by": by, "link_bandwidth": link_bandwidth}
    _show_ranks("collective_waits", selector, unit, db, options, given)


@main.command()
@click.argument("selector", required=False)
@_unit_option
@warehouse_option
@output_options
def clocks(
    selector: str | None, unit: str | None, db: str, format: str | None, output: str | None, force: bool
) -> None:
    """Estimate how far the clocks of a job's ranks differ. Collectives end for all ranks at about the same time.

    SELECTOR chooses the traces of the ranks, such as job=train; by default all. Their label rank is found at ingest.

    \b
    etq ingest 'traces/*.pt.trace.json.gz' --label job=train --db lab.duckdb
    etq clocks job=train --db lab.duckdb
    """
    _show_ranks("clock_offsets", selector, unit, db, (format, output, force))


def _show_ranks(
    view: str,
    selector: str | None,
    unit: str | None,
    db: str,
    options: tuple[str | None, str | None, bool],
    more: Mapping[str, Any] | None = None,
    *,
    notes_clocks: bool = False,
) -> None:
    """Print a view of ranks; notes on stderr if it has no rows, about what isn't known of ranks, and, where the view
    compares ranks, if clocks differ.
    """
    from etq.warehouse.warehouse import open

    if selector is not None and is_file(selector, db):
        raise EtqError(
            f"{selector} is a file; ingest the traces of all ranks of a job first, such as with --label job=train"
        )
    given = {"selector": selector, "unit": unit, **(more or {})}
    arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    format, output, force = options
    with open(db, read_only=True) as warehouse:
        _check_one_job(warehouse, selector)
        query = f"FROM {view}({catalog.arguments(arguments)})"
        if not write(warehouse, query, format, output, force=force, view=catalog.named(view), **arguments):
            chosen = "" if selector is None else f" of {selector}"
            needed = " and collectives that name their process group" if view == "collective_waits" else ""
            say(f"Note: no trace{chosen} has a label rank{needed}; ingest the traces of a job's ranks")
            return
        if view in _UNKNOWN:
            _note_unknown(warehouse, arguments, _UNKNOWN[view])
        if notes_clocks:
            _note_clocks(warehouse, arguments)


def _check_one_job(warehouse: Warehouse, selector: str | None) -> None:
    """Raise `EtqError` if several traces without a label job are of one rank: they are not of one job."""
    query = """
        SELECT r.rank, string_agg(r.name, ', ' ORDER BY r.name) FROM _job_ranks($selector, NULL) AS r
        WHERE r.job IS NULL GROUP BY r.rank HAVING count(*) > 1 ORDER BY r.rank LIMIT 1
    """
    for rank, names in warehouse.rows(query, selector=selector)[1]:
        raise EtqError(
            f"several traces without a label job are of rank {rank}: {names}; choose those of one job by a selector, "
            "or label them: etq label CAPTURE job=NAME"
        )


def _note_unknown(warehouse: Warehouse, arguments: dict[str, str], unknown: tuple[str, str]) -> None:
    query, text = unknown
    for job, ranks, number in warehouse.rows(query.format(arguments=catalog.arguments(arguments)), **arguments)[1]:
        of_job = "" if job is None else f"job {job}: "
        word = "rank" if number == 1 else "ranks"
        say(f"Note: {of_job}{text.format(ranks=f'{word} {ranks}')}")


def _note_clocks(warehouse: Warehouse, arguments: dict[str, str]) -> None:
    query = _DIFFERENCES.format(arguments=catalog.arguments(arguments))
    for job, difference, unit in warehouse.rows(query, **arguments)[1]:
        of_job = "" if job is None else f"job {job}: "
        text = f"clocks of ranks differ by up to {difference:.6g} {unit}, see etq clocks; steps are matched by number"
        say(f"Note: {of_job}{text}")
