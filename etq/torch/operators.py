"""The libraries that register a program's operators. torch must know the operators before it can read the program."""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from typing import Final

from etq.errors import EtqError, displayed

# For each namespace of operators: the modules that register them, and the packages to install for these.
LIBRARIES: Final = {
    "quantized_decomposed": (
        ("torch.ao.quantization.fx._decomposed", "torch"),
        ("executorch.exir.passes._quant_patterns_and_replacements", "executorch"),
    ),
    "torchao": (
        ("torchao.quantization.quant_primitives", "torchao"),
        ("torchao.quantization.pt2e.quantize_pt2e", "torchao"),
    ),
    "dim_order_ops": (("executorch.exir.passes.dim_order_ops_registry", "executorch"),),
    "llama": (("executorch.extension.llm.custom_ops.custom_ops", "executorch"),),
    "et_vk": (("executorch.backends.vulkan.custom_ops_lib", "executorch"),),
    "cortex_m": (("executorch.backends.cortex_m.ops.operators", "executorch[cortex_m]"),),
    "cadence": (("executorch.backends.cadence.aot.ops_registrations", "executorch"),),
    "tosa": (("executorch.backends.arm.tosa.dialect.lib", "executorch"),),
    "torchvision": (("torchvision", "torchvision"),),
}
_TARGET: Final = re.compile(rb'"target"\s*:\s*"(?:torch|executorch\.exir\.dialects\.edge)\.ops\.(\w+)\.(\w+)[."]')


def register_operators(program: bytes, path: str, graph: str) -> None:
    """Import the modules that register the operators of a program, given as the JSON of a graph. Only modules of the
    table are imported.

    Raises `EtqError`, naming the package to install, if torch still doesn't know an operator.
    """
    for space, op in sorted({(space.decode(), op.decode()) for space, op in _TARGET.findall(program)}):
        if not _is_registered(space, op):
            packages = dict.fromkeys(package for _, package in LIBRARIES.get(space, ()))
            what = f"{displayed(path)}: {graph} has the operator {space}.{op}, which torch doesn't know"
            remedy = (
                f"install {' or '.join(packages)}" if packages else f"import the library of {space} first, in Python"
            )
            raise EtqError(f"{what}; {remedy}")


def _is_registered(space: str, op: str) -> bool:
    """Whether torch knows an operator, after importing the modules that register it if necessary."""
    for module, _ in LIBRARIES.get(space, ()):
        if _is_known(space, op):
            return True
        # A missing or broken library leaves the operator unknown, which the caller reports.
        with suppress(Exception):
            importlib.import_module(module)
    return _is_known(space, op)


def _is_known(space: str, op: str) -> bool:
    import torch

    return hasattr(getattr(torch.ops, space), op)
