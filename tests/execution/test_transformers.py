"""What the stubs of Transformers and TRL make of a script: its events and its loss terms."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.execution import TrainingRun
from tests.execution.programs import OPTION, SHOW, UNKNOWN, WORLD, shown
from tests.execution.scripts import (
    divisor,
    is_exact,
    is_mean_of_uneven,
    line,
    lines,
    one,
    run,
    sharded_by,
    term,
    update,
)

TRAINER = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", ARGUMENTS)
trainer = Trainer(model=model, args=args, train_dataset=Keyed())
trainer.train()
"""


def trained(root: Path, arguments: str = "", text: str = TRAINER) -> TrainingRun:
    return run(root, text.replace("ARGUMENTS", arguments))


def test_the_trainer_counts_the_labels_of_all_ranks(tmp_path: Path) -> None:
    found = trained(tmp_path)
    assert (one(found, "wrap").how, one(found, "wrap").broadcasts) == ("DDP", True)
    assert one(found, "loader").batch_size.value == 8
    assert sharded_by(found) == ["accelerate"]
    assert one(found, "load weights")
    assert is_exact(found)
    assert not update(found).accumulates
    assert not found.unknowns


def test_a_literal_false_makes_the_count_local(tmp_path: Path) -> None:
    found = trained(tmp_path, "average_tokens_across_devices=False")
    only = term(found)
    assert only.place.is_ratio
    assert only.explicit
    assert only.even.is_uneven
    assert line(found, only.reduction) in lines(found, "average_tokens_across_devices")


def test_a_window_is_counted_as_a_whole(tmp_path: Path) -> None:
    found = trained(tmp_path, "gradient_accumulation_steps=4")
    assert is_exact(found)
    assert update(found).accumulates
    assert [s for s in term(found).scalings if line(found, s.site) in lines(found, "gradient_acc")] == []


OVERRIDE = """
from transformers import Trainer, TrainingArguments

class Own(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        logits = model(inputs["input_ids"])
        loss = F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten())  # mean
        return (loss, logits) if return_outputs else loss

Own(model=Tagger(), args=TrainingArguments("out", ARGUMENTS), train_dataset=Keyed()).train()
"""


def test_an_override_computes_its_own_loss(tmp_path: Path) -> None:
    found = trained(tmp_path, text=OVERRIDE)
    assert is_mean_of_uneven(found)
    assert line(found, term(found).reduction) in lines(found, "# mean")
    assert term(found).scalings == ()
    found = trained(tmp_path, "gradient_accumulation_steps=4", OVERRIDE)
    assert divisor(found) in lines(found, "gradient_accumulation_steps=4")
    assert update(found).accumulates


def test_a_loader_that_an_override_makes_is_not_sharded(tmp_path: Path) -> None:
    loader = """
class Own(Trainer):
    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=4)

trainer = Own("""
    found = trained(tmp_path, text=TRAINER.replace("trainer = Trainer(", loader))
    assert found.of_kind("shard") == []
    assert update(found)


def test_fields_of_dataclasses_become_options(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        SHOW
        + """
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments

@dataclass
class Settings:
    rate: float = field(default=0.1, metadata={"help": "rate"})

@dataclass
class More(TrainingArguments):
    width: int = 512

settings, training = HfArgumentParser((Settings, More)).parse_args_into_dataclasses()
show(settings.rate, training.width, training.seed, training.local_rank, training.world_size)
show(Settings(rate=2).rate, More("out", seed=7).seed, More("out").gradient_accumulation_steps)
""",
    )
    assert shown(found) == [(OPTION, OPTION, OPTION, UNKNOWN, WORLD), (2, 7, 1)]


def test_a_model_of_the_library_averages_over_its_labels(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        import torch.distributed as dist
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaForCausalLM
        from torch.utils.data.distributed import DistributedSampler
        dist.init_process_group()
        model = nn.parallel.DistributedDataParallel(LlamaForCausalLM(LlamaConfig(hidden_size=8)))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        data = Keyed()
        for batch in DataLoader(data, batch_size=4, sampler=DistributedSampler(data)):
            outputs = model(**batch)  # mean
            outputs["loss"].backward()
            optimizer.step()
        """,
    )
    assert is_mean_of_uneven(found)
    assert line(found, term(found).reduction) in lines(found, "# mean")
    assert found.of_kind("model")[0].random


COLLATED = """
import torch.distributed as dist
from datasets import load_dataset
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, DataCollatorForSeq2Seq
dist.init_process_group()
tokenizer = AutoTokenizer.from_pretrained("bert")
data = load_dataset("text", split="train").map(lambda rows: TOKENIZED, batched=True, remove_columns=["text"])
collate = COLLATOR  # collated
model = DistributedDataParallel(AutoModelForCausalLM.from_pretrained("gpt2"))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), collate_fn=collate):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
"""


PADDED = 'tokenizer(rows["text"], padding="max_length")'


@pytest.mark.parametrize(
    ("tokenized", "collator", "uneven"),
    [
        ('tokenizer(rows["text"])', "DataCollatorForLanguageModeling(tokenizer, mlm=False)", True),
        (PADDED, "DataCollatorForLanguageModeling(tokenizer, mlm=False)", False),
        (PADDED, "DataCollatorForLanguageModeling(tokenizer)", True),
        ('tokenizer(rows["text"], text_target=rows["text"])', "DataCollatorForSeq2Seq(tokenizer)", True),
        ('{"input_ids": rows["text"]}', "DataCollatorForLanguageModeling(tokenizer, mlm=False)", False),
    ],
)
def test_collators_say_whether_labels_are_ignored(tmp_path: Path, tokenized: str, collator: str, uneven: bool) -> None:
    found = run(tmp_path, COLLATED.replace("TOKENIZED", tokenized).replace("COLLATOR", collator))
    assert term(found).even.is_uneven == uneven
    if uneven:
        assert {line(found, each.site) for each in term(found).even.evidence} & lines(found, "# collated")


def test_trl_is_a_trainer(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        from trl import SFTConfig, SFTTrainer
        args = SFTConfig("out", average_tokens_across_devices=False)
        collate = torch.utils.data.default_collate
        SFTTrainer("gpt2", args, train_dataset=Keyed(), data_collator=collate).train()
        """,
    )
    assert term(found).explicit
    assert line(found, term(found).reduction) in lines(found, "average_tokens_across_devices")
