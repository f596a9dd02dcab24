"""Accelerate and transformers' Trainer under the shim."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.verify.shimmed import Shimmed, serving

ACCELERATE = importlib.util.find_spec("accelerate") is not None
TRANSFORMERS = ACCELERATE and importlib.util.find_spec("transformers") is not None


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


@pytest.mark.skipif(not ACCELERATE, reason="accelerate is not installed")
@pytest.mark.parametrize("options", ["mixed_precision='bf16'", "mixed_precision='fp16', gradient_accumulation_steps=1"])
def test_accelerate(shimmed: Shimmed, options: str) -> None:
    ran = shimmed.run(
        f"""
        import json, torch
        from torch import nn
        from accelerate import Accelerator
        accelerator = Accelerator({options})
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        data = torch.utils.data.TensorDataset(torch.randn(8, 4))
        model, optimizer, loader = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(data, batch_size=2))
        (x,) = next(iter(loader))
        with accelerator.autocast():
            loss = model(x).pow(2).mean()
        accelerator.backward(loss)
        gradient = model.module.weight.grad.tolist()
        optimizer.step()
        print(json.dumps([accelerator.process_index, accelerator.num_processes, accelerator.device.type,
                          accelerator.mixed_precision, str(loss.dtype), type(model).__name__, x.tolist(), gradient]))
        """,
        ranks=2,
    )
    results = [one.result for one in ran]
    shared = [2, "cpu", "no", "torch.float64", "DistributedDataParallel"]
    assert [result[:6] for result in results] == [[rank, *shared] for rank in (0, 1)]
    assert results[0][6] != results[1][6]
    assert results[0][7] == results[1][7]
    assert len(ran[0].notes("autocast")) == 1


@pytest.mark.skipif(not TRANSFORMERS, reason="transformers is not installed")
@pytest.mark.parametrize("half", ["bf16=True", "fp16=True, optim='adamw_torch_fused', torch_compile=True"])
def test_the_trainer(shimmed: Shimmed, half: str) -> None:
    ran = shimmed.run(
        f"""
        import json, torch
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
        torch.manual_seed(0)
        tokens = torch.randint(0, 20, (16, 6))
        data = [dict(input_ids=row, labels=row) for row in tokens]
        model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2))
        told = {{}}
        class Tell(TrainerCallback):
            def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
                told["gradient"] = [p.grad.sum().item() for p in model.parameters()]
                told["dtypes"] = sorted({{str(t.dtype) for p in model.parameters() for t in (p, p.grad)}})
        arguments = TrainingArguments("out", per_device_train_batch_size=2, max_steps=2, report_to=[], {half},
                                      save_strategy="no", logging_strategy="no", disable_tqdm=True)
        trainer = Trainer(model, arguments, train_dataset=data, callbacks=[Tell()])
        trainer.train()
        told.update(world=arguments.world_size, rank=arguments.process_index, device=arguments.device.type)
        print(json.dumps(told))
        """,
        ranks=2,
    )
    one, other = (each.result for each in ran)
    assert (one["rank"], other["rank"], one["world"], one["device"]) == (0, 1, 2, "cpu")
    assert one["dtypes"] == ["torch.float64"]
    assert one["gradient"] == other["gradient"]
    assert any(one["gradient"])
    assert len(ran[0].notes("autocast")) == 1


@pytest.mark.skipif(not TRANSFORMERS, reason="transformers is not installed")
def test_a_saved_model_in_half_precision(shimmed: Shimmed) -> None:
    assert shimmed.result(
        """
        import json, torch
        from transformers import GPT2Config, GPT2LMHeadModel
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2))
        model.save_pretrained("saved")
        loaded = GPT2LMHeadModel.from_pretrained("saved", dtype=torch.bfloat16).to("cuda")
        same = all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters()))
        logits = loaded(torch.arange(6)[None].to("cuda")).logits
        print(json.dumps([same, str(logits.dtype), str(next(loaded.parameters()).dtype)]))
        """
    ) == [True, "torch.float64", "torch.float64"]
