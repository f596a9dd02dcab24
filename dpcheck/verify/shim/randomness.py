"""Randomness inside the models is taken out: the ranks and the reference compute the same function of the weights.

Dropout keeps everything. What a training forward draws besides becomes constant: a mask its probabilities, uniform
numbers their middle, normal ones half a deviation above their mean (at the mean itself the gradient of the deviation
would vanish).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch.nn import functional

from dpcheck.verify.session import Session
from dpcheck.verify.shim.patching import Function, Patches

_KEEP_ALL = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_KEEP_ALL_OF_TORCH = (
    "dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_",
    "feature_alpha_dropout", "feature_alpha_dropout_",
)  # fmt: skip
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_RNG = "randomness"


def install(session: Session, patches: Patches) -> None:
    steady = _Steady(session)
    _dropout(patches, steady)
    _draws_of_torch(patches, steady)
    _draws_in_place(patches, steady)
    _draws_of_others(patches, steady)
    import torch.utils.checkpoint

    patches.wrap(torch.utils.checkpoint, "checkpoint", steady.checkpointing)


class _Steady:
    """Decides whether a draw belongs to a training forward."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def note(self, text: str) -> None:
        self._session.note(_RNG, text, self._session.here())

    def drawing(self, name: str, constant: Callable[..., Any]) -> Callable[[Function], Function]:
        """Wraps a draw: inside a training forward, `constant(original, *args, **kwargs)` is called in its place."""

        def make(original: Function) -> Function:
            def draw(*args: Any, **kwargs: Any) -> Any:
                session = self._session
                if not session.training_forward or session.inside:
                    return original(*args, **kwargs)
                self.note(f"{name} inside a model gave constant numbers")
                return constant(original, *args, **kwargs)

            return draw

        return make

    def checkpointing(self, original: Function) -> Function:
        """A checkpointed function is run again in the backward, where it must see what it saw in the forward."""

        def checkpoint(function: Function, *args: Any, **kwargs: Any) -> Any:
            session = self._session
            if not session.training_forward:
                return original(function, *args, **kwargs)

            @functools.wraps(function)
            def in_forward(*inputs: Any, **options: Any) -> Any:
                session.training_forward += 1
                try:
                    return function(*inputs, **options)
                finally:
                    session.training_forward -= 1

            return original(in_forward, *args, **kwargs)

        return checkpoint


# -- dropout


def _dropout(patches: Patches, steady: _Steady) -> None:
    def keeping(original: Function) -> Function:
        def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
            if training and p:
                steady.note("dropout kept everything")
            return input

        return dropout

    def native_dropout(input: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
        return input, torch.ones_like(input, dtype=torch.bool)

    def attending(original: Function) -> Function:
        def attention(
            query: Any,
            key: Any,
            value: Any,
            attn_mask: Any = None,
            dropout_p: float = 0.0,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            if dropout_p:
                steady.note("dropout kept everything")
            return original(query, key, value, attn_mask, 0.0, *args, **kwargs)

        return attention

    def recurring(original: Function) -> Function:
        def recur(*args: Any) -> Any:
            # (…, parameters, has_biases, layers, dropout, train, …): what comes before differs for packed batches.
            position = next(number for number, argument in enumerate(args) if isinstance(argument, bool)) + 2
            if args[position] and args[position + 1]:
                steady.note("dropout kept everything")
            return original(*args[:position], 0.0, *args[position + 1 :])

        return recur

    patches.wrap_each(functional, _KEEP_ALL, keeping)
    patches.wrap_each(torch, _KEEP_ALL_OF_TORCH, keeping)
    patches.replace(torch, "native_dropout", native_dropout)
    patches.wrap(functional, "scaled_dot_product_attention", attending)
    for name in _RECURRENT:
        patches.wrap(torch._VF, name, recurring)
    patches.wrap(functional, "rrelu", lambda original: _leaky)
    patches.wrap(torch, "rrelu", lambda original: _leaky)


def _leaky(
    input: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> torch.Tensor:
    return functional.leaky_relu(input, (lower + upper) / 2, inplace)


# -- draws that make a tensor


def _draws_of_torch(patches: Patches, steady: _Steady) -> None:
    def filled(value: float) -> Callable[..., Any]:
        """A tensor of the size that is asked for, without a draw."""

        def constant(original: Function, *args: Any, **kwargs: Any) -> Any:
            return _without_drawing(original, value, *args, **kwargs)

        return constant

    constants: dict[str, Callable[..., Any]] = {
        "rand": filled(0.5),
        "rand_like": filled(0.5),
        "randn": filled(0.5),
        "randn_like": filled(0.5),
        "randint": _middle_integer,
        "randint_like": _middle_integer,
        "randperm": _in_order,
        "normal": _normal,
        "bernoulli": _probabilities,
        "multinomial": _likeliest,
        "poisson": lambda original, input, generator=None: input.clone(),
        "_standard_gamma": lambda original, input, generator=None: input.clone(),
        "_sample_dirichlet": lambda original, input, generator=None: input / input.sum(-1, keepdim=True),
    }
    for name, constant in constants.items():
        patches.wrap(torch, name, steady.drawing(f"torch.{name}", constant))
    patches.wrap(torch.Tensor, "bernoulli", steady.drawing("Tensor.bernoulli", _probabilities))
    patches.wrap(torch.Tensor, "multinomial", steady.drawing("Tensor.multinomial", _likeliest))


def _without_drawing(original: Function, value: float | int, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Draw all the same, from a generator of its own: so size, dtype and layout are right whatever the arguments."""
    state = torch.get_rng_state()
    requires_grad = kwargs.pop("requires_grad", False)
    kwargs.pop("generator", None)
    try:
        drawn: torch.Tensor = original(*args, **kwargs)
    finally:
        torch.set_rng_state(state)
    return drawn.fill_(value).requires_grad_(requires_grad)


def _middle_integer(original: Function, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`randint(low, high, size)` or `randint(high, size)`; `randint_like(input, high)` or `(input, low, high)`."""
    bounds = [argument for argument in args if isinstance(argument, int) and not isinstance(argument, bool)]
    low = kwargs.get("low", bounds[0] if len(bounds) > 1 else 0)
    high = kwargs.get("high", bounds[-1] if bounds else 1)
    return _without_drawing(original, (low + high) // 2, *args, **kwargs)


def _in_order(original: Function, n: int, *args: Any, **kwargs: Any) -> torch.Tensor:
    kwargs.pop("generator", None)
    return torch.arange(n, dtype=kwargs.get("dtype") or torch.int64)


def _normal(original: Function, *args: Any, **kwargs: Any) -> torch.Tensor:
    mean = kwargs.get("mean", args[0] if args else 0.0)
    std = kwargs.get("std", args[1] if len(args) > 1 else 1.0)
    if isinstance(mean, torch.Tensor) or isinstance(std, torch.Tensor):
        return torch.as_tensor(mean + 0.5 * std).detach().clone()
    return _without_drawing(original, mean + 0.5 * std, *args, **kwargs)


def _probabilities(original: Function, input: torch.Tensor, p: float | None = None, **kwargs: Any) -> torch.Tensor:
    return input.detach().clone() if p is None else torch.full_like(input, p)


def _likeliest(
    original: Function, input: torch.Tensor, num_samples: int, replacement: bool = False, **kwargs: Any
) -> torch.Tensor:
    if replacement:
        return input.argmax(-1, keepdim=True).expand(*input.shape[:-1], num_samples).clone()
    return input.topk(num_samples, dim=-1).indices


# -- draws into a tensor


def _draws_in_place(patches: Patches, steady: _Steady) -> None:
    def uniform(original: Function, self: torch.Tensor, from_: float = 0.0, to: float = 1.0, **kwargs: Any) -> Any:
        low = kwargs.get("from", from_)
        return self.fill_((low + to) / 2)

    def normal(original: Function, self: torch.Tensor, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> Any:
        return self.fill_(mean + 0.5 * std)

    def bernoulli(original: Function, self: torch.Tensor, p: Any = 0.5, **kwargs: Any) -> Any:
        return self.copy_(p) if isinstance(p, torch.Tensor) else self.fill_(p)

    def exponential(original: Function, self: torch.Tensor, lambd: float = 1.0, **kwargs: Any) -> Any:
        return self.fill_(1 / lambd)

    for name, constant in (
        ("uniform_", uniform), ("normal_", normal), ("bernoulli_", bernoulli), ("exponential_", exponential),
    ):  # fmt: skip
        patches.wrap(torch.Tensor, name, steady.drawing(f"Tensor.{name}", constant))


# -- draws of Python and numpy: layers that are skipped at random


def _draws_of_others(patches: Patches, steady: _Steady) -> None:
    def of_python(value: Callable[..., Any]) -> Callable[..., Any]:
        return lambda original, *args, **kwargs: value(*args, **kwargs)

    def middle(low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        return (low + high) / 2 if size is None else numpy.full(size, (low + high) / 2)

    def filled(*size: int) -> Any:
        return numpy.full(size, 0.5) if size else 0.5

    def sized(size: Any = None) -> Any:
        return 0.5 if size is None else numpy.full(size, 0.5)

    patches.wrap(random, "random", steady.drawing("random.random", of_python(lambda: 0.5)))
    patches.wrap(random, "uniform", steady.drawing("random.uniform", of_python(middle)))
    numpys: Any = numpy.random
    for name, value in (
        ("rand", filled), ("randn", filled), ("random", sized), ("random_sample", sized), ("uniform", middle),
    ):  # fmt: skip
        patches.wrap(numpys, name, steady.drawing(f"numpy.random.{name}", of_python(value)))
