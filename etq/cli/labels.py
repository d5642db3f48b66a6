"""The command that lists captures, and options for labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.cli import main
from etq.cli.options import output_options, together, warehouse_option
from etq.cli.targets import opened, report_unmatched, use_named_view
from etq.database.nearest import unknown_key
from etq.errors import EtqError
from etq.render.selection import selection
from etq.render.table import title
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

MATCHING: Final = """SELECT m.name
    FROM (SELECT unnest($selectors::VARCHAR[]) AS selector) AS g, LATERAL (FROM _matching_captures(g.selector)) AS m"""

# The order is that of other tables: numbers from the largest, then texts from A to Z, then captures without the label.
_BY_LABEL: Final = """
    ORDER BY (
        SELECT (-try_cast(l.value AS DOUBLE), l.value)
        FROM labels AS l
        JOIN captures AS c USING (capture_id)
        WHERE c.name = s.name AND l.key = $label
    ) NULLS LAST, s.name"""


def parsed_labels(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse pairs of KEY=VALUE as labels; other texts are usage errors."""
    labels = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE")
        labels[key.strip()] = value
    return labels


def check_pattern(pattern: str | None, files: Sequence[str]) -> None:
    """Raise one `EtqError` if a pattern for labels is invalid or matches the path of no file."""
    if pattern is None:
        return
    from etq.annotations.discovery import labels_of_path

    errors = []
    for file in files:
        try:
            labels_of_path(file, pattern)
            return
        except EtqError as error:
            errors.append(error)
    which = f"none of {len(files):,} files has labels; " if len(files) > 1 else ""
    raise EtqError(f"{which}{errors[0]}")


def _git_folder(_: click.Context, __: click.Parameter, folder: str | None) -> str | None:
    if folder is not None and not os.path.isdir(folder):
        raise click.BadParameter(f"{folder!r} is not a folder; write --label-git=. for the current one")
    return folder


# Options for finding labels, named as the parameters of `Warehouse.ingest`.
found_options: Final = together(
    click.option("--label-from", metavar="PATTERN", help="Add labels from the path: {model}/{device}/{build}.etdp"),
    click.option(
        "--label-git",
        metavar="[DIR]",
        is_flag=False,
        flag_value=".",
        callback=_git_folder,
        help="Add labels commit, commit_time, branch and dirty of the repository here or in DIR; if another "
        "source gives the commit, only its commit_time.",
    ),
    click.option("--sidecar/--no-sidecar", default=True, help="Whether to read FILE.json or FILE.toml next to FILE."),
)


@main.command()
@click.argument("selectors", metavar="[SELECTOR]...", nargs=-1)
@click.option("--by", metavar="KEY", help="Count captures by the values of that label.")
@click.option(
    "--size", is_flag=True, help="Show each capture's estimated size in the warehouse in bytes, as in capture_sizes."
)
@warehouse_option
@output_options
def captures(
    selectors: tuple[str, ...],
    by: str | None,
    size: bool,
    db: str,
    output: Output,
) -> None:
    """List the captures of a warehouse, in the order of ingest. With selectors, only those that match any of them.

    A selector is a name, a hash prefix, or labels and times separated by commas, which may include @latest or
    @previous: the one of them that was recorded last, or the one before it. It may begin with @NAME, the name of a view
    that etq db view has saved, which also has columns and their order. Labels may be ranges such as build>=91
    (also >, <=, <), one of several values, device=a|b, or another value, device!=a: in quotes, for the shell. Times are
    captured_at>=2026-11-15 and since=7d, which is the last 7 days (also h and w). --sort-by takes a label, too.

    \b
    etq captures --db lab.duckdb
    etq captures model=mlp,device=pixel8 model=cnn --sort-by build
    etq captures model=mlp,since=7d --by device
    etq captures --size --sort-by stored_bytes
    """
    if by is not None and size:
        raise click.UsageError("--by and --size can't be used together")
    with opened(db) as warehouse:
        parameters: dict[str, Any] = {"selectors": list(selectors)} if selectors else {}
        if parameters:
            report_unmatched(warehouse, selectors)
        if by is not None:
            _check_key(warehouse, by)
            chosen = ", selectors := $selectors" if parameters else ""
            query = f"FROM capture_groups($by{chosen})"
            view = catalog.named("capture_groups")
            write(warehouse, query, output, view=view, needs_rows=bool(selectors), by=by, **parameters)
            return
        source = "(FROM capture_summary JOIN (FROM capture_sizes SELECT name, stored_bytes) USING (name))"
        query = f"FROM {source if size else 'capture_summary'} AS s"
        query += f" WHERE s.name IN ({MATCHING})" if parameters else ""
        view = catalog.named("capture_summary")
        view = view.beside(catalog.named("capture_sizes")) if size else view
        columns = [*(column.name for column in view.columns), *(["stored_bytes"] if size else [])]
        use_named_view(warehouse, selectors, [*columns, *_label_keys(warehouse)])
        label = selection.get().sort_by
        if label is not None and not {label} & {*columns, *map(title, columns)}:
            _check_key(warehouse, label, columns)
            selection.set(selection.get()._replace(sort_by=None))
            query += _BY_LABEL
            parameters["label"] = label
        write(warehouse, query, output, view=view, needs_rows=bool(selectors), **parameters)


def _label_keys(warehouse: Warehouse) -> list[str]:
    return [key for (key,) in warehouse.rows("SELECT DISTINCT l.key FROM labels AS l ORDER BY 1")[1]]


def _check_key(warehouse: Warehouse, key: str, columns: Sequence[str] = ()) -> None:
    """Raise `EtqError` if no capture has a label of that key."""
    keys = _label_keys(warehouse)
    if key not in keys:
        raise EtqError(unknown_key(key, keys, columns))
