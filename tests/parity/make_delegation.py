"""Make `tests/captures/delegation/` again: models of many kinds, what executorch delegates of them, and runs.

    ENV/bin/python -m tests.parity.make_delegation tests/captures/delegation RUNTIME [NAME ...]

ENV has executorch 1.4.1 and torchao. RUNTIME is a folder that the wheel of executorch 1.5.1 is unpacked in: its runtime
traces, that of 1.4.1's wheel does not. g++ compiles the backend of `delegation_backend.cpp` against it.

Of each model: NAME.etrecord (members packed, which executorch stores as they are; paths shortened), NAME.pte, NAME.etdp (5 runs; of
several methods in turn), and NAME.delegation.json, by method: `operators`, what `get_delegation_info` counts of each
op, delegated and not; `left`, the nodes left in the lowered graph; `taken`, those of each delegate, by its backend.
"""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import DelegateMappingBuilder, tag_constant_data
from torch import nn
from torch.export import export
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.utils import unwrap_tensor_subclass

from tests.parity import delegation_models as models
from tests.parity.delegation_models import Attention, CausalAttention, Convolutions, Decoder, Lstm, Mlp, Mobile
from tests.parity.making import pack

IMAGE = (1, 3, 16, 16)
CONFIG = EdgeCompileConfig(_check_ir_validity=False)
Made = tuple[Any, dict[str, tuple[Any, ...]]]  # The lowered program, and inputs by method.


class OtherBackend(BackendDetails):  # type: ignore[misc]
    """A backend that takes any node. With the spec `mapped`, it maps its events to ops."""

    @staticmethod
    def preprocess(program: Any, specs: Any) -> Any:
        builder = DelegateMappingBuilder(generated_identifiers=True)
        nodes = [node for node in program.graph.nodes if node.op == "call_function" and "getitem" not in node.name]
        numbers = [len(program.graph.output_node().args[0]), *map(builder.insert_delegate_mapping_entry, nodes)]
        mapping = builder.get_delegate_mapping() if specs else {}
        return PreprocessResult("".join(f"{number};" for number in numbers).encode(), mapping)


class Other(Partitioner):  # type: ignore[misc]
    """Gives nodes to that backend, adjacent nodes together."""

    def __init__(self, takes: Callable[[Any], bool], *, mapped: bool = True) -> None:
        self.takes = takes
        self.delegation = DelegationSpec("OtherBackend", [CompileSpec("mapped", b"")] if mapped else [])

    def partition(self, program: Any) -> Any:
        takes = self.takes

        class Support(OperatorSupportBase):  # type: ignore[misc]
            def is_node_supported(self, submodules: Any, node: Any) -> bool:
                # A node that selects one of several outputs is in the same partition as the node that computes them.
                return node.op == "call_function" and takes(node.args[0] if "getitem" in node.name else node)

        parts = CapabilityBasedPartitioner(program.graph_module, Support(), allows_single_node_partition=True)
        tags = {}
        for number, part in enumerate(parts.propose_partitions()):
            tags[f"part{number}"] = self.delegation
            for node in part.nodes:
                node.meta["delegation_tag"] = f"part{number}"
        tag_constant_data(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)


def ops(*names: str) -> Callable[[Any], bool]:
    """Nodes that call one of these ops."""
    return lambda node: any(name in str(node.target) for name in names)


def all_but(*names: str) -> Callable[[Any], bool]:
    return lambda node: not ops(*names)(node)


def every_second(node: Any) -> bool:
    """About half of the nodes, the same in each export."""
    return hashlib.sha256(node.name.encode()).digest()[0] % 2 == 0


def at_once(program: Any, inputs: tuple[Any, ...], *partitioners: Any) -> Made:
    """By to_edge_transform_and_lower, which keeps ops whole that partitioners want whole."""
    made = to_edge_transform_and_lower(
        program, partitioner=list(partitioners), compile_config=CONFIG, generate_etrecord=True
    )
    return made, {"forward": inputs}


def in_steps(program: Any, inputs: tuple[Any, ...], *partitioners: Any, kept: bool = False) -> Made:
    """By to_edge and to_backend; the record also has the lowered graph if it is to be kept."""
    made = to_edge(program, compile_config=CONFIG, generate_etrecord=True)
    for partitioner in partitioners:
        made = made.to_backend(partitioner)
    if kept:
        made._etrecord.add_extra_export_modules({"lowered": copy.deepcopy(made)})
    return made, {"forward": inputs}


def exported(model: nn.Module, *inputs: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
    return export(model.eval(), inputs), inputs


def quantized(model: nn.Module, *inputs: torch.Tensor, dynamic: bool) -> tuple[Any, tuple[Any, ...]]:
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(export(model.eval(), inputs).module(), XNNPACKQuantizer().set_global(config))
    prepared(*inputs)
    return export(convert_pt2e(prepared), inputs), inputs


def four_bits() -> tuple[Any, tuple[Any, ...]]:
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)).eval()
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    quantize_(model, config)
    unwrap_tensor_subclass(model)
    return exported(model, torch.randn(2, 32))


def two_methods() -> Made:
    attention, mlp = Attention().eval(), Mlp().eval()
    inputs = {"forward": (torch.randn(1, 8, 16),), "decode": (torch.randn(1, 1, 16),)}
    programs = {
        "forward": export(nn.Sequential(attention, mlp).eval(), inputs["forward"]),
        "decode": export(Decoder(mlp).eval(), inputs["decode"]),
    }
    made = to_edge_transform_and_lower(
        programs,
        partitioner={method: [XnnpackPartitioner()] for method in programs},
        compile_config=CONFIG,
        generate_etrecord=True,
    )
    return made, inputs


def attention(kind: type[nn.Module] = Attention) -> tuple[Any, tuple[Any, ...]]:
    return exported(kind(), torch.randn(1, 8, 16))


def decomposed() -> tuple[Any, tuple[Any, ...]]:
    return exported(models.Decomposed(), torch.randn(2, 8, 8), torch.tensor([1, 2]))


XNNPACK = XnnpackPartitioner


def mlp() -> tuple[Any, tuple[Any, ...]]:
    return exported(Mlp(), torch.randn(2, 16))


def lstm() -> tuple[Any, tuple[Any, ...]]:
    return exported(Lstm(), torch.randn(1, 4, 8))


def mobile(activation: type[nn.Module], *, squeezed: bool) -> tuple[Any, tuple[Any, ...]]:
    return quantized(Mobile(activation, squeezed=squeezed), torch.randn(IMAGE), dynamic=False)


SOME = ops("bmm", "softmax", "addmm")
OF_CONVOLUTIONS = ops("sin", "native_group_norm", "hardswish")
KINDS: dict[str, Callable[[], Made]] = {
    "attention": lambda: at_once(*attention(), XNNPACK()),
    "attention_bmm": lambda: in_steps(*attention(), Other(ops("bmm"))),
    "attention_views": lambda: in_steps(*attention(), Other(ops("view_copy", "expand_copy"))),
    "attention_one_left": lambda: in_steps(*attention(), Other(all_but("softmax"))),
    "attention_lowered": lambda: in_steps(*attention(), XNNPACK(), kept=True),
    "attention_half": lambda: in_steps(*attention(), Other(every_second)),
    "causal": lambda: at_once(*attention(CausalAttention), XNNPACK()),
    "causal_unmapped": lambda: in_steps(*attention(CausalAttention), Other(SOME, mapped=False)),
    "conv_two_backends": lambda: at_once(
        *exported(Convolutions(), torch.randn(IMAGE)), XNNPACK(), Other(OF_CONVOLUTIONS)
    ),
    "conv_quantized": lambda: at_once(*quantized(Convolutions(), torch.randn(IMAGE), dynamic=False), XNNPACK()),
    "mlp_dynamic": lambda: at_once(*quantized(Mlp(), torch.randn(2, 16), dynamic=True), XNNPACK()),
    "mlp_four_bits": lambda: at_once(*four_bits(), XNNPACK()),
    "mlp_nothing": lambda: at_once(*mlp()),
    "mlp_all": lambda: in_steps(*mlp(), Other(all_but())),
    "mlp_permutes": lambda: in_steps(*mlp(), Other(ops("permute_copy"))),
    "lstm": lambda: at_once(*lstm(), XNNPACK()),
    "lstm_steps": lambda: in_steps(*lstm(), Other(ops("addmm", "sigmoid", "tanh"), mapped=False)),
    "decomposed": lambda: at_once(*decomposed(), XNNPACK()),
    "decomposed_half": lambda: in_steps(*decomposed(), Other(every_second)),
    "views_half": lambda: in_steps(*exported(models.Views(), torch.randn(8, 16)), Other(every_second)),
    "weights": lambda: at_once(*exported(models.Weights(), torch.randn(4, 16)), XNNPACK()),
    "two_methods": two_methods,
    "activations": lambda: at_once(*exported(models.Activations(16, 16), torch.randn(4, 16)), XNNPACK()),
    "mobile": lambda: at_once(*exported(Mobile(nn.ReLU6, squeezed=False), torch.randn(IMAGE)), XNNPACK()),
    "mobile_quantized": lambda: at_once(*mobile(nn.ReLU6, squeezed=False), XNNPACK()),
    "mobile_squeezed": lambda: at_once(*mobile(nn.Hardswish, squeezed=True), XNNPACK()),
}


def calls(graph: Any) -> list[str]:
    return [node.name for node in graph.graph.nodes if node.op == "call_function"]


def answered(graph: Any) -> dict[str, Any]:
    """The counts of executorch for a lowered graph, and where each of its nodes is."""
    counts = get_delegation_info(graph).delegation_by_operator
    names = [node.name for node in graph.graph.nodes if node.op == "get_attr"]
    lowered = [getattr(graph, name) for name in names if name.startswith("lowered_module_")]
    return {
        "operators": {op: [each.delegated, each.non_delegated] for op, each in sorted(counts.items())},
        "left": calls(graph),
        "taken": [[each.backend_id, calls(each.original_module)] for each in lowered],
    }


def compiled(runtime: Path, into: Path) -> Path:
    """The other backend, for that runtime."""
    include, library = runtime / "executorch/include", into / "other_backend.so"
    flags = "-std=c++17 -O1 -fPIC -shared -DET_EVENT_TRACER_ENABLED -DC10_USING_CUSTOM_GENERATED_MACROS".split()
    flags += [f"-I{include}", f"-I{include}/executorch/runtime/core/portable_type/c10"]
    linked = [f"-L{runtime}/executorch/lib", "-lexecutorch", f"-Wl,-rpath,{runtime}/executorch/lib"]
    source = Path(__file__).with_name("delegation_backend.cpp")
    subprocess.run(["g++", *flags, source, "-o", library, *linked], check=True)
    return library


# Run by itself, with RUNTIME before the environment's executorch.
RUNNER = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import torch
from executorch.runtime import Runtime, Verification
Runtime.get()
ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
stem, runs, inputs = sys.argv[3], int(sys.argv[4]), torch.load(sys.argv[5])
program = Runtime.get().load_program(stem + ".pte", verification=Verification.Minimal, enable_etdump=True)
methods = {name: program.load_method(name) for name in inputs}
for _ in range(runs):
    for name, method in methods.items():
        method.execute(inputs[name])
program.write_etdump_result_to_file(stem + ".etdp", sys.argv[5])
"""


def make(name: str, folder: Path, runtime: Path, library: Path, runs: int) -> None:
    torch.manual_seed(3)
    made, inputs = KINDS[name]()
    stem = folder / name / name
    stem.parent.mkdir(parents=True, exist_ok=True)
    answers = {method: answered(made.exported_program(method).graph_module) for method in sorted(made.methods)}
    stem.with_suffix(".delegation.json").write_text(json.dumps(answers, indent=None, separators=(",", ":")) + "\n")
    program = made.to_executorch()
    with stem.with_suffix(".pte").open("wb") as file:
        program.write_to_file(file)
    program.get_etrecord().save(str(stem.with_suffix(".etrecord")))
    pack(stem.with_suffix(".etrecord"))
    scratch = library.with_name("inputs.pt")
    torch.save(inputs, scratch)
    arguments = [str(runtime), str(library), str(stem), str(runs), str(scratch)]
    subprocess.run([sys.executable, "-c", RUNNER, *arguments], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    folder, runtime, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    library = compiled(runtime, Path(tempfile.mkdtemp()))
    for name in names or KINDS:
        make(name, folder, runtime, library, runs=5)
        print(name, sum(each.stat().st_size for each in (folder / name).iterdir()), flush=True)


if __name__ == "__main__":
    main()
