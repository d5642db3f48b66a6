"""The command that attaches labels, metrics and phases to a capture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from etq.choices import PHASES
from etq.cli import main
from etq.cli.labels import parsed_labels
from etq.cli.messages import say
from etq.cli.numbers import IntRange
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import open_existing
from etq.errors import EtqError, counted
from etq.render.writers import Output, write_rows

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# A number and optionally its unit, with or without a colon: 41, 41:degC, 1200ms, 80 %.
_VALUE: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*:?\s*(.*)", re.DOTALL)
# Values of --phase that aren't phases.
_NONE: Final = "none"
_COUNTED: Final = "from-metrics"


def _parsed_metrics(
    _: click.Context, __: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, tuple[float | None, str | None]]:
    """Parse pairs of NAME=VALUE as metrics with their units; NAME= is None."""
    metrics: dict[str, tuple[float | None, str | None]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE or NAME=VALUE:UNIT")
        match = _VALUE.fullmatch(text.strip())
        if match is None and text.strip():
            raise click.BadParameter(f"{text!r} is not a number; attach a text as a label: etq label CAPTURE {pair}")
        metrics[name.strip()] = (None, None) if match is None else (float(match[1]), match[2] or None)
    return metrics


@main.command()
@click.argument("capture")
@click.argument("labels", metavar="[KEY=VALUE]...", nargs=-1, callback=parsed_labels)
@click.option("--remove", metavar="KEY", multiple=True, help="Remove a label; may be repeated.")
@click.option(
    "--metric",
    "metrics",
    metavar="NAME=VALUE[:UNIT]",
    multiple=True,
    callback=_parsed_metrics,
    help="Attach a metric; NAME= removes it; may be repeated.",
)
@click.option("--better", type=click.Choice(["lower", "higher"]), help="For --metric: which direction is better.")
@click.option("--run", type=IntRange(0), metavar="N", help="Attach --metric to this run, not to the capture.")
@click.option(
    "--metrics", "files", metavar="FILE", multiple=True, help="Attach the metrics of a file; may be repeated."
)
@click.option(
    "--phase",
    type=click.Choice([*PHASES, _NONE, _COUNTED]),
    help=f"Set the phase of runs; {_NONE} removes it; {_COUNTED}: by the tokens that a runner counted.",
)
@click.option("--runs", metavar="N-M,...", help="For --phase: runs by number, from 0: 0, 1-39,45 or 40-")
@click.option("--name", help="For --phase: runs of that name, such as Execute.")
@click.option("--method", help="For --phase: runs of that method, by the linked record or program.")
@warehouse_option
@output_options
def label(
    capture: str,
    labels: dict[str, str],
    remove: tuple[str, ...],
    metrics: dict[str, tuple[float | None, str | None]],
    better: str | None,
    run: int | None,
    files: tuple[str, ...],
    phase: str | None,
    runs: str | None,
    name: str | None,
    method: str | None,
    db: str,
    output: Output,
) -> None:
    """Attach labels, metrics and phases to a capture. Without any, show its labels.

    A label replaces the one of the same key. captured_at=2026-05-01T12:00:00Z sets the time of the measurement, in UTC
    if it has no time zone.

    Metrics of known names (etq show known_metrics) have a unit and a direction of their own. A file of --metrics is a
    log of ExecuTorch's runner of language models, benchmark_results.json of its benchmark apps, the log of their tests
    on Apple devices, records of PyTorch's benchmark database, or JSON with numbers by name; reading it again adds
    nothing. etq show metric_values lists them.

    Commands that select runs take --phase. Runs get a phase if they match all of --runs, --name and --method.
    etq show phase_totals lists the phases.

    \b
    etq label run device=pixel8 build=41 --db lab.duckdb
    etq label run --remove build
    etq label run --metric temperature=41 --metric clock=2.8:GHz --metrics logcat.txt
    etq label llm --phase decode --runs 2-
    etq label @latest
    """
    rules = {key: value for key, value in {"runs": runs, "name": name, "method": method}.items() if value is not None}
    if both := set(labels) & set(remove):
        raise click.UsageError(f"{min(both)} can't be set and removed at once")
    if (better is not None or run is not None) and not metrics:
        raise click.UsageError("--better and --run need --metric")
    if (phase not in (None, _COUNTED)) != bool(rules):
        raise click.UsageError("--phase needs --runs, --name or --method, and these need --phase")
    has_changes = bool(labels or remove or metrics or files or phase)
    with open_existing(db, read_only=not has_changes) as warehouse:
        target = warehouse.capture(capture)
        if not has_changes or labels or remove:
            have = _labels(warehouse, target, remove)
        if phase is not None:
            _set_phase(warehouse, target, phase, rules)
        for key, (value, unit) in metrics.items():
            warehouse.metric(target, key, value, unit, better, run=run)
        if metrics:
            removed = sum(value is None for value, _ in metrics.values())
            _say_set(target, "metric", len(metrics) - removed, removed)
        for file in files:
            added = warehouse.ingest_metrics(target, file)
            say(f"{target.name}: {file}: {f'{added} metrics added' if added else 'known already'}")
        # Labels come last, so that the same command can be repeated if an earlier step fails.
        if labels or remove:
            warehouse.label(target, **labels, **dict.fromkeys(remove))
            _say_set(target, "label", len(labels), len(remove))
        if not has_changes:
            write_rows(["key", "value"], list(have.items()), output)
            if not have:
                say(f"Note: {target.name} has no labels; etq label {target.name} KEY=VALUE sets one")


def _labels(warehouse: Warehouse, capture: Capture, removed: tuple[str, ...]) -> dict[str, str]:
    """Return the labels of a capture. Raises `EtqError` if it lacks a label that is to be removed."""
    from etq.annotations.labels import labels_of

    have = labels_of(warehouse.connection, capture.capture_id)
    if missing := [key for key in removed if key not in have]:
        raise EtqError(f"{capture.name} has no label {missing[0]!r}; it has {', '.join(have) or 'none'}")
    return have


def _say_set(capture: Capture, noun: str, number: int, removed: int) -> None:
    done = [f"{counted(count, noun)} {what}" for count, what in ((number, "set"), (removed, "removed")) if count]
    say(f"{capture.name}: {', '.join(done)}")


def _set_phase(warehouse: Warehouse, capture: Capture, phase: str, rules: dict[str, str]) -> None:
    if phase == _COUNTED:
        counts = ", ".join(f"{count} {each}" for each, count in warehouse.phases_from_metrics(capture).items())
        say(f"{capture.name}: {counts}")
        return
    count = warehouse.phase(capture, None if phase == _NONE else phase, **rules)
    say(f"{capture.name}: {counted(count, 'run')} {'without a phase' if phase == _NONE else phase}")
