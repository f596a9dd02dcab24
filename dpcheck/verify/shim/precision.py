"""One precision for everything: float64, or float32 where the job asks for it; what is lower becomes that.

In float64 the default dtype is float64, whatever makes or casts a tensor gives float64, and a module that was built in
float32 all the same is promoted in place before anything takes hold of its parameters: a wrapper, an optimizer, or its
first forward. Random numbers are still drawn as float32: initial weights are those of the script itself, cast up, and
its generator is where it would be.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from dpcheck.verify.session import Session
from dpcheck.verify.shim.factories import Factories
from dpcheck.verify.shim.patching import Function, Patches

TO_DOUBLE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
TO_SINGLE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}

_REINTERPRETING = ("frombuffer", "from_file")  # their dtype says what the bytes mean
_TAKE_DTYPE = {
    "torch": ("softmax log_softmax sum nansum mean nanmean prod cumsum cumprod norm native_norm").split(),
    "torch.nn.functional": ("softmax", "log_softmax", "softmin"),
    "torch.special": ("softmax", "log_softmax"),
    "torch.linalg": ("norm", "vector_norm", "matrix_norm"),
    "torch.sparse": ("sum", "softmax", "log_softmax"),
    "torch.Tensor": (
        "softmax log_softmax sum nansum mean nanmean prod cumsum cumprod cumsum_ cumprod_ norm to_dense"
    ).split(),
}
_MAKE_FROM_MEMORY = ("from_numpy", "from_dlpack")
_PASS_ON = ("as_tensor", "asarray")  # they give a tensor back that they are given
_CASTS = ("half", "bfloat16", "float", "cfloat", "chalf")
_DRAW = ("rand", "randn", "normal", "rand_like", "randn_like")
_DRAW_IN_PLACE = (
    "uniform_", "normal_", "bernoulli_", "exponential_", "random_", "log_normal_", "cauchy_", "geometric_",
)  # fmt: skip
_DRAW_BY = ("bernoulli", "poisson", "multinomial", "binomial", "_standard_gamma", "_sample_dirichlet")
"""Draws whose probabilities are a tensor."""
_NAMED_TYPES = {"HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16, "FloatTensor": torch.float32}
_DEPTH = 6  # of containers in which tensors are looked for


class _Here(threading.local):
    """Of one thread: depth of code that has the script's dtypes, and of calls of modules."""

    as_written = 0
    forwards = 0


class Precision:
    """What this process does with dtypes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._target = torch.float64 if session.job.dtype == "float64" else torch.float32
        self._raised = TO_DOUBLE if session.job.dtype == "float64" else TO_SINGLE
        self._here = _Here()
        self._written_default = torch.get_default_dtype()  # as the script would have it
        self._set_default: Function = torch.set_default_dtype
        self._to: Function = torch.Tensor.to
        self._promoted: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    @property
    def is_double(self) -> bool:
        return self._target is torch.float64

    # -- values

    def raised(self, dtype: torch.dtype) -> torch.dtype | None:
        """What tensors of this dtype become, if not what they are."""
        return self._raised.get(dtype)

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        raised = self._raised.get(dtype)
        if raised is None or self._here.as_written:
            return dtype
        if dtype in TO_SINGLE:
            self._session.note("low-precision", f"{dtype} became {raised}", self._session.here())
        return raised

    def tensor(self, tensor: Any, *, leaf: bool = False) -> Any:
        """The tensor in the precision of the run; `leaf` where it was just made and nothing depends on it yet."""
        raised = None if self._here.as_written else self._raised.get(getattr(tensor, "dtype", None))  # type: ignore[arg-type]
        if raised is None or not isinstance(tensor, torch.Tensor):
            return tensor
        if leaf and tensor.is_leaf:
            return self._to(tensor.detach(), raised).requires_grad_(tensor.requires_grad)
        return self._to(tensor, raised)

    def tree(self, value: Any, depth: int = _DEPTH) -> Any:
        """The value with every tensor in it raised; the value itself where there is nothing to raise."""
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if depth == 0:
            return value
        if type(value) in (list, tuple):
            items = [self.tree(item, depth - 1) for item in value]
            changed = any(new is not old for new, old in zip(items, value, strict=True))
            return type(value)(items) if changed else value
        if isinstance(value, Mapping) and hasattr(value, "__setitem__"):
            for key, item in list(value.items()):
                raised = self.tree(item, depth - 1)
                if raised is not item:
                    value[key] = raised
        return value

    # -- modules and parameters

    def promote(self, module: nn.Module) -> None:
        """Raise parameters and buffers in place: whoever holds them holds the raised ones."""
        for tensor in itertools.chain(module.parameters(), module.buffers()):
            self.promote_tensor(tensor)
        self._promoted.add(module)

    def promote_tensor(self, tensor: torch.Tensor) -> None:
        # A share of a sharded parameter was made from one that had been raised; a lazy one has no values yet.
        if tensor.dtype not in self._raised or hasattr(tensor, "_local_tensor") or nn.parameter.is_lazy(tensor):
            return
        gradient = tensor.grad
        tensor.grad = None
        tensor.data = self._to(tensor.data, self._raised[tensor.dtype])
        if gradient is not None:
            tensor.grad = self._to(gradient, tensor.dtype)

    # -- as the script wrote it

    @contextlib.contextmanager
    def as_written(self) -> Iterator[None]:
        """What runs inside has the dtypes that the script asks for."""
        self._here.as_written += 1
        self._set_default(self._written_default if self._written_default is torch.float64 else torch.float32)
        try:
            yield
        finally:
            self._set_default(self._target)
            self._here.as_written -= 1

    def _draws_single(self, dtype: torch.dtype | None) -> bool:
        """Whether the script would have drawn these numbers in float32, or lower."""
        if self._here.as_written or not self.is_double:
            return False
        written = self._written_default if dtype is None else dtype
        return written in (torch.float32, torch.float16, torch.bfloat16)

    # -- wrappers

    def making(self, original: Function) -> Function:
        """Of a function that makes a tensor and takes a dtype."""

        def make(*args: Any, **kwargs: Any) -> Any:
            if self._here.as_written:
                return original(*args, **kwargs)
            dtype = kwargs.get("dtype")
            if dtype is not None:
                kwargs["dtype"] = self.dtype(dtype)
            return self.tensor(original(*args, **kwargs), leaf=made)

        made = original.__name__ not in _PASS_ON
        return make

    def reinterpreting(self, original: Function) -> Function:
        return lambda *args, **kwargs: self.tensor(original(*args, **kwargs), leaf=True)

    def drawing(self, original: Function) -> Function:
        """Around `making`."""

        def draw(*args: Any, **kwargs: Any) -> Any:
            complex_like = bool(args) and isinstance(args[0], torch.Tensor) and args[0].is_complex()
            if not self._draws_single(kwargs.get("dtype")) or kwargs.get("out") is not None or complex_like:
                return original(*args, **kwargs)
            requires_grad = kwargs.pop("requires_grad", False)
            kwargs["dtype"] = torch.float32
            with self.as_written():
                drawn = original(*args, **kwargs)
            return self._to(drawn, torch.float64).requires_grad_(requires_grad)

        return draw

    def drawing_by(self, original: Function) -> Function:
        def draw(*args: Any, **kwargs: Any) -> Any:
            tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
            doubles = any(tensor.dtype is torch.float64 for tensor in tensors)
            if not doubles or not self._draws_single(None) or kwargs.get("out") is not None:
                return original(*args, **kwargs)
            drawn = original(*map(self._lowered, args), **{name: self._lowered(a) for name, a in kwargs.items()})
            return self.tensor(drawn)

        return draw

    def _lowered(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
            return self._to(value, torch.float32)
        return value

    def drawing_normal(self, original: Function) -> Function:
        """`torch.normal` has means and deviations, or a size."""
        by_tensors, by_size = self.drawing_by(original), self.drawing(original)

        def draw(*args: Any, **kwargs: Any) -> Any:
            of_tensors = any(isinstance(argument, torch.Tensor) for argument in (*args, *kwargs.values()))
            return (by_tensors if of_tensors else by_size)(*args, **kwargs)

        return draw

    def drawing_in_place(self, original: Function) -> Function:
        def draw(self_: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self_.dtype is not torch.float64 or not self._draws_single(None):
                return original(self_, *args, **kwargs)
            with torch.no_grad(), self.as_written():
                drawn = torch.empty_like(self_, dtype=torch.float32, requires_grad=False)
                original(drawn, *map(self._lowered, args), **kwargs)
            return self_.copy_(drawn)

        return draw

    def initializing(self, original: Function) -> Function:
        """Of a function of `torch.nn.init`: its arithmetic too is that of float32."""

        def initialize(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(tensor, "dtype", None) is not torch.float64 or not self._draws_single(None):
                return original(tensor, *args, **kwargs)
            with torch.no_grad(), self.as_written():
                single = self._to(tensor.detach(), torch.float32)
                original(single, *args, **kwargs)
            with torch.no_grad():
                tensor.copy_(single)
            return tensor

        return initialize

    def taking_dtype(self, original: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._here.as_written:
                return original(*args, **kwargs)
            args = self._arguments(args, kwargs)
            return original(*args, **kwargs)

        return call

    def moving(self, original: Function) -> Function:
        """Of `Tensor.to`: wherever a tensor goes, it goes in the precision of the run."""

        def to(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self._here.as_written:
                return original(self_, *args, **kwargs)
            args = self._arguments(args, kwargs)
            if args and isinstance(args[0], torch.Tensor):
                args = (self.tensor(args[0]), *args[1:])
            return self.tensor(original(self_, *args, **kwargs))

        return to

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if kwargs.get("dtype") is not None:
            kwargs["dtype"] = self.dtype(kwargs["dtype"])
        return tuple(self.dtype(argument) if isinstance(argument, torch.dtype) else argument for argument in args)

    def casting(self, original: Function) -> Function:
        """Of `Tensor.half()` and its like."""

        def cast(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self._here.as_written:
                return original(self_, *args, **kwargs)
            named: torch.dtype = _dtype_named(original.__name__)
            return self._to(self_, self.dtype(named), *args, **kwargs)

        return cast

    def typing(self, original: Function) -> Function:
        """Of `Tensor.type`: without arguments it tells the type."""

        def type_(self_: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
            if dtype is None:
                return original(self_)
            if isinstance(dtype, str):
                name = dtype.rpartition(".")[2]
                dtype = _NAMED_TYPES.get(name) or f"torch.{name}"
            if isinstance(dtype, torch.dtype):
                dtype = self.dtype(dtype)
            return original(self_, dtype, *args, **kwargs)

        return type_

    def casting_module(self, original: Function) -> Function:
        def cast(self_: nn.Module) -> nn.Module:
            named = _dtype_named(original.__name__)
            raised = self.dtype(named)
            if raised is named:
                result: nn.Module = original(self_)
                return result
            apply: Callable[..., nn.Module] = self_._apply
            return apply(lambda tensor: self._to(tensor, raised) if tensor.is_floating_point() else tensor)

        return cast

    def moving_module(self, original: Function) -> Function:
        def to(self_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            args = self._arguments(args, kwargs)
            return original(self_, *args, **kwargs)

        return to

    def calling(self, original: Function) -> Function:
        """Of `Module.__call__`: the outermost call promotes the module, and what enters it."""

        def call(self_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._here.forwards:
                return original(self_, *args, **kwargs)
            if self_ not in self._promoted:
                self.promote(self_)
            args = tuple(self.tree(argument) for argument in args)
            kwargs = {name: self.tree(argument) for name, argument in kwargs.items()}
            self._here.forwards += 1
            try:
                return original(self_, *args, **kwargs)
            finally:
                self._here.forwards -= 1

        return call

    def loading(self, original: Function) -> Function:
        def load(*args: Any, **kwargs: Any) -> Any:
            loaded = original(*args, **kwargs)
            if isinstance(loaded, nn.Module):
                self.promote(loaded)
            return self.tree(loaded)

        return load

    def setting_default(self, original: Function) -> Function:
        def set_default_dtype(dtype: torch.dtype) -> None:
            if self._here.as_written:
                original(dtype)
                return
            self._written_default = dtype
            original(self._target if dtype in (*TO_DOUBLE, torch.float64) and self.is_double else self.dtype(dtype))

        return set_default_dtype

    def optimizing(self, original: Function) -> Function:
        def initialize(self_: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            original(self_, *args, **kwargs)
            for group in self_.param_groups:
                for parameter in group["params"]:
                    self.promote_tensor(parameter)

        return initialize


def _dtype_named(cast: str) -> torch.dtype:
    """The dtype that `Tensor.float()`, say, casts to."""
    dtype: torch.dtype = getattr(torch, cast)
    return dtype


def install(session: Session, patches: Patches, factories: Factories) -> Precision:
    precision = Precision(session)
    for owner, name in factories:
        patches.wrap(owner, name, precision.reinterpreting if name in _REINTERPRETING else precision.making)
    patches.wrap_each(torch, _MAKE_FROM_MEMORY, precision.reinterpreting)
    owners = {
        "torch": torch,
        "torch.nn.functional": functional,
        "torch.special": torch.special,
        "torch.linalg": torch.linalg,
        "torch.sparse": torch.sparse,
        "torch.Tensor": torch.Tensor,
    }
    for owner_name, names in _TAKE_DTYPE.items():
        patches.wrap_each(owners[owner_name], names, precision.taking_dtype)
    patches.wrap_each(torch.Tensor, _CASTS, precision.casting)
    patches.wrap(torch.Tensor, "type", precision.typing)
    patches.wrap(torch.Tensor, "to", precision.moving)
    patches.wrap_each(torch.Tensor, ("cuda", "type_as"), precision.moving)
    patches.wrap_each(nn.Module, ("half", "bfloat16", "float"), precision.casting_module)
    patches.wrap(nn.Module, "to", precision.moving_module)
    patches.wrap(nn.Module, "__call__", precision.calling)
    patches.wrap(torch, "load", precision.loading)
    patches.wrap(torch.optim.Optimizer, "__init__", precision.optimizing)
    _tensor_types(patches, precision)
    if precision.is_double:
        _as_double(patches, precision)
    patches.wrap(torch, "set_default_dtype", precision.setting_default)
    return precision


def _as_double(patches: Patches, precision: Precision) -> None:
    patches.wrap_each(torch, [name for name in _DRAW if name != "normal"], precision.drawing)
    patches.wrap(torch, "normal", precision.drawing_normal)
    patches.wrap_each(torch, _DRAW_BY, precision.drawing_by)
    patches.wrap_each(torch.Tensor, ("bernoulli", "multinomial"), precision.drawing_by)
    patches.wrap_each(torch.Tensor, _DRAW_IN_PLACE, precision.drawing_in_place)
    initializers = [name for name in vars(nn.init) if name.endswith("_") and not name.startswith("_")]
    patches.wrap_each(nn.init, initializers, precision.initializing)
    torch.set_default_dtype(torch.float64)


def _tensor_types(patches: Patches, precision: Precision) -> None:
    """`torch.FloatTensor` and its like, which are types and called all the same."""
    for name, dtype in _NAMED_TYPES.items():
        raised = precision.raised(dtype)
        if raised is not None:
            patches.replace(torch, name, torch.DoubleTensor if raised is torch.float64 else torch.FloatTensor)

    def setting(original: Function) -> Function:
        def set_default_tensor_type(kind: Any) -> None:
            name = kind if isinstance(kind, str) else kind.__name__
            named = name.rpartition(".")[2].removesuffix("Tensor").lower()
            if not isinstance(kind, str) and named == "double" and precision.is_double:
                named = "float"  # `torch.FloatTensor` has become `torch.DoubleTensor`
            if named in ("half", "bfloat16", "float", "double"):
                torch.set_default_dtype(getattr(torch, named))
            else:
                original(kind)

        return set_default_tensor_type

    patches.wrap(torch, "set_default_tensor_type", setting)
