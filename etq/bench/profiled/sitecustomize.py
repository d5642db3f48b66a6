"""Profiles the script that Python runs, and writes a trace of its steps to the file in $ETQ_BENCH_TRACE.

Python imports this file at its start from the first folder of $PYTHONPATH. A step ends with each step of an optimizer,
or, in a script without one, with each outermost call of a module. The first $ETQ_BENCH_WARMUP steps are left out, the
next $ETQ_BENCH_STEPS are recorded; then the trace is written, and the script ends by itself.
"""

import atexit
import builtins
import os
import sys
from typing import Any

_FILE = os.environ.pop("ETQ_BENCH_TRACE", None)  # processes that the script starts aren't profiled
_WARMUP, _STEPS = (int(os.environ.pop(f"ETQ_BENCH_{name}", "0")) for name in ("WARMUP", "STEPS"))


def _profile(file: str) -> None:
    """Start the profiler in this process, and have it end a step where the script does."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.profiler import profile, schedule

    def write(profiler: Any) -> None:
        profiler.export_chrome_trace(file)

    waited = max(0, _WARMUP - 1)
    steps = schedule(wait=waited, warmup=_WARMUP - waited, active=_STEPS, repeat=1)
    profiler = profile(schedule=steps, on_trace_ready=write)
    profiler.start()
    atexit.register(profiler.stop)
    state = {"has_optimizer": False, "depth": 0}

    def end_step(*_: Any) -> None:
        state["has_optimizer"] = True
        profiler.step()

    register_optimizer_step_post_hook(end_step)

    def enter(*_: Any) -> None:
        state["depth"] += 1

    def leave(*_: Any) -> None:
        state["depth"] -= 1
        # A forward pass that needs gradients is a part of a step that an optimizer ends.
        if state["depth"] == 0 and not state["has_optimizer"] and not torch.is_grad_enabled():
            profiler.step()

    torch.nn.modules.module.register_module_forward_pre_hook(enter)
    torch.nn.modules.module.register_module_forward_hook(leave, always_call=True)


if _FILE is not None:
    _imported = builtins.__import__

    def _import(name: str, *arguments: Any, **options: Any) -> Any:
        """Import as before; once the script has imported torch, start the profiler."""
        module = _imported(name, *arguments, **options)
        if builtins.__import__ is _import and "torch" in sys.modules and _is_whole():
            builtins.__import__ = _imported
            _profile(str(_FILE))
        return module

    def _is_whole() -> bool:
        spec = getattr(sys.modules["torch"], "__spec__", None)
        return spec is not None and not getattr(spec, "_initializing", False)

    builtins.__import__ = _import
