"""Commands about annotations of captures: metric, phase."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from etq import catalog
from etq.choices import PHASES
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import output_options, unit_option, warehouse_option
from etq.cli.targets import open_existing
from etq.render.writers import write

# A number and optionally its unit, with or without a colon: 41, 41:degC, 1200ms, 80 %.
_VALUE: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*:?\s*(.*)", re.DOTALL)


def _parsed_metrics(
    _: click.Context, __: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, tuple[float, str | None]]:
    metrics = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE or NAME=VALUE:UNIT")
        match = _VALUE.fullmatch(text.strip())
        if match is None:
            raise click.BadParameter(f"{text!r} is not a number; attach a text as a label: etq label CAPTURE {pair}")
        metrics[name.strip()] = (float(match[1]), match[2] or None)
    return metrics


@main.command()
@click.argument("capture")
@click.argument("metrics", metavar="[NAME=VALUE[:UNIT]]...", nargs=-1, callback=_parsed_metrics)
@click.option("--from", "files", metavar="FILE", multiple=True, help="Read the metrics of a file; may be repeated.")
@click.option("--better", type=click.Choice(["lower", "higher"]), help="Which is better; none for conditions.")
@click.option("--run", type=click.IntRange(0), metavar="N", help="Attach to that run, not to the whole capture.")
@click.option("--remove", metavar="NAME", multiple=True, help="Remove a metric attached by hand; may be repeated.")
@warehouse_option
@output_options
def metric(
    capture: str,
    metrics: dict[str, tuple[float, str | None]],
    files: tuple[str, ...],
    better: str | None,
    run: int | None,
    remove: tuple[str, ...],
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Attach metrics to a capture; without any, show its metrics.

    Known names (etq sql "FROM known_metrics") have a unit and a direction of their own. A file is a log of ExecuTorch's
    runner of language models, benchmark_results.json of its benchmark apps, records of PyTorch's benchmark database, or
    JSON with numbers by name; reading it again adds nothing.

    \b
    etq metric run temperature=41 clock=2.8:GHz battery=80% --db lab.duckdb
    etq metric run --from logcat.txt
    etq metric run
    """
    has_changes = bool(metrics or files or remove)
    if better is not None and not metrics:
        raise click.UsageError("--better goes with NAME=VALUE")
    if run is not None and not metrics and not remove:
        raise click.UsageError("--run goes with NAME=VALUE or --remove")
    with open_existing(db, read_only=not has_changes) as warehouse:
        target = warehouse.capture(capture)
        for name in remove:
            warehouse.metric(target, name, None, run=run)
        for name, (value, unit) in metrics.items():
            warehouse.metric(target, name, value, unit, better, run=run)
        if metrics or remove:
            noun = "metric" if len(metrics) == 1 else "metrics"
            say(f"{target.name}: {len(metrics)} {noun} set, {len(remove)} removed")
        for file in files:
            added = warehouse.ingest_metrics(target, file)
            what = f"{added} metrics added" if added else "known already"
            say(f"{target.name}: {file}: {what}")
        if not has_changes:
            query, view = "FROM metric_values($capture)", catalog.named("metric_values")
            write(warehouse, query, format, output, force=force, view=view, capture=target)


@main.command()
@click.argument("capture")
@click.argument("phase", type=click.Choice(PHASES), required=False)
@click.option("--runs", metavar="N-M,...", help="Runs by number, from 0: 0, 1-39,45 or 40-")
@click.option("--name", help="Runs of that name, such as Execute.")
@click.option("--method", help="Runs of that method, as the linked record or program tells.")
@click.option(
    "--from-metrics", is_flag=True, help="Set phases by the tokens that the runner counted, if they fit exactly."
)
@click.option("--remove", is_flag=True, help="Remove the phase of the runs.")
@unit_option(None)
@warehouse_option
@output_options
def phase(
    capture: str,
    phase: str | None,
    runs: str | None,
    name: str | None,
    method: str | None,
    from_metrics: bool,
    remove: bool,
    unit: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Set the phase of runs, or show the phases. Phases are load, prefill, decode, mixed and other.

    Only runs that match all of the rules get the phase. Commands that select runs then accept --phase.

    \b
    etq phase llm prefill --runs 1 --db lab.duckdb
    etq phase llm decode --runs 2-
    etq phase llm --from-metrics
    etq phase llm
    """
    rules = {"runs": runs, "name": name, "method": method}
    has_rules = any(value is not None for value in rules.values())
    if [phase is not None, from_metrics, remove].count(True) > 1:
        raise click.UsageError("a phase, --from-metrics and --remove don't go together")
    if has_rules != (phase is not None or remove):
        raise click.UsageError("a phase or --remove goes with --runs, --name or --method, and these with one of them")
    with open_existing(db, read_only=not has_rules and not from_metrics) as warehouse:
        target = warehouse.capture(capture)
        if from_metrics:
            counted = warehouse.phases_from_metrics(target)
            counts = ", ".join(f"{count} {each}" for each, count in counted.items())
            say(f"{target.name}: {counts}")
        elif has_rules:
            count = warehouse.phase(target, phase, **rules)
            say(f"{target.name}: {count} runs {phase or 'without a phase'}")
        else:
            parameters: dict[str, Any] = {"capture": target, "unit": unit}
            query, view = "FROM phase_totals($capture, unit := $unit)", catalog.named("phase_totals")
            write(warehouse, query, format, output, force=force, view=view, **parameters)
