"""The flags of executorch's inspector_cli, which `etq inspect` accepts too: columns, rows and values are the same."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from etq.choices import UNITS
from etq.cli.options import Decorated

_FLAGS: Final[dict[str, dict[str, Any]]] = {
    "etdump_path": {"help": "ETDump file, in place of FILE."},
    "etrecord_path": {"help": "ETRecord of the program."},
    "debug_buffer_path": {"help": "debug buffer with the logged values."},
    "source_time_scale": {"help": "unit of one tick.  [default: ns]", "type": click.Choice(UNITS)},
    "target_time_scale": {"help": "unit of times.  [default: ms]", "type": click.Choice(UNITS)},
    "tsv_path": {"help": "also write the table to this file."},
    "compare_results": {"help": "compare outputs with references.", "is_flag": True},
}


def old_flags(command: Decorated) -> Decorated:
    """Add the flags of executorch's inspector_cli to a command."""
    for name, settings in reversed(_FLAGS.items()):
        shown: dict[str, Any] = {"metavar": "FILE"} if name.endswith("_path") else {}
        shown |= {**settings, "help": f"inspector_cli's flag: {settings['help']}"}
        command = click.option(f"--{name}", name, **shown)(command)
    return command


def pop_old_flags(context: click.Context, options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove these flags from a command's options and return their values, None if none is set.

    Raises `UsageError` if they are mixed with FILE or with other options, or --etdump_path is missing.
    """
    values = {name: options.pop(name) for name in _FLAGS}
    used = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    old = [name for name in used if name in _FLAGS]
    if not old:
        return None
    mixed = [name for name in used if name not in _FLAGS]
    if mixed:
        shown = "FILE" if "file" in mixed else f"--{mixed[0].replace('_', '-')}"
        raise click.UsageError(f"--{old[0]} is a flag of inspector_cli and can't be used with {shown}")
    if values["etdump_path"] is None:
        raise click.UsageError(f"--{old[0]} needs --etdump_path; FILE has options of its own")
    return values


def inspect_as_before(flags: dict[str, Any]) -> None:
    """Print the output of inspector_cli."""
    from etq.inspector import Inspector, compare_results

    inspector = Inspector(
        etdump_path=flags["etdump_path"],
        etrecord=flags["etrecord_path"],
        debug_buffer_path=flags["debug_buffer_path"],
        source_time_scale=flags["source_time_scale"] or "ns",
        target_time_scale=flags["target_time_scale"] or "ms",
        compat=True,
    )
    inspector.print_data_tabular()
    if flags["tsv_path"] is not None:
        inspector.save_data_to_tsv(flags["tsv_path"])
    if flags["compare_results"]:
        for block in inspector.event_blocks:
            if block.name == "Execute":
                compare_results(block.reference_output, block.run_output)
