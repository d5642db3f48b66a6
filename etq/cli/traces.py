"""Commands that print a view of one PyTorch trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from etq.cli import main
from etq.cli.options import schedule_options
from etq.cli.views import show, view_command, view_options


@main.command()
@click.option("--wide", is_flag=True, help="Print one row per step, with a column per category.")
@view_options
def steps(
    capture: str,
    wide: bool,
    **options: Any,
) -> None:
    """Show how the time of each step was spent.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq steps run --db lab.duckdb
    etq steps train.pt.trace.json.gz --unit ms
    etq steps train.pt.trace.json.gz --wide
    """
    show("wide_steps" if wide else "step_breakdown", capture, options)


@main.command("critical-path")
@click.option("--step", type=int, help="Number of a step; with --step-name, of a call of it, from 0.  [default: all]")
@click.option("--step-name", metavar="NAME", help="An annotation or op whose calls are the steps.")
@click.option("--parts", is_flag=True, help="Print each part of the path, in the order of time.")
@view_options
def critical_path(
    capture: str,
    parts: bool,
    **options: Any,
) -> None:
    """Show which ops determine how long a step takes.

    The time of an op on the critical path is the most by which a faster op would shorten the step.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq critical-path run --step 12 --db lab.duckdb
    etq critical-path train.pt.trace.json.gz --step-name forward
    etq critical-path train.pt.trace.json.gz --step 12 --parts
    """
    query = """SELECT p.kind, p.name, p.op, p.device, p.stream, p.start, p.duration, p.share_percent, p.call_kind,
    p.correlation_id, p.unit FROM {view} AS p"""
    people_query = "SELECT o.* REPLACE (coalesce(o.op, '(no op)') AS op) FROM {view} AS o"
    if parts:
        show("critical_path", capture, options, query=query)
    else:
        show("critical_ops", capture, options, people_query=people_query)


view_command(
    "passes",
    "passes",
    "Show the forward pass, the backward pass, the optimizer.",
    example="train.pt.trace.json.gz --by step",
    choosing=click.option(
        "--by", type=click.Choice(("trace", "step")), help="Of the whole trace or of each step.  [default: trace]"
    ),
)
view_command(
    "backward",
    "backward_times",
    "Show what the backward pass of modules or ops costs.",
    example="train.pt.trace.json.gz --by op",
    choosing=click.option("--by", type=click.Choice(("module", "op")), help="Of modules or of ops.  [default: module]"),
)


@main.command()
@click.option(
    "--by",
    type=click.Choice(("kernel", "family", "annotation")),
    help="By name, by what they compute, or by name and the annotation that launched them.  [default: kernel]",
)
@schedule_options
@view_options
def kernels(
    capture: str,
    by: str | None,
    **options: Any,
) -> None:
    """Show the kernels that devices ran in a PyTorch trace.

    With --by family, by what kernels compute, copies and fills too. With --by annotation, copies and fills too: by the
    innermost annotation around their launches, such as one of record_function.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq kernels run --db lab.duckdb
    etq kernels train.pt.trace.json.gz --unit ms
    etq kernels train.pt.trace.json.gz --by family
    """
    if by == "family":
        people_query = "SELECT k.* REPLACE (coalesce(k.family, '(unknown)') AS family) FROM {view} AS k"
        show("kernel_families", capture, options, people_query=people_query)
        return
    if by != "annotation":
        show("kernel_table", capture, options)
        return
    if (options.pop("steps"), options.pop("phase")) != (None, None):
        raise click.UsageError("--by annotation is of the whole trace; it goes without options that select steps")
    people_query = "SELECT k.* REPLACE (coalesce(k.annotation, '(no annotation)') AS annotation) FROM {view} AS k"
    show("annotation_kernels", capture, options, people_query=people_query)


@main.command()
@click.option("--each", is_flag=True, help="Print each copy and fill, in the order of time.")
@view_options
def copies(
    capture: str,
    each: bool,
    **options: Any,
) -> None:
    """Show what copies and fills of devices move, and how fast.

    A copy is synchronous if its call returned only after the copy had ended: the host waited for it.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file.

    \b
    etq copies run --db lab.duckdb
    etq copies train.pt.trace.json.gz --each --limit 20
    """
    show("copies" if each else "copy_totals", capture, options)


def _sequence_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose sequences."""
    least = click.option(
        "--min-length", type=click.IntRange(1), help="Least number of kernels, copies and fills.  [default: 3]"
    )
    return click.option("--op", metavar="NAME", help="Only calls of that op.  [default: all that are within no op]")(
        least(command)
    )


view_command(
    "sequences",
    "kernel_sequences",
    "Show sequences of kernels that calls of an op launch. Those that take long may be worth a fused kernel.",
    people_query="SELECT s.op, s.length, s.calls, s.device_time, s.host_time, s.unit, s.sequence FROM {view} AS s",
    example="train.pt.trace.json.gz --min-length 5",
    choosing=_sequence_options,
)
view_command(
    "chains",
    "fusable_chains",
    "Show chains of ops that torch.compile would fuse. Those that save most are first.",
    people_query="SELECT c.kernels, c.calls, c.total, c.saves_at_most, c.share_percent, c.unit, c.sequence "
    "FROM {view} AS c",
    example="train.pt.trace.json.gz --limit 10",
)
view_command(
    "counters",
    "kernel_counters",
    "Show what CUPTI counted of each kernel. The ops are those that launched it.",
    people_query="""SELECT c.place, c.device, c.event, c.top_op, c.op, c.counter, c.value, c.flops, c.reason
    FROM {view} AS c""",
    example="train.pt.trace.json.gz --format csv",
    has_unit=False,
)
view_command(
    "tensor-cores",
    "tensor_core_use",
    "Show how much of devices' time uses tensor cores.",
    example="train.pt.trace.json.gz --by op",
    choosing=click.option(
        "--by", type=click.Choice(("device", "step", "op")), help="Of devices, steps or ops.  [default: device]"
    ),
)
_by_stream = click.option(
    "--by", type=click.Choice(("device", "stream")), help="Of whole devices or of each stream.  [default: device]"
)
view_command(
    "idle",
    "device_idle_causes",
    "Show why a trace's devices were idle, and for how long.",
    example="train.pt.trace.json.gz --by stream",
    choosing=_by_stream,
)
view_command(
    "gaps",
    "device_idle",
    "Show each gap between device events, and its cause. The longest is first.",
    """SELECT g.device, g.stream, g.step, g.start, g.duration, g.share_percent, g.cause, g.host_op, g.call,
    g.next_event, g.waited_for, g.unit FROM {view} AS g""",
    example="train.pt.trace.json.gz --limit 10",
    choosing=_by_stream,
)
view_command(
    "launches",
    "launch_totals",
    "Show what launches cost, and how long work then waited.",
    example="train.pt.trace.json.gz",
)
view_command(
    "queues",
    "queue_summary",
    "Show how much launched work waited in each stream.",
    example="train.pt.trace.json.gz",
)
view_command(
    "overlap",
    "device_breakdown",
    "Show how computation and communication overlap. Times are those of each device.",
    example="train.pt.trace.json.gz --by step",
    choosing=click.option(
        "--by", type=click.Choice(("device", "step")), help="Of the whole trace or of each step.  [default: device]"
    ),
)
view_command(
    "collectives",
    "collectives",
    "Show collectives by process group and size. Bandwidths are those that nccl-tests reports.",
    example="train.pt.trace.json.gz",
)
view_command(
    "peak",
    "peak_memory",
    "Show what is held at the peak of each device's memory. Bytes are those of each op that allocated them.",
    example="train.pt.trace.json.gz",
)
view_command(
    "leaks",
    "memory_leaks",
    "Show what each op holds at the ends of steps. What grows with every step is likely kept by mistake.",
    example="train.pt.trace.json.gz",
    has_unit=False,
)
