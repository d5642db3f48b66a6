"""Comparing a program's outputs with the expected outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from etq.errors import EtqError

Array = npt.NDArray[np.float32]
_DIGITS: Final = 2


def compare_results(
    reference_output: Sequence[Any] | None,
    run_output: Sequence[Any] | None,
    metrics: list[str] | None = None,
    plot: bool = False,
) -> dict[str, list[float | None]]:
    """Compare outputs pair by pair: prints each metric's values, and returns them by the metric's name.

    reference_output  expected outputs: tensors, numpy arrays, or values that numpy converts to arrays
    run_output        actual outputs
    metrics           some of snr (signal-to-noise ratio, in dB), mse (mean squared error), cosine_similarity; None: all
    plot              accepted for compatibility: values are printed, never drawn

    Values are rounded to two decimals; a value is None if an output of its pair is not a tensor. Raises `EtqError` if
    one side has no outputs, or if shapes differ.
    """
    if reference_output is None or run_output is None:
        side = "reference" if reference_output is None else "run"
        raise EtqError(f"no {side} output to compare: reference outputs need a record that has them, and torch")
    results: dict[str, list[float | None]] = {}
    for name, metric in _METRICS.items():
        if metrics is None or name in metrics:
            pairs = zip(reference_output, run_output, strict=False)
            results[name] = [_compared(metric, reference, value) for reference, value in pairs]
            _print(name, results[name])
    return results


def _print(name: str, values: list[float | None]) -> None:
    print(name)
    print("-" * 20)
    for index, value in enumerate(values):
        print(f"{index:<5}" + (f"{'-':>8}" if value is None else f"{value:>8.5f}"))
    print("\n")


def _compared(metric: Callable[[Array, Array], Any], reference: Any, value: Any) -> float | None:
    if not all(hasattr(each, "shape") for each in (reference, value)):
        return None
    # numpy has no bfloat16.
    plain = [each.float() if hasattr(each, "detach") else each for each in (reference, value)]
    one, other = (np.asarray(each, np.float32) for each in plain)
    if one.shape != other.shape:
        raise EtqError(f"outputs of shapes {one.shape} and {other.shape} can't be compared")
    with np.errstate(divide="ignore", invalid="ignore"):
        return round(float(metric(one, other)), _DIGITS)


def _signal_to_noise(reference: Array, value: Array) -> Any:
    return 10 * np.log10(np.mean(reference**2) / np.mean((reference - value) ** 2))


def _squared_error(reference: Array, value: Array) -> Any:
    return np.mean((reference - value) ** 2)


def _cosine(reference: Array, value: Array) -> Any:
    return np.sum(reference * value) / (np.sqrt(np.sum(reference**2)) * np.sqrt(np.sum(value**2)))


_METRICS: Final = {"snr": _signal_to_noise, "mse": _squared_error, "cosine_similarity": _cosine}
