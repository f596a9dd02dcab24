"""Names of torch's own that the shim leans on: where a release drops one, this fails before a user's run does."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn import functional

from dpcheck.verify.shim import cuda, devices, factories, gloo, launchers, precision, randomness

NAMES = [
    "torch.utils._device._device_constructors",
    "torch.utils._device.DeviceContext.__torch_function__",
    "torch._C._len_torch_function_stack",
    "torch._C._get_function_stack_at",
    "torch._VF.lstm",
    "torch._VF.gru",
    "torch._VF.rnn_tanh",
    "torch._VF.rnn_relu",
    "torch.amp.autocast_mode.autocast.__init__",
    "torch.amp.grad_scaler.GradScaler.__init__",
    "torch.distributed.distributed_c10d._rank_not_in_group",
    "torch.distributed.distributed_c10d._coalescing_manager",
    "torch.distributed.distributed_c10d._get_group_size_by_name",
    "torch.distributed._functional_collectives._resolve_group_name",
    "torch.distributed._make_nccl_premul_sum",
    "torch.distributed.nn.functional._AllGatherBase",
    "torch.distributed.device_mesh.DeviceMesh.__init__",
    "torch.distributed.fsdp._init_utils._check_module_states_for_sync_module_states",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel.register_comm_hook",
    "torch.distributed.fsdp._fully_shard._fully_shard.fully_shard",
    "torch.distributed.launcher.api.elastic_launch.__call__",
    "torch.distributed.launcher.api.launch_agent",
    "torch.distributed.run.get_args_parser",
    "torch.multiprocessing.spawn",
    "torch.nn.parallel.DistributedDataParallel._passing_sync_batchnorm_handle",
    "torch.nn.parallel.DistributedDataParallel._register_builtin_comm_hook",
    "torch.utils.checkpoint.checkpoint",
]


@pytest.mark.parametrize("name", NAMES)
def test_torch_has(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return
    pytest.fail(name)


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (torch, [*randomness._KEEP_ALL_OF_TORCH, *precision._DRAW, *precision._DRAW_BY, *factories._LIKE]),
        (torch, [*factories._OTHER, *precision._REINTERPRETING, *precision._PASS_ON]),
        (torch.Tensor, [*precision._DRAW_IN_PLACE, *precision._CASTS, *factories.NEW, *devices._MOVES]),
        (functional, [*randomness._KEEP_ALL, "scaled_dot_product_attention", "rrelu"]),
        (distributed_c10d, [*gloo._IN_PLACE, *gloo._SCATTERING, *gloo._EMULATIONS, "split_group"]),
        (torch.cuda, [name for name in cuda._NOTHING if name not in cuda._NOTHING_ELSEWHERE]),
        (torch.cuda.nvtx, cuda._NVTX_NOTHING),
    ],
)
def test_every_name_in_the_tables_exists(owner: object, names: list[str]) -> None:
    """A misspelt name would be passed over like one that an older torch lacks."""
    assert [name for name in names if not hasattr(owner, name)] == []


def test_functions_that_take_a_dtype_exist() -> None:
    for path, names in precision._TAKE_DTYPE.items():
        owner = torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)
        assert [name for name in names if not hasattr(owner, name)] == []


def test_signatures_that_are_taken_apart() -> None:
    assert next(iter(inspect.signature(distributed_c10d.all_reduce).parameters)) == "tensor"
    for name in gloo._SCATTERING:
        output, given, operation, group, *_ = inspect.signature(getattr(distributed_c10d, name)).parameters
        assert (output, given[:5], operation, group) == ("output", "input", "op", "group")
    for name in ("init_process_group", "new_group"):
        parameters = inspect.signature(getattr(dist, name)).parameters
        assert {"backend", "timeout"} <= set(parameters)
    for kind in (nn.parallel.DistributedDataParallel, FullyShardedDataParallel):
        assert {"module", "mixed_precision"} <= set(inspect.signature(kind.__init__).parameters)
    assert list(inspect.signature(torch.multiprocessing.spawn).parameters) == [
        "fn",
        "args",
        "nprocs",
        "join",
        "daemon",
        "start_method",
    ]
    parser = launchers.read_command("torchrun --nproc-per-node 2 train.py")
    assert parser is not None
    assert parser.script == "train.py"


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("lightning.pytorch.trainer.connectors.accelerator_connector", "_AcceleratorConnector"),
        ("lightning.fabric.connector", "_Connector"),
    ],
)
def test_lightning_has(module: str, name: str) -> None:
    connector = getattr(importlib.import_module(module), name)
    assert hasattr(connector, "_check_strategy_and_fallback")
    asked = {"accelerator", "strategy", "devices", "num_nodes", "precision", "plugins"}
    assert asked <= set(inspect.signature(connector.__init__).parameters)
