"""The class of an event, by its name and ids: kind, label, family, unit of its value.

All knowledge about names is in this module. It comes from ExecuTorch 1.4.1's runtime (`runtime/executor/method.cpp`,
`program.cpp`), from what its backends write, and from the parser of the profiler that preceded ETDump.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from etq.ingest.events.event import DEBUG, PROFILE, EventKey

OPERATOR_CALL: Final = "OPERATOR_CALL"
DELEGATE_CALL: Final = "DELEGATE_CALL"
EXECUTE: Final = "Method::execute"
STEP: Final = "Method::step"
# The delegate's part of a DELEGATE_CALL; only the profiler before ETDump writes this event.
DELEGATE_EXECUTE: Final = "delegate_execute"
# Events of the runtime's own classes: Program::load_method, Method::init, Method::execute, …
FRAMEWORK_PREFIXES: Final = ("Program::", "Method::")
CONTROL_NAMES: Final = frozenset({"JF_CALL", "MOVE_CALL", "FREE_CALL"})
KERNEL_PREFIX: Final = "native_call_"

# Some backends, such as QNN, append the unit of a value to its name: `Accelerator (execute) time (cycles)`.
_UNIT_SUFFIX: Final = re.compile(r"\((us|cycles|bytes|count)\)$", re.IGNORECASE)
# XNNPACK appends a number to the operators of a delegate call: `Fully Connected (NC, F32) GEMM #1`.
_SERIAL_NUMBER: Final = re.compile(r" #\d+$")
# Vulkan names a dispatch by JSON with kernel, sizes and id: `{"kernel_name": "conv2d", …, "dispatch_id": 7}`.
_VULKAN_KERNEL: Final = re.compile(r'"?kernel_name"?\s*:\s*"?([^",}]+)')
_OUT_OVERLOAD: Final = re.compile(r"(?:\.out|_out)$")


def event_kind(key: EventKey) -> str:  # noqa: PLR0911 - one case per line
    """Return the kind of an event, one of those that the table `signatures` documents."""
    if key.type == DEBUG:
        return "debug"
    if key.delegate_debug_id != -1 or key.delegate_debug_str:
        return "delegate"
    if key.name == OPERATOR_CALL:
        return "operator_call"
    if key.name in (DELEGATE_CALL, DELEGATE_EXECUTE):
        return "delegate_call"
    if key.name in CONTROL_NAMES:
        return "control"
    if key.name is not None and key.name.startswith(FRAMEWORK_PREFIXES):
        return "framework"
    if key.name is not None and key.name.startswith(KERNEL_PREFIX) and key.chain_index != -1:
        return "kernel"
    return "user"


def profiling_level(keys: Iterable[EventKey]) -> str | None:
    """Return the profiling level, inferred from the events: all or method_only; None if nothing ran."""
    profiled = [key for key in keys if key.type == PROFILE]
    if any(event_kind(key) not in ("framework", "user") for key in profiled):
        return "all"
    if any(key.name in (EXECUTE, STEP) for key in profiled):
        return "method_only"
    return None


def event_label(key: EventKey) -> str:
    """Return the label of an event, as in the Inspector: its delegate id, otherwise its name, otherwise ''."""
    if key.delegate_debug_id != -1:
        return str(key.delegate_debug_id)
    return key.delegate_debug_str or key.name or ""


def event_family(key: EventKey) -> str:
    """Return the label without the parts that differ between calls of one op: serial numbers, dispatch ids, wrappers,
    overloads.
    """
    kind, label = event_kind(key), event_label(key)
    if kind == "kernel":
        return _OUT_OVERLOAD.sub("", label.removeprefix(KERNEL_PREFIX))
    if kind != "delegate":
        return label
    if (vulkan := _VULKAN_KERNEL.search(label)) is not None:
        return vulkan.group(1).strip()
    if _UNIT_SUFFIX.search(label.rstrip()) is not None:
        label = _UNIT_SUFFIX.sub("", label.rstrip()).rstrip()
    return _SERIAL_NUMBER.sub("", label)


def is_dispatch(key: EventKey) -> bool:
    """Whether a delegate's event is a dispatch of Vulkan, which is timed by the GPU's clock."""
    return _VULKAN_KERNEL.search(event_label(key)) is not None


def event_value_unit(key: EventKey, synthetic: bool) -> str:
    """Return the unit of end - start: the capture's `ticks`, or the unit that a backend names.

    A backend may write a bare value, whose start is 0 (clock `synthetic`); if its name has no unit, the unit is
    `unknown`.
    """
    if event_kind(key) != "delegate":
        return "ticks"
    if (suffix := _UNIT_SUFFIX.search(event_label(key).rstrip())) is not None:
        return suffix.group(1).lower()
    return "unknown" if synthetic else "ticks"
