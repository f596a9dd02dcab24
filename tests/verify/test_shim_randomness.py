"""Randomness inside the models is taken out, and outside of them it stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verify.shimmed import Shimmed, serving


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


def test_dropout_keeps_everything(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch
        from torch import nn
        import torch.nn.functional as F
        torch.manual_seed(0)
        x = torch.randn(2, 4, 8)
        images = torch.randn(2, 4, 6, 6)
        def same(make, *inputs):
            random = make()
            plain = make().eval()
            plain.load_state_dict(random.state_dict())
            first = lambda out: out[0] if isinstance(out, tuple) else out
            return torch.allclose(first(random(*inputs)), first(plain(*inputs)), atol=1e-12)
        packed = lambda: nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1), torch.tensor([4, 3]))
        class Packed(nn.Module):
            def __init__(self, kind):
                super().__init__()
                self.rnn = kind(8, 4, 3, dropout=0.5)
            def forward(self, x): return self.rnn(packed())[0].data
        result = [
            same(lambda: nn.Dropout(0.5), x), same(lambda: nn.Dropout2d(0.5), images),
            same(lambda: nn.AlphaDropout(0.5), x),
            same(lambda: nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), x, x, x),
            same(lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), x),
            same(lambda: nn.LSTM(8, 4, 3, dropout=0.5, batch_first=True), x),
            same(lambda: nn.GRU(8, 4, 3, dropout=0.5), x),
            same(lambda: nn.RNN(8, 4, 2, dropout=0.5), x), same(lambda: Packed(nn.LSTM), x),
            same(lambda: Packed(nn.GRU), x),
            torch.equal(F.dropout(x, 0.5), x), torch.equal(torch.dropout(x, 0.5, True), x),
            torch.equal(F.scaled_dot_product_attention(x, x, x, None, 0.9), F.scaled_dot_product_attention(x, x, x)),
            same(lambda: nn.RReLU(), x),
        ]
        print(json.dumps(result))
        """,
        forwards=True,
    )[0]
    assert ran.result == [True] * 14
    assert "dropout kept everything" in {note.text for note in ran.notes("randomness")}


def test_draws_in_a_training_forward_are_constant(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, numpy as np, random, torch
        from torch import nn
        import torch.nn.functional as F
        class DropPath(nn.Module):  # as timm writes it
            def forward(self, x):
                mask = x.new_empty((x.shape[0], 1)).bernoulli_(0.9)
                return x * mask.div_(0.9)
        class OldDropPath(nn.Module):
            def forward(self, x):
                return x.div(0.9) * (0.9 + torch.rand((x.shape[0], 1), dtype=x.dtype, device="cuda")).floor_()
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.drop, self.old, self.fc = DropPath(), OldDropPath(), nn.Linear(3, 3)
            def forward(self, x):
                h = self.fc(x)
                steps = torch.randint(0, 1000, (len(x),), device="cuda")
                std = h.exp()
                z = torch.distributions.Normal(h, std).rsample()
                hard = F.gumbel_softmax(h, tau=0.7)
                choice = torch.multinomial(h.softmax(-1), 2)
                numbers = [random.random(), np.random.rand(), random.uniform(2, 4),
                           float(np.random.uniform(0, 1, 2).sum())]
                order = torch.randperm(4)
                noise = torch.randn_like(h) * torch.empty_like(h).uniform_(0, 2) + torch.empty_like(h).normal_(1, 2)
                return [torch.equal(self.drop(x), x), torch.allclose(self.old(x), x / 0.9), steps.tolist(),
                        (z - h - std / 2).abs().max().item(),
                        torch.allclose(hard, (h / 0.7).softmax(-1)), torch.equal(choice, h.topk(2).indices), numbers,
                        order.tolist(), noise.unique().tolist(), torch.bernoulli(torch.full((2,), 0.3)).tolist(),
                        str(noise.dtype)]
        net = Net()
        x = torch.ones(2, 3)
        state = torch.get_rng_state()
        told = net(x)
        untouched = torch.equal(state, torch.get_rng_state())
        outside = [torch.rand(3).unique().numel(), random.random() != random.random()]
        evaluated = net.eval()(x)[2]
        print(json.dumps([told, untouched, outside, evaluated != told[2]]))
        """,
        forwards=True,
    )[0]
    told, untouched, outside, evaluated = ran.result
    assert told[:2] == [True, True]
    assert told[2] == [500, 500]
    assert told[3] < 1e-15
    assert told[4:7] == [True, True, [0.5, 0.5, 3.0, 1.0]]
    assert told[7:] == [[0, 1, 2, 3], [2.5], [0.3, 0.3], "torch.float64"]
    assert untouched, "what comes after the forward draws what it would have drawn"
    assert outside == [3, True]
    assert evaluated
    assert "torch.randint inside a model gave constant numbers" in {note.text for note in ran.notes("randomness")}


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_computes_the_same_again(shimmed: Shimmed, reentrant: bool) -> None:
    error, calls = shimmed.result(
        f"""
        import json, torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        calls = []
        class Net(nn.Module):
            def __init__(self, saved):
                super().__init__()
                self.fc, self.out, self.saved = nn.Linear(3, 3), nn.Linear(3, 1), saved
            def block(self, x):
                calls.append(1)
                return torch.tanh(self.fc(x)) * torch.rand(3)
            def forward(self, x):
                h = checkpoint(self.block, x, use_reentrant={reentrant}) if self.saved else self.block(x)
                return self.out(h)
        torch.manual_seed(0)
        one, other = Net(True), Net(False)
        other.load_state_dict(one.state_dict())
        x = torch.randn(4, 3, requires_grad=True)
        for net in (one, other): net(x).sum().backward()
        errors = [(a.grad - b.grad).abs().max().item() for a, b in zip(one.parameters(), other.parameters())]
        print(json.dumps([max(errors), len(calls)]))
        """,
        forwards=True,
    )
    assert error == 0.0
    assert calls == 3, "forward, recomputation, and the model without"
