"""What is drawn for one example alone splits nothing."""

from __future__ import annotations

from tests.rules.trainings import judge

SCRIPT = """
import random

import torch
from torch import nn
from datasets import load_dataset
from transformers import Trainer, TrainingArguments


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, passages):
        return {{"loss": self.score(passages).mean()}}


class Groups(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = load_dataset("json", data_files="groups.json", split="train")
        {before}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, item):
        row = self.rows[item]
        passages = list(row["passages"])
        {drawn}
        return {{"passages": torch.tensor(passages[:4])}}


trainer = Trainer(model=Ranker(), args=TrainingArguments("out"), train_dataset=Groups())
trainer.train()
"""


def test_an_example_that_is_shuffled_by_its_index(tmp_path, monkeypatch) -> None:
    script = SCRIPT.format(before="pass", drawn="random.Random(hash(item + 7)).shuffle(passages)")
    judge(script, "DP206", tmp_path, monkeypatch)


def test_rows_that_are_shuffled_before(tmp_path, monkeypatch) -> None:
    script = SCRIPT.format(before="self.rows = self.rows.shuffle()  # want: DP206", drawn="pass")
    judge(script, "DP206", tmp_path, monkeypatch)
