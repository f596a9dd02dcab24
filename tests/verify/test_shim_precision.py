"""One precision: everything in float64 from the weights that the script itself would have, AMP off."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from dpcheck.verify.shim import precision
from tests.verify.shimmed import Shimmed, serving


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


BUILD = dedent(
    """
    import json, torch
    from torch import nn
    from torch.nn.init import trunc_normal_, orthogonal_
    torch.manual_seed(3)
    modules = nn.ModuleList([
        nn.Linear(40, 7), nn.Conv2d(3, 5, 3), nn.ConvTranspose1d(2, 3, 3), nn.Embedding(11, 6), nn.BatchNorm2d(4),
        nn.LSTM(5, 6, 2, bidirectional=True), nn.GRU(4, 4), nn.MultiheadAttention(8, 2), nn.Bilinear(3, 4, 5),
        nn.TransformerEncoderLayer(8, 2, 16), nn.LayerNorm(9), nn.PReLU(), nn.LazyLinear(3),
    ])
    free = nn.ParameterList([
        nn.Parameter(trunc_normal_(torch.empty(30, 8), std=0.02)), nn.Parameter(orthogonal_(torch.empty(12, 8))),
        nn.Parameter(nn.init.kaiming_normal_(torch.empty(6, 5, 3, 3), mode="fan_out")),
        nn.Parameter(nn.init.sparse_(torch.empty(6, 5), 0.5)), nn.Parameter(nn.init.dirac_(torch.empty(4, 4, 3))),
        nn.Parameter(torch.randn(20, 5)), nn.Parameter(torch.rand(3, 4, dtype=torch.float32)),
        nn.Parameter(torch.empty(17).normal_(0, 0.1)), nn.Parameter(torch.empty(4, 6).t().uniform_(-1, 1)),
        nn.Parameter(torch.Tensor(5, 5).exponential_(2.0)), nn.Parameter(torch.normal(0.0, 2.0, (4,))),
        nn.Parameter(torch.bernoulli(torch.full((50,), 0.3))), nn.Parameter(torch.randn_like(torch.zeros(5))),
    ])
    order = torch.randperm(50).tolist() + torch.multinomial(torch.ones(20), 10).tolist()
    all_parameters = [p for m in (modules, free) for p in m.parameters()]
    parameters = [p.tolist() for p in all_parameters if not isinstance(p, nn.UninitializedParameter)]
    dtypes = sorted({str(p.dtype) for m in (modules, free) for p in m.parameters()})
    print(json.dumps([parameters, order, dtypes]))
    """
)


def test_initial_weights_are_those_of_float32_cast_up(shimmed: Shimmed, tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(BUILD, "utf-8")
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    weights, order, dtypes = json.loads(plain.stdout.splitlines()[-1])
    raised_weights, raised_order, raised_dtypes = shimmed.result(BUILD)
    assert dtypes == ["torch.float32"]
    assert raised_dtypes == ["torch.float64"]
    assert len(raised_weights) > 40
    assert raised_weights == weights, "float32 values print as the doubles that they are"
    assert raised_order == order, "the generator is where it would be"


def test_everything_is_double(shimmed: Shimmed) -> None:
    dtypes = shimmed.result(
        """
        import json, numpy as np, torch
        from torch import nn
        import torch.nn.functional as F
        x = torch.ones(2, 3)
        low = {torch.float32, torch.float16, torch.bfloat16}
        made = {
            "default": x, "float32": torch.zeros(2, dtype=torch.float32), "half": torch.ones(2, dtype=torch.half),
            "tensor": torch.tensor([1.0]), "numpy32": torch.from_numpy(np.ones(2, np.float32)),
            "tensor of numpy": torch.tensor(np.ones(2, np.float32)), "as_tensor": torch.as_tensor(np.float32(1)),
            "like": torch.zeros_like(x, dtype=torch.bfloat16), "new": x.new_zeros(2, dtype=torch.float32),
            "new_tensor": x.new_tensor(np.ones(1, np.float32)), "full": torch.full((1,), 1, dtype=torch.float),
            "Tensor": torch.Tensor([1, 2]), "FloatTensor": torch.FloatTensor([1, 2]),
            "cuda type": torch.cuda.HalfTensor(2),
            "float()": torch.ones(2, dtype=torch.int64).float(), "half()": x.half(), "bfloat16()": x.bfloat16(),
            "type": x.type(torch.float32), "type name": x.type("torch.FloatTensor"),
            "type class": x.type(torch.HalfTensor),
            "type_as": torch.ones(2, dtype=torch.int64).type_as(x), "to": x.to(torch.float16),
            "to device": x.to("cuda", torch.half),
            "to dtype=": x.to(dtype=torch.float32), "to tensor": x.to(torch.ones(1, dtype=torch.float32)),
            "softmax": F.softmax(x, -1, dtype=torch.float32), "softmax positional": x.softmax(-1, torch.float32),
            "log_softmax": torch.log_softmax(x, -1, dtype=torch.float32), "sum": x.sum(dtype=torch.float32),
            "mean": torch.mean(x, dtype=torch.float), "cumsum": x.cumsum(0, dtype=torch.float32),
            "norm": torch.linalg.vector_norm(x, dtype=torch.float32),
            "one hot": F.one_hot(torch.tensor([1]), 3).float(),
            "sqrt of int": torch.arange(3).sqrt(), "quotient": torch.arange(3) / 2, "linspace": torch.linspace(0, 1, 3),
            "Linear": nn.Linear(2, 2, dtype=torch.float16).weight, "module.half": nn.Linear(2, 2).half().weight,
            "module.to": nn.Linear(2, 2).to("cuda", torch.bfloat16).weight,
            "module.float": nn.Linear(2, 2).float().weight,
            "module.type": nn.Linear(2, 2).type(torch.float32).weight,
            "buffer": nn.BatchNorm1d(2).bfloat16().running_mean, "rand": torch.rand(2, dtype=torch.float16),
            "frombuffer": torch.frombuffer(bytearray(np.ones(2, np.float32)), dtype=torch.float32),
            "eye": torch.eye(2, dtype=torch.half), "randn": torch.randn(2, dtype=torch.float32, device="cuda"),
        }
        torch.set_default_dtype(torch.bfloat16)
        made["set_default_dtype"] = torch.ones(1)
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
        made["set_default_tensor_type"] = torch.ones(1)
        result = {name: str(tensor.dtype) for name, tensor in made.items()}
        result["complex"] = str(torch.view_as_complex(x.new_ones(2, 2)).to(torch.complex64).dtype)
        result["values"] = torch.frombuffer(bytearray(np.array([1.5], np.float32)), dtype=torch.float32).item()
        print(json.dumps(result))
        """
    )
    assert dtypes.pop("complex") == "torch.complex128"
    assert dtypes.pop("values") == 1.5
    assert {name: dtype for name, dtype in dtypes.items() if dtype != "torch.float64"} == {}
    assert len(dtypes) > 45


def test_casting_down_and_up_again_loses_nothing(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        x = torch.full((2,), 1 / 3)
        low = torch.ones(1, dtype=torch.float32)
        casts = [x.half(), x.float(), x.to(torch.bfloat16), x.type(torch.float32), x.type("torch.HalfTensor"),
                 x.type_as(low), x.to(low), torch.softmax(x, 0, dtype=torch.float32) * 2 / 3]
        print(json.dumps([(cast.double() - 1 / 3).abs().max().item() for cast in casts]))
        """
    ) == pytest.approx([0.0] * 8, abs=1e-16)


def test_training_stays_double_through_a_backward(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, numpy as np, torch
        from torch import nn
        import torch.nn.functional as F
        from torch.utils.data import DataLoader
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.conv, self.head = nn.Embedding(10, 4), nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 3)
                self.register_buffer("scale", torch.from_numpy(np.full(4, 0.5, np.float32)))
            def forward(self, tokens, weights):
                hidden = self.conv(self.embed(tokens).transpose(1, 2)).transpose(1, 2).float() * self.scale
                hidden = F.scaled_dot_product_attention(hidden, hidden, hidden)
                return self.head(hidden * weights.half()[..., None])
        samples = [(np.arange(5) % 10, np.ones(5, np.float32), np.float32(0.5), i % 3) for i in range(4)]
        net = Net().half().cuda()
        opt = torch.optim.AdamW(net.parameters(), 1e-3)
        seen = set()
        for tokens, weights, target, label in DataLoader(samples, batch_size=2):
            with torch.autocast("cuda", dtype=torch.float16):
                out = net(tokens.cuda(), weights)
                loss = F.cross_entropy(out.mean(1), label) + F.mse_loss(out[..., 0].mean(1), target)
                loss = loss + F.binary_cross_entropy_with_logits(out[:, 0], F.one_hot(label, 3).float())
            loss.backward(); opt.step()
            tensors = [out, loss, weights.float(), target.cuda(), *net.parameters(), *net.buffers()]
            seen |= {str(t.dtype) for t in tensors + [p.grad for p in net.parameters()]}
        print(json.dumps(sorted(seen)))
        """
    ) == ["torch.float64"]


def test_what_was_built_in_float32_all_the_same_is_promoted_in_place(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        import torch.distributed as dist
        def single():
            model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
            for tensor in [*model.parameters(), *model.buffers()]:
                if tensor.is_floating_point():
                    tensor.data = low(tensor)
            return model
        def low(tensor):  # below the shim
            return torch._C._VariableFunctions.ones(tensor.shape, dtype=torch.float32)
        def dtypes(model):
            return sorted({str(t.dtype) for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()})
        before = dtypes(single())
        forward, optimized, wrapped = single(), single(), single()
        kept = forward[0].weight
        out = forward(low(torch.ones(3, 2)))
        optimizer = torch.optim.SGD(optimized.parameters(), 0.1)
        dist.init_process_group("nccl")
        ddp = DDP(wrapped.cuda(), device_ids=[0])
        ddp(torch.ones(3, 2)).sum().backward()
        print(json.dumps([before, dtypes(forward), str(out.dtype), kept is forward[0].weight,
                          sorted({str(p.dtype) for p in optimized.parameters()}), dtypes(ddp),
                          str(wrapped[0].weight.grad.dtype)]))
        """
    ) == [
        ["torch.float32"],
        ["torch.float64"],
        "torch.float64",
        True,
        ["torch.float64"],
        ["torch.float64"],
        "torch.float64",
    ]


def test_in_float32_only_what_is_lower_is_raised(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch
        from torch import nn
        x = torch.ones(2)
        tensors = [x, x.half(), x.to(torch.bfloat16), x.double(), nn.Linear(2, 2).half().weight,
                   torch.zeros(1, dtype=torch.float16)]
        print(json.dumps([str(t.dtype).removeprefix("torch.") for t in tensors] + [str(torch.get_default_dtype())]))
        """,
        dtype="float32",
    )
    assert ran[0].result == ["float32", "float32", "float32", "float64", "float32", "float32", "torch.float32"]
    assert {note.place.line for note in ran[0].notes("low-precision")} == {5, 6}


def test_mixed_precision_is_off_and_told(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch
        from torch import nn
        net = nn.Linear(3, 1).cuda()
        opt = torch.optim.SGD(net.parameters(), 0.1)
        scalers = [torch.cuda.amp.GradScaler(), torch.amp.GradScaler("cuda", 1024.0),
                   torch.amp.GradScaler(enabled=False)]
        results = []
        for scaler in scalers:
            contexts = torch.cuda.amp.autocast(), torch.autocast("cuda", torch.bfloat16), torch.amp.autocast("cuda")
            for context in contexts:
                with context:
                    out = net(torch.ones(2, 3))
                    results.append(torch.is_autocast_enabled("cuda"))
                loss = out.mean()
                scaled = scaler.scale(loss)
                opt.zero_grad(); scaled.backward(); scaler.unscale_(opt)
                before = net.weight.detach().clone()
                scaler.step(opt); scaler.update()
                results.append(torch.equal(before - 0.1 * net.weight.grad, net.weight))
                results.append(scaled.item() == loss.item() and scaler.get_scale() == 1.0)
        @torch.autocast("cuda")
        def decorated(x): return torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")
        print(json.dumps([results, decorated(1)]))
        """
    )[0]
    assert ran.result == [[False, True, True] * 9, False]
    assert [note.place.line for note in ran.notes("grad-scaler")] == [6]
    assert {note.place.line for note in ran.notes("autocast")} == {10, 22}


def test_nothing_is_compiled(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch
        from torch import nn
        net = nn.Linear(2, 2)
        def double(x): return 2 * x
        @torch.compile(mode="max-autotune", fullgraph=True)
        def decorated(x): return 2 * x
        @torch.jit.script
        def scripted(x: torch.Tensor) -> torch.Tensor: return 2 * x
        same = [torch.compile(net) is net, torch.compile(double) is double, torch.jit.script(net) is net,
                torch.jit.trace(net, torch.ones(2)) is net, net.compile() is None]
        print(json.dumps(same + [decorated(3), scripted(3)]))
        """
    )[0]
    assert ran.result == [True] * 5 + [6, 6]
    assert {note.place.line for note in ran.notes("compile")} == {6, 8, 10, 11}


def test_on_real_gpus_only_the_precision_changes(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch, torch.distributed as dist
        from torch import nn
        dist.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(nn.Linear(2, 2).half())
        x = torch.ones(1)
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        with torch.autocast("cpu"):
            out = torch.compile(net)(torch.ones(1, 2, dtype=torch.float16))
        seen = torch.cuda.is_available() == bool(torch.cuda.device_count())
        print(json.dumps([str(out.dtype), seen, str(torch.device), x.item()]))
        """,
        device="cuda",
    ) == ["torch.float64", True, "<class 'torch.device'>", 1.0]


def test_every_function_that_takes_a_dtype_is_known() -> None:
    """Those that torch can override and that make or reduce floating point tensors."""
    import inspect

    from torch.overrides import get_testing_overrides, resolve_name

    taking = {
        resolve_name(function)
        for function, signature in get_testing_overrides().items()
        if "dtype" in inspect.signature(signature).parameters
    }
    known = {f"{owner}.{name}" for owner, names in precision._TAKE_DTYPE.items() for name in names}
    known |= {f"torch.{name}_like" for name in ("empty", "full", "ones", "zeros", "rand", "randn", "randint")}
    known |= {"torch.functional.norm", "torch.Tensor.to", "torch.Tensor.type"}
    quantized = {name for name in taking if name is not None and "quantize" in name}
    harmless = {"torch.Tensor.__array__", "torch.nuclear_norm", "torch.view_copy", "torch.Tensor._to_dense"}
    assert taking - known - quantized - harmless == set()
    assert torch.float32 in precision.TO_DOUBLE
