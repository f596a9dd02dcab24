"""When BatchNorm takes its statistics from the local batch."""

from __future__ import annotations

import pytest

from tests.rules.trainings import judge, training

BODY = "loss = F.mse_loss(model(x), y)"
NETWORK = "net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())\n"
OPTIMIZER = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
FREEZE = """
for layer in model.modules():
    if isinstance(layer, nn.BatchNorm1d):
        layer.eval()
"""
WANT = "  # want: DP107"
WRONG = {
    "as it is": (NETWORK + "model = DDP(net)" + WANT, ""),
    "trained again after an evaluation": (NETWORK + "model = DDP(net)" + WANT, "model.eval()\nmodel.train()\n"),
    "thawed each epoch": (NETWORK + "model = DDP(net)" + WANT + FREEZE, "model.train()\n"),
    "of torchvision": (
        "from torchvision import models\nnet = models.resnet18(num_classes=4)\nmodel = DDP(net)" + WANT,
        "",
    ),
    "deep inside": (
        "net = nn.ModuleDict({'a': nn.ModuleList([nn.Sequential(nn.BatchNorm1d(4))])})\nnet.forward = net['a'][0]\n"
        "model = DDP(net)" + WANT,
        "",
    ),
}
RIGHT = {
    "converted": (NETWORK + "net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\nmodel = DDP(net)", ""),
    "converted where a setting says so": (
        "import os\n" + NETWORK + "if os.environ.get('SYNC_BN'):\n"
        "    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\nmodel = DDP(net)",
        "",
    ),
    "synchronized from the start": ("net = nn.Sequential(nn.SyncBatchNorm(4))\nmodel = DDP(net)", ""),
    "in evaluation mode": (NETWORK + "model = DDP(net)", "model.eval()\n"),
    "frozen layer by layer": (NETWORK + "model = DDP(net)", "model.train()" + FREEZE),
    "frozen in a deep model": (
        "layers = []\nfor _ in range(8):\n    layers += [nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()]\n"
        "net = nn.Sequential(*layers)\nmodel = DDP(net)",
        "model.train()" + FREEZE,
    ),
    "handed to a library": ("import library\n" + NETWORK + "library.prepare(net)\nmodel = DDP(net)", ""),
    "none, of torchvision": (
        "from torchvision import models\nnet = models.vit_b_16(num_classes=4)\nmodel = DDP(net)",
        "",
    ),
    "another normalization": ("net = nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4))\nmodel = DDP(net)", ""),
}


@pytest.mark.parametrize(("before", "body"), [*WRONG.values(), *RIGHT.values()], ids=[*WRONG, *RIGHT])
def test_batchnorm(before: str, body: str, tmp_path, monkeypatch) -> None:
    judge(training(body + BODY, before=before + "\n" + OPTIMIZER), "DP107", tmp_path, monkeypatch)
