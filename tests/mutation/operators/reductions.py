"""The sums over the ranks in a program, and how to take one away."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import Edits, Source, removed, to
from tests.mutation.programs import Program


def reductions(program: Program) -> Iterator[tuple[Source, cst.Call, Edits]]:
    """The calls that sum a value over the ranks, with the edit that leaves the value of this rank."""
    for source, call in program.calls("all_reduce"):
        if source.name(call.func).startswith("torch.distributed") and ".grad" not in source.code(call):
            if isinstance(source.parent(call), cst.Expr) and not _returned(source, call):
                yield source, call, {source.statement(call): removed}
    helpers = {
        function.name.value
        for source, call in program.calls("all_reduce")
        if isinstance(function := source.function(call), cst.FunctionDef) and _returned(source, call)
    }
    for source, call in program.calls(*helpers):
        if len(call.args) == 1:
            yield source, call, {call: to(source.code(call.args[0].value))}


def _returned(source: Source, call: cst.Call) -> bool:
    """In a function of one argument that gives its sum over the ranks."""
    function = source.function(call)
    if not isinstance(function, cst.FunctionDef) or not call.args:
        return False
    parameters = [each.name.value for each in function.params.params if each.name.value != "self"]
    returns = [source.code(each) for each in source.find(cst.Return, function)]
    name = source.code(call.args[0].value)
    return len(parameters) == 1 and parameters[0] in name and any(parameters[0] in each for each in returns)
