"""How hooks reach functions that torch's modules, or libraries, have imported already."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

_OURS = "dpcheck"


def replace_everywhere(wrappers: Iterable[tuple[Callable[..., Any], Callable[..., Any]]]) -> None:
    """Put each wrapper where its original, a function of torch.distributed, was imported to, under any name.

    dpcheck's own modules keep the originals, and of torch's those outside of `torch.distributed` hold none. What an
    original itself wraps is replaced too: another hook's wrapper is not what torch's modules imported.
    """
    by_identity: dict[int, Callable[..., Any]] = {}
    for original, wrapper in wrappers:
        found: Any = original
        while found is not None:
            by_identity[id(found)] = wrapper
            found = getattr(found, "__wrapped__", None)
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or not _may_hold(str(names.get("__name__"))):
            continue
        if not by_identity.keys().isdisjoint(map(id, names.values())):
            names.update({name: by_identity[id(value)] for name, value in names.items() if id(value) in by_identity})


def _may_hold(module: str) -> bool:
    root = module.partition(".")[0]
    if root == "torch":
        return module.startswith("torch.distributed")
    return root != _OURS and root not in sys.stdlib_module_names
