"""Make the trace of `tests/captures/torch_lightning` by PyTorch Lightning's profiler, and the answer of the TensorBoard
plug-in's Lightning view.

ENV/bin/python -m tests.parity.make_lightning tests/captures/torch_lightning    # with torch, pytorch-lightning, torch-tb-profiler

The plug-in knows annotations by their category of 2021, `cpu_op`: it gets a copy in which those of Lightning have it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytorch_lightning
import torch
from pytorch_lightning.profilers import PyTorchProfiler
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

from tests.parity.making import write_json


class Net(pytorch_lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        self.head = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, _: int) -> Any:
        return self.head(self.body(batch)).pow(2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def trace(folder: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    profiler = PyTorchProfiler(dirpath=str(folder), filename="lightning", schedule=schedule, with_stack=False)
    off = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pytorch_lightning.Trainer(
        max_epochs=1, limit_train_batches=6, profiler=profiler, accelerator="cpu", **off
    )
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(48, 8), batch_size=8))
    [path] = folder.glob("*.pt.trace.json")
    content: dict[str, Any] = json.loads(path.read_bytes())
    return {**content, "traceName": "./fit.pt.trace.json"}


def view(content: dict[str, Any]) -> list[dict[str, Any]]:
    copy = json.loads(json.dumps(content))
    for event in copy["traceEvents"]:
        if event.get("name", "").startswith("[pl]["):
            event["cat"] = "cpu_op"
    data = RunProfileData("worker", "1", copy)
    data.process()
    data.analyze()
    rows: list[dict[str, Any]] = RunGenerator("worker", "1", data).generate_run_profile().get_module_view()["data"]
    return rows


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        content = trace(Path(temporary))
    for name, each in (("fit.pt.trace.json", content), ("fit.tb.json", view(content))):
        write_json(folder / f"{name}.gz", each)


if __name__ == "__main__":
    main()
