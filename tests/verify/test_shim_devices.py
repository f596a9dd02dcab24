"""GPUs that are not there: devices, `torch.cuda`, seeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verify.shimmed import Shimmed, serving


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


def test_whatever_goes_to_a_gpu_stays_on_the_cpu(shimmed: Shimmed) -> None:
    devices = shimmed.result(
        """
        import json, torch
        from torch import nn
        rank = 1
        x = torch.ones(2)
        made = {
            "cuda()": x.cuda(), "cuda(rank)": x.cuda(rank), "cuda(device)": x.cuda(torch.device("cuda", 1)),
            "to(0)": x.to(0), "to(name)": x.to("cuda:1", non_blocking=True), "to(device=)": x.to(device="cuda"),
            "to(device, dtype)": x.to(torch.device(rank), torch.int64), "to(tensor)": x.to(x),
            "xpu": x.to("xpu"), "mps": x.to("mps:0"),
            "zeros": torch.zeros(2, device="cuda"), "tensor": torch.tensor([1], device=rank),
            "full": torch.full((2,), 1.0, device=torch.device("cuda")), "arange": torch.arange(3, device="cuda:0"),
            "randn": torch.randn(2, device="cuda", requires_grad=True), "like": torch.ones_like(x, device="cuda"),
            "new": x.new_zeros(2, device="cuda"), "as_tensor": torch.as_tensor([1.0], device="cuda"),
            "normal": torch.normal(0.0, 1.0, (2,), device="cuda"), "randperm": torch.randperm(3, device="cuda"),
            "fft": torch.fft.fftfreq(3, device="cuda"), "pinned": torch.empty(2, pin_memory=True).pin_memory(),
            "FloatTensor": torch.cuda.FloatTensor([1.0]), "LongTensor": torch.cuda.LongTensor(2),
            "type": x.type(torch.cuda.FloatTensor), "type name": x.type("torch.cuda.LongTensor"),
            "Linear": nn.Linear(2, 2, device="cuda").weight, "module.cuda": nn.Linear(2, 2).cuda(rank).weight,
            "module.to": nn.Linear(2, 2).to(rank).weight, "module.to(device)": nn.Linear(2, 2).to("cuda:0").weight,
        }
        print(json.dumps({name: str(tensor.device) for name, tensor in made.items()}))
        """
    )
    assert len(devices) == 30
    assert set(devices.values()) == {"cpu"}


def test_a_tensor_that_moves_to_a_gpu_is_the_tensor(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        x, model = torch.ones(2), torch.nn.Linear(2, 2)
        print(json.dumps([x.cuda() is x, x.to("cuda") is x, x.to("cuda", copy=True) is x, model.cuda() is model]))
        """
    ) == [True, True, False, True]


def test_devices_are_what_the_script_says(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import copy, json, pickle, torch
        device = torch.device(1)
        print(json.dumps([
            str(device), device.type, isinstance(device, torch.device), isinstance(torch.ones(1).device, torch.device),
            str(pickle.loads(pickle.dumps(device))), str(copy.deepcopy(torch.device("cuda"))),
            str(torch.device(torch.device("meta"))), str(torch.device(type="cuda", index=0)),
        ]))
        """
    ) == ["cuda:1", "cuda", True, True, "cuda:1", "cuda", "meta", "cuda:0"]


def test_default_devices(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        with torch.device("cuda"):
            inside = torch.nn.Linear(2, 2)
        with torch.device("meta"):
            meta = torch.nn.Linear(2, 2)
        torch.set_default_device("cuda:0")
        default = torch.zeros(2)
        torch.set_default_device(None)
        print(json.dumps([str(inside.weight.device), str(meta.weight.device), str(default.device)]))
        """
    ) == ["cpu", "meta", "cpu"]


def test_loading_on_a_gpu(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        torch.save({"w": torch.ones(2), "device": torch.device("cuda", 1)}, "checkpoint.pt")
        load = lambda where: torch.load("checkpoint.pt", map_location=where, weights_only=False)
        places = [None, "cuda:0", torch.device("cuda"), lambda storage, location: storage.cuda(0), {"cuda:1": "cuda:0"}]
        print(json.dumps([str(load(place)["w"].device) for place in places]
                         + [str(load("meta")["w"].device), str(load(None)["device"])]))
        """
    ) == ["cpu"] * 5 + ["meta", "cuda:1"]


def test_a_generator_of_a_gpu(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        one = torch.Generator(device="cuda").manual_seed(3)
        other = torch.Generator().manual_seed(3)
        drawn = torch.randn(4, generator=one, device="cuda")
        print(json.dumps([
            isinstance(one, torch.Generator), torch.equal(drawn, torch.randn(4, generator=other)),
            len(torch.cuda.default_generators),
        ]))
        """
    ) == [True, True, 1]


def test_a_gpu_has_random_numbers_of_its_own(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch
        torch.cuda.manual_seed(5)
        on_gpu, on_cpu = torch.randn(4, device="cuda"), torch.randn(4)
        with torch.device("cuda"):
            built = torch.nn.Linear(2, 2)
        torch.manual_seed(7)
        both = [torch.randn(4, device="cuda").tolist(), torch.randn(4).tolist()]
        state = torch.cuda.get_rng_state()
        first = torch.randn(4, device="cuda")
        torch.cuda.set_rng_state(state)
        again = torch.equal(first, torch.randn(4, device="cuda"))
        print(json.dumps([on_gpu.tolist(), on_cpu.tolist(), built.weight.tolist(), both, again]))
        """,
        ranks=2,
    )
    one, other = ran[0].result, ran[1].result
    assert one[0] == other[0]
    assert one[1] != other[1], "the seed of the GPU is none of the CPU"
    assert one[2] == other[2]
    assert one[3] == other[3]
    assert one[3][0] == one[3][1], "torch.manual_seed seeds both"
    assert one[4]


def test_the_users_code_sees_gpus_and_libraries_do_not(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, os, sys, torch
        os.makedirs("site-packages", exist_ok=True)
        with open("site-packages/library%s.py" % os.environ["RANK"], "w") as file:
            file.write("import torch\\ndef asks(): return torch.cuda.is_available(), torch.cuda.device_count()\\n")
        sys.path.insert(0, "site-packages")
        library = __import__("library" + os.environ["RANK"])
        torch.cuda.set_device(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
        print(json.dumps([
            torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device(), library.asks(),
            torch.accelerator.is_available(), str(torch.accelerator.current_accelerator()),
        ]))
        """,
        ranks=2,
    )
    assert [one.result for one in ran] == [[True, 2, rank, [False, 0], True, "cuda"] for rank in (0, 1)]


@pytest.mark.parametrize(("kind", "count"), [("launcher", 1), ("autocast", 2)])
def test_a_reference_sees_as_many_gpus_as_its_script_wants(shimmed: Shimmed, kind: str, count: int) -> None:
    """The ranks' number, unless the script starts a process for each."""
    source = """
        import json, torch
        print(json.dumps(torch.cuda.device_count()))
        """
    body = {
        "launcher": "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)\n",
        "autocast": "import torch\nwith torch.autocast('cuda'): pass\n",
    }[kind]
    ranks = shimmed.run(body, ranks=2)
    assert [note.kind for note in ranks[0].recording.notes] == [kind]
    folders = [str(shimmed.folder_of_last / f"rank{rank}") for rank in (0, 1)]
    assert shimmed.result(source, role="reference", feed={"folders": folders}) == count


def test_what_acts_on_a_gpu_does_nothing(shimmed: Shimmed) -> None:
    assert (
        shimmed.result(
            """
        import json, torch
        cuda = torch.cuda
        stream, start, end = cuda.Stream(), cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        with cuda.stream(stream), cuda.device(1), torch.cuda.device_of(torch.ones(1)):
            x = torch.ones(2).cuda(non_blocking=True)
            x.record_stream(cuda.current_stream())
        stream.wait_stream(cuda.current_stream())
        cuda.current_stream().wait_event(stream.record_event())
        end.record(); end.synchronize(); cuda.synchronize(); cuda.empty_cache(); cuda.reset_peak_memory_stats(0)
        torch.accelerator.synchronize()
        torch.accelerator.current_stream().synchronize()
        cuda.nvtx.range_push("step"); cuda.nvtx.range_pop()
        cuda.cudart().cudaProfilerStart()
        cuda.memory._record_memory_history(max_entries=10)
        with cuda.nvtx.range("step"), torch.random.fork_rng(devices=[0]):
            pass
        assert 0 <= start.elapsed_time(end) < 10_000
        assert cuda.memory_allocated() == cuda.max_memory_allocated(0) == 0
        assert cuda.memory_stats()["allocated_bytes.all.current"] == 0
        free, total = cuda.mem_get_info()
        assert cuda.get_device_properties(0).total_memory == total
        assert cuda.get_device_capability() >= (8, 0) and cuda.is_bf16_supported()
        assert "dpcheck" in cuda.get_device_name(0)
        print(json.dumps("done"))
        """
        )
        == "done"
    )


def test_variants_of_optimizers_that_only_gpus_have(shimmed: Shimmed) -> None:
    assert (
        shimmed.result(
            """
        import json, torch
        from torch import nn
        def trained(kind, **options):
            p = nn.Parameter(torch.ones(3))
            optimizer = kind([p], lr=0.1, **options)
            for _ in range(2):
                optimizer.zero_grad(); p.pow(3).sum().backward(); optimizer.step()
            return p.detach()
        print(json.dumps([
            torch.equal(trained(torch.optim.AdamW, fused=True), trained(torch.optim.AdamW)),
            torch.equal(trained(torch.optim.Adam, capturable=True), trained(torch.optim.Adam)),
            torch.equal(trained(torch.optim.SGD, fused=True, momentum=0.9), trained(torch.optim.SGD, momentum=0.9)),
            torch.equal(trained(torch.optim.NAdam, capturable=True), trained(torch.optim.NAdam)),
        ]))
        """
        )
        == [True] * 4
    )


def test_flex_attention_has_a_gradient(shimmed: Shimmed) -> None:
    forward, backward, gated, masked = shimmed.result(
        """
        import json, torch
        import torch.nn.functional as F
        from torch.nn.attention.flex_attention import flex_attention, create_block_mask
        flex = torch.compile(flex_attention)
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, heads, 16, 8, device="cuda", requires_grad=True) for heads in (4, 2, 2))
        document = torch.arange(16, device="cuda") // 5
        def mask_mod(b, h, q_idx, kv_idx): return (q_idx >= kv_idx) & (document[q_idx] == document[kv_idx])
        block_mask = create_block_mask(mask_mod, None, None, 16, 16, device="cuda")
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        def alibi(score, b, h, q_idx, kv_idx): return score + slopes[h] * (kv_idx - q_idx)
        out = flex(q, k, v, score_mod=alibi, block_mask=block_mask, enable_gqa=True)
        at = torch.arange(16)
        dense = (at[:, None] >= at) & (document[:, None] == document)
        bias = slopes.view(4, 1, 1) * (at - at[:, None])
        expected = F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1),
            attn_mask=bias.masked_fill(~dense, float("-inf")).expand(2, 4, 16, 16))
        weights = torch.randn_like(out)
        one = torch.autograd.grad((out * weights).sum(), (q, k, v))
        other = torch.autograd.grad((expected * weights).sum(), (q, k, v))
        _, lse = flex_attention(q, q, q, return_lse=True)
        never = create_block_mask(lambda b, h, i, j: i < 0, None, None, 16, 16, "cpu")
        nothing = flex_attention(q, q, q, block_mask=never)
        print(json.dumps([
            (out - expected).abs().max().item(), max((a - b).abs().max().item() for a, b in zip(one, other)),
            (lse - (q @ q.transpose(-1, -2) / 8**0.5).logsumexp(-1)).abs().max().item(), nothing.abs().max().item(),
        ]))
        """
    )
    assert max(forward, backward, gated) < 1e-12
    assert masked == 0.0
