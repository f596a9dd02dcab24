"""Which files may take part in training, judged by their bytes.

Only such files are executed as entry points; whatever they import is read all the same. The words are looked for one
by one with `in`, which runs at some gigabytes a second; a regular expression for all of them is far slower. Bare
`distributed` is not among them: it stands in the licence on top of every second file.
"""

from __future__ import annotations

import re

WORDS: tuple[bytes, ...] = (
    # starting ranks, and asking which one this is
    b"torch.distributed",
    b"torch import distributed",
    b"init_process_group",
    b"init_distributed",
    b"initialize_dist",
    b"torchrun",
    b".spawn(",
    b"world_size",
    b"WORLD_SIZE",
    b"local_rank",
    b"LOCAL_RANK",
    b"is_main_process",
    # wrapping models, sharding data
    b"DataParallel",
    b"DDP",
    b"FSDP",
    b"fully_shard",
    b"DistributedSampler",
    # frameworks
    b"Accelerator",
    b"import accelerate",
    b"from accelerate",
    b"ightning",
    b"Fabric(",
    b"Trainer(",
    b"Trainer):",
    b"SFTConfig",
    b"TrainingArguments",
    b"horovod",
    b"deepspeed",
    # training itself, which a helper elsewhere may have made data-parallel
    b".backward(",
    b"zero_grad",
    b"optimizer.step",
    b"training_step",
    # collectives
    b"all_reduce",
    b"allreduce",
    b"all_gather",
    b"allgather",
    b"broadcast_parameters",
)

MAIN = b"__main__"
# A list in parentheses is bounded, lest thousands of open ones in a text are each followed to its end.
IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import[ \t]+(\([^)]{0,4000}\)|[^\r\n;#]*)"
    rb"|import[ \t]+([\w.][^\r\n;#]*))",
    re.MULTILINE,
)


def is_relevant(data: bytes) -> bool:
    """Whether the file may be the entry to a training run, or hold a part of one. Errs on the side of yes."""
    for word in WORDS:  # noqa: SIM110 (twice as fast as `any` over a generator)
        if word in data:
            return True
    return False


def imports(data: bytes) -> tuple[tuple[int, str], ...]:
    """What the file seems to import, each as level and dotted name. Found without parsing, and perhaps too much."""
    found: dict[tuple[int, str], None] = {}
    for match in IMPORTS.finditer(data):
        dots, module, names, modules = match.groups()
        if modules is not None:
            for name in modules.split(b","):
                found[0, text(name)] = None
            continue
        level, prefix = len(dots), text(module)
        found[level, prefix] = None
        for name in names.strip(b"()").split(b","):
            last = text(name)
            if last.isidentifier():
                found[level, f"{prefix}.{last}" if prefix else last] = None
    return tuple(key for key in found if key[0] or key[1])


def text(name: bytes) -> str:
    """The name without `as …`."""
    words = name.split()
    return words[0].decode("utf-8", "replace") if words else ""
