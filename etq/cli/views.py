"""Makes the commands that print a view of one capture, from their table and the view's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from etq import catalog
from etq.choices import given_options
from etq.cli.commands import Option, ViewCommand
from etq.cli.job_targets import found_job
from etq.cli.options import (
    Command,
    method_option,
    output_options,
    phase_option,
    runs_option,
    step_options,
    total_option,
    unit_option,
    warehouse_option,
)
from etq.cli.showing import show_view
from etq.cli.targets import file_options, is_unrun, not_for, pop_file_options
from etq.render.display import show_as
from etq.render.writers import Output


def command_of(name: str, command: ViewCommand) -> click.Command:
    """Return the command `etq NAME CAPTURE`."""

    def show(capture: str, db: str, output: Output, **options: Any) -> None:
        read_options = pop_file_options(options)
        if options.get("wide"):
            show_as(is_wide=True)
        view = command.view
        if name == "advice" and (job := found_job([capture], db)) is not None:
            from etq.cli.job_screen import show_advice

            show_advice(job, db, output, options["unit"])
            return
        if name == "delegates" and is_unrun(capture):
            from etq.cli.coverage import show_unrun

            show_unrun(name, capture, read_options, output, **options)
            return
        for option, instead in (
            (option, described.instead) for option, described in command.options.items() if described.instead
        ):
            value = options.pop(option)
            if value in instead:
                view = instead[value]
                options = _taken(view, options, f"--{option} {value}")
        _refuse_others(view, command, options)
        show_view(view, capture, db, output, read_options, **options)

    examples = "\n".join(f"etq {name} {example}" for example in command.examples)
    text = f"{command.text}\n\nCAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file."
    return click.command(name, cls=Command, help=f"{text}\n\n\b\n{examples}")(_with_options(show, command))


def _parameters(view: str) -> dict[str, str | None]:
    return {parameter.name: parameter.default for parameter in catalog.named(view).parameters}


def _taken(view: str, options: dict[str, Any], choice: str) -> dict[str, Any]:
    """Return the options; without those that select steps, if the view doesn't take them. Raises `UsageError` if one of
    those is given.
    """
    if "steps" not in options or "steps" in _parameters(view):
        return options
    if (options.pop("steps"), options.pop("phase")) != (None, None):
        raise click.UsageError(f"{choice} covers the whole trace; leave out options that select steps")
    return options


def _refuse_others(view: str, command: ViewCommand, options: dict[str, Any]) -> None:
    """Remove the command's own options that the view doesn't take. Raises `UsageError` if one is given."""
    for name, described in command.options.items():
        if described.instead or name in _parameters(view):
            continue
        if not given_options({name: options.pop(name)}):
            continue
        takers = [
            f"--{other}"
            for other, option in command.options.items()
            if any(name in _parameters(each) for each in option.instead.values())
        ]
        raise click.UsageError(f"--{name} is for {' and '.join(takers)}; add one, or leave --{name} out")


def _with_options(show: Callable[..., None], command: ViewCommand) -> Callable[..., None]:
    """Add the argument and the options; the last one added is the first in the help text."""
    parameters = _parameters(command.view)
    decorated: Callable[..., None] = warehouse_option(file_options(show, not_for(command.view)))
    decorated = unit_option(None)(decorated) if "unit" in parameters else decorated
    decorated = output_options(decorated, has_wide="wide" in command.options)
    if catalog.named(command.view).sums:
        decorated = total_option(decorated)
    decorated = click.argument("capture")(decorated)
    if "runs" in parameters:
        decorated = runs_option(str(parameters["runs"]).strip("'"))(decorated)
    for parameter, add in (("method", method_option), ("phase", phase_option), ("steps", step_options)):
        if parameter in parameters:
            decorated = add(decorated)
    for name, option in reversed([*command.options.items()]):
        decorated = _option(name, option, parameters.get(name))(decorated)
    return decorated


def _option(name: str, option: Option, default: str | None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    text = option.text
    if default not in (None, "NULL"):
        text += f"  [default: {str(default).strip(chr(39))}]"
    written = f"--{name.replace('_', '-')}"
    if option.choices:
        return click.option(written, name, type=click.Choice(option.choices), help=text)
    if option.is_integer or option.metavar is not None:
        kind = int if option.is_integer else str
        return click.option(written, name, type=kind, metavar=option.metavar, help=text)
    return click.option(written, name, is_flag=True, help=text)
