"""Values as torch tensors, like executorch's Inspector, for users of torch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt


def is_torch_loaded() -> bool:
    """Return whether this process has imported torch, so that values are expected to be tensors."""
    return "torch" in sys.modules


def tensor_of(array: npt.NDArray[Any], scalar_type: str | None) -> Any:
    """Return a copy of an array as a tensor.

    scalar_type  the type by torch's name, such as bfloat16, which numpy lacks; None, or an unknown name: the array's
                 type
    """
    import torch

    given = torch.from_numpy(np.array(array))
    wanted = getattr(torch, scalar_type or "", None)
    return given.to(wanted) if isinstance(wanted, torch.dtype) else given
