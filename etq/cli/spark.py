"""The command that shows a view's SQL for another engine."""

from __future__ import annotations

import click

from etq.cli import main
from etq.errors import EtqError


@main.command()
@click.argument("view")
@click.option(
    "--arg", "bindings", metavar="NAME=VALUE", multiple=True, help="An argument of the view. May be repeated."
)
def transpile(view: str, bindings: tuple[str, ...]) -> None:
    """Print a view as one statement of Spark SQL. The statement uses base tables only.

    Parameters without a default and without --arg stay parameters of the statement, such as :capture. A VALUE is a
    text, unless it is a number, a list in brackets, true, false or NULL.

    \b
    etq transpile op_totals --arg capture=run --arg unit=us
    """
    from etq import catalog

    try:
        from etq.spark.transpiling import spark_sql
    except ModuleNotFoundError as error:
        if error.name != "sqlglot":
            raise
        raise EtqError("statements of Spark SQL need sqlglot: pip install 'etq[spark]'") from None

    target = catalog.public_object(view)
    if target.kind not in ("view", "table macro"):
        raise EtqError(f"{view} is a {target.kind}: views and table macros can be asked for")
    if target.kind == "view" and bindings:
        raise EtqError(f"{view} takes no arguments")
    arguments = dict(_argument(each) for each in bindings)
    missing = [each.name for each in target.parameters if each.default is None and each.name not in arguments]
    passed = [f'"{name}" := {value}' for name, value in arguments.items()]
    passed += [f'"{name}" := ${name}' for name in missing]
    call = view if target.kind == "view" else f"{view}({', '.join(passed)})"
    click.echo(spark_sql(f"FROM {call}", pretty=True))


def _argument(text: str) -> tuple[str, str]:
    """Return the name and the SQL of an argument."""
    import re

    from etq.catalog import quoted

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint="--arg")
    is_sql = re.fullmatch(r"-?\d+(\.\d+)?|\[.*\]|true|false|null", value, re.IGNORECASE)
    return name, value if is_sql else quoted(value)
