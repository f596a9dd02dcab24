"""Which accumulation reduces every micro-batch."""

from __future__ import annotations

import pytest

from tests.rules.trainings import MODEL, judge, training

STEP = """
if (step + 1) % k == 0:
    optimizer.step()
    optimizer.zero_grad()
"""
LOSS = "loss = F.mse_loss(model(x).sum(1), y.sum(1)) / k"
WANT = "  # want: DP405"
WRONG = {
    "plain": LOSS + "\nloss.backward()" + WANT + STEP,
    "only the backward inside": LOSS + "\nwith model.no_sync():\n    loss.backward()" + WANT + STEP,
    "micro-batches of one batch": """
optimizer.zero_grad()
for part in x.split(1):
    loss = model(part).mean() / k
    loss.backward()  # want: DP405
optimizer.step()
""",
}
RIGHT = {
    "inside no_sync but for the last": f"""
last = (step + 1) % k == 0
with nullcontext() if last else model.no_sync():
    {LOSS}
    loss.backward()
{STEP}""",
    "by the flag": f"""
model.require_backward_grad_sync = (step + 1) % k == 0
{LOSS}
loss.backward()
{STEP}""",
    "two branches": f"""
if (step + 1) % k:
    with model.no_sync():
        {LOSS}
        loss.backward()
else:
    {LOSS}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "an exit stack": f"""
with ExitStack() as stack:
    if (step + 1) % k:
        stack.enter_context(model.no_sync())
    {LOSS}
    loss.backward()
{STEP}""",
    "every forward inside": f"""
with model.no_sync():
    {LOSS}
loss.backward()
{STEP}""",
    "no accumulation": LOSS + "\nloss.backward()\noptimizer.step()\noptimizer.zero_grad()\n",
}


@pytest.mark.parametrize("body", [*WRONG.values(), *RIGHT.values()], ids=[*WRONG, *RIGHT])
def test_accumulation(body: str, tmp_path, monkeypatch) -> None:
    script = training(body, "from contextlib import ExitStack", "k = 4\n" + MODEL, update="")
    judge(script, "DP405", tmp_path, monkeypatch)


@pytest.mark.parametrize(("default", "want"), [(4, WANT), (1, "")])
def test_accumulation_that_the_user_chooses(default: int, want: str, tmp_path, monkeypatch) -> None:
    before = f"""
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default={default})
    k = parser.parse_args().accumulate
    """
    model = "model = DDP(nn.Linear(4, 8))\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    script = training(LOSS + "\nloss.backward()" + want + STEP, before=before + model, update="")
    judge(script, "DP405", tmp_path, monkeypatch)


def test_fsdp_keeps_less_in_memory_without(tmp_path, monkeypatch) -> None:
    above = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP"
    before = "k = 4\n" + MODEL.replace("DDP(nn.Linear(4, 8))", "FSDP(nn.Linear(4, 8), sync_module_states=True)")
    script = training(LOSS + "\nloss.backward()" + STEP, above, before, update="")
    judge(script, "DP405", tmp_path, monkeypatch)
