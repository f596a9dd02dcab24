"""DP107: BatchNorm in training mode takes its statistics from each rank's own batch."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.run import Event, escaped, parts_of, unwrapped
from dpcheck.execution.values import Const, Instance
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP107",
    "unsynchronized-batchnorm",
    Group.WEIGHTS,
    Severity.NOTE,
    "normalization by the statistics of each rank's own batch",
    pedantic=True,
)


def check(run: TrainingRun) -> Iterator[Finding]:
    seen: set[int] = set()
    for update in run.updates:
        for wrap in update.wraps:
            module = unwrapped(wrap.subject)
            if not isinstance(module, Instance) or id(module) in seen or escaped(module):
                continue
            layer = next(
                (part for part in _local_layers(run, module) if _trains(run, part, update.backwards[-1])), None
            )
            if layer is None:
                continue
            seen.add(id(module))
            notes = [Note(run.span(layer.site), "a BatchNorm of this model")] if layer.site is not None else []
            if update.backwards[-1].site != wrap.site:
                notes.append(Note(run.span(update.backwards[-1].site), "trained here"))
            yield Finding(
                RULE,
                "this model normalizes by the mean and variance of each rank's own batch: the gradient is not that of "
                "the whole batch",
                run.span(wrap.site),
                label="holds BatchNorm layers that are not synchronized",
                notes=tuple(notes),
                help="convert the model with SyncBatchNorm.convert_sync_batchnorm before it is wrapped",
            )


def _local_layers(run: TrainingRun, module: Instance) -> Iterator[Instance]:
    """The BatchNorm layers of a module that nothing, on any path, has converted."""
    converted = run.of_kind("sync batchnorm")
    synchronized = {id(part) for event in converted for part in parts_of(event.subject)}
    for part in parts_of(module):
        if (
            part.is_a("torch.nn._BatchNorm")
            and not part.is_a("torch.nn.SyncBatchNorm")
            and id(part) not in synchronized
        ):
            yield part


def _trains(run: TrainingRun, layer: Instance, backward: Event) -> bool:
    """Is the layer in training mode in the forward that leads to this backward?"""
    modes = [e for e in run.of_kind("train mode") if e.order < backward.order and _holds(e.subject, layer)]
    return not modes or (isinstance(modes[-1].mode, Const) and modes[-1].mode.value is True)


def _holds(module: object, layer: Instance) -> bool:
    return any(part is layer for part in parts_of(module))
