"""Small real captures that come with etq; `MANIFEST.md` next to this file gives the origin of each."""

from __future__ import annotations

from typing import Final

# Name of the capture in the demo: file name, labels.
CAPTURES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "mlp": ("mlp_100runs.etdp", {"model": "mlp", "backend": "portable"}),
    "mlp_xnn": ("mlp_xnn_100runs.etdp", {"model": "mlp", "backend": "xnnpack"}),
    "mlp_method_only": ("mlp_method_only.etdp", {"model": "mlp", "backend": "portable", "traced": "methods"}),
    "mlp_alloc": ("mlp_alloc.etdp", {"model": "mlp", "backend": "portable"}),
    "convnet": ("convnet_100runs.etdp", {"model": "convnet", "backend": "portable"}),
    "convnet_xnn": ("convnet_xnn_100runs.etdp", {"model": "convnet", "backend": "xnnpack"}),
    "maploop": ("maploop.etdp", {"model": "maploop", "backend": "portable"}),
}
